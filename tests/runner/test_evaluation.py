"""What belongs to one evaluation, where a process runs several."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmie_tasks.benchmarks.model_answers import add_answer_folder, resolver
from mmie_tasks.runner import hooks
from mmie_tasks.runner.evaluation import RunningEvaluation, running_evaluation


class Model:
    """The part of a tested model that the hooks use."""

    batch_size = 1


class Runner:
    """The runner's two functions, wrapped by the hooks; notes what it sees in ``evaluate``."""

    def __init__(self) -> None:
        self.evaluations: list[RunningEvaluation | None] = []
        self.images: list[bool] = []  # whether the image `a.png` of an answer is found
        self.evaluate = hooks.judge_answers(self._evaluate)
        self.simple_evaluate = hooks.check_first(self._simple_evaluate)

    def _evaluate(self, lm: object, task_dict: object) -> None:
        del task_dict
        self.evaluations.append(evaluation := running_evaluation())
        assert evaluation is not None
        assert list(evaluation.models) == [lm]
        self.images.append(resolver().locate("a.png").path is not None)

    def _simple_evaluate(
        self,
        output: Path,
        *,
        dies: bool = False,
        model: str = "stub",
        model_args: str = "",
        tasks: tuple[str, ...] = (),
        task_manager: object = None,
        launcher_args: str | None = None,
        predict_only: bool = False,
        cli_args: object = None,
    ) -> None:
        del model, model_args, tasks, task_manager, launcher_args, predict_only, cli_args
        begun = running_evaluation()
        add_answer_folder(output)
        self.evaluate(lm=Model(), task_dict={})
        assert self.evaluations[-1] is begun
        if dies:
            raise RuntimeError("out of memory")


def check_apart(evaluations: list[RunningEvaluation | None]) -> None:
    """Check that two evaluations have nothing in common, and that none runs."""
    first, second = evaluations
    assert first is not None
    assert second is not None
    assert first.session is not second.session
    assert not first.models & second.models
    assert first.summary is not second.summary
    assert first.output is not second.output
    assert running_evaluation() is None


def test_nothing_is_left_of_an_evaluation_that_dies(tmp_path: Path) -> None:
    runner, image = Runner(), tmp_path / "first" / "a.png"
    image.parent.mkdir()
    image.write_bytes(b"x")
    with pytest.raises(RuntimeError):
        runner.simple_evaluate(image.parent, dies=True)
    runner.simple_evaluate(tmp_path / "second")
    check_apart(runner.evaluations)
    assert runner.images == [True, False]
