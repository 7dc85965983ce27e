"""Nothing of an evaluation is left in the next one of the same process."""

from __future__ import annotations

from pathlib import Path

import pytest

from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK as MMIE
from mmie_tasks.benchmarks.model_answers import add_answer_folder, resolver
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.runner import hooks
from mmie_tasks.runner.evaluation import (
    RunningEvaluation,
    new_evaluation,
    running,
    running_evaluation,
)


class Model:
    """The part of a tested model that the hooks use."""

    batch_size = 1


def test_nothing_is_left_of_an_evaluation_that_dies(tmp_path: Path) -> None:
    image = tmp_path / "first" / "a.png"
    image.parent.mkdir()
    image.write_bytes(b"x")
    evaluations: list[RunningEvaluation] = []
    finds_image: list[bool] = []

    def evaluate(lm: object, task_dict: object) -> None:
        del task_dict
        evaluation = running_evaluation()
        assert evaluation is not None
        assert list(evaluation.models) == [lm]
        evaluations.append(evaluation)
        finds_image.append(resolver().locate("a.png").path is not None)

    def simple_evaluate(
        model: str = "stub",
        model_args: str = "",
        tasks: tuple[str, ...] = (),
        task_manager: object = None,
        launcher_args: str | None = None,
        predict_only: bool = False,
        cli_args: object = None,
    ) -> None:
        del model, tasks, task_manager, launcher_args, predict_only, cli_args
        add_answer_folder(Path(model_args))
        hooks.judge_answers(evaluate)(lm=Model(), task_dict={})
        if image.is_relative_to(model_args):
            raise RuntimeError("out of memory")

    wrapped = hooks.check_first(simple_evaluate)
    with pytest.raises(RuntimeError):
        wrapped(model_args=str(image.parent))
    wrapped(model_args=str(tmp_path / "second"))
    for name in ("session", "summary", "output"):
        assert len({id(getattr(one, name)) for one in evaluations}) == 2
    assert running_evaluation() is None
    assert finds_image == [True, False]


def test_all_tasks_of_a_benchmark_have_the_same_settings_until_the_evaluation_ends() -> None:
    for _ in range(2):
        evaluation = new_evaluation({}, {})
        with running(evaluation):
            assert MMIE.settings.min_coverage == 0.9
            evaluation.configure("mmie", MMIE, {"min_coverage": 0.5})
            assert MMIE.settings.min_coverage == 0.5
            with pytest.raises(SettingWrong, match="`mmie_sa` has other settings"):
                evaluation.configure("mmie_sa", MMIE, {})
