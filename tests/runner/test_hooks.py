"""An evaluation: its state, its checks, the batches of its model, and its signed results."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lmms_eval import evaluator
from lmms_eval.caching.response_cache import ResponseCache
from support.report_runs import SKETCH
from support.signatures import signature_from
from support.unloaded_benchmark import varied

from mmie_tasks.answers.failures import failure_of
from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK as MMIE
from mmie_tasks.benchmarks.model_answers import add_answer_folder, resolver
from mmie_tasks.core.choice import Choice
from mmie_tasks.core.errors import DataMissing, SettingWrong
from mmie_tasks.judges.choice import ChosenJudges
from mmie_tasks.judges.session import JudgingSession
from mmie_tasks.runner import early_checks, hooks, results_metadata
from mmie_tasks.runner.evaluation import (
    RunningEvaluation,
    new_evaluation,
    running,
    running_evaluation,
)
from mmie_tasks.runner.generation import name_null_replies


class Task:
    """The part of the runner's task object that is used."""

    def __init__(self) -> None:
        self.config = SimpleNamespace(metadata={"version": "1-A"}, task="sketch")
        self.eval_docs_no_media = [{"id": str(i)} for i in range(5)]
        self._metric_fn_list: dict[str, object] = {}
        self.model_name = "stub"

    def dump_config(self) -> dict[str, Any]:
        return {"metadata": dict(self.config.metadata)}


def benchmark(**fields: Any) -> Benchmark:
    signature = lambda doc: signature_from(f"judge:x|first:{doc['id']}")  # noqa: E731
    unchecked = lambda _docs: None  # noqa: E731
    return varied(SKETCH, **{"signature": signature, "check_data": unchecked, **fields})


def test_the_key_of_the_runners_cache_of_answers_depends_on_the_data(tmp_path: Path) -> None:
    keys = []
    for data in ("sha256:1", "sha256:2", "sha256:2"):
        task = Task()
        task.eval_docs_no_media = [{"id": "0", "data": data}]
        results_metadata.add_data(task)
        cache = ResponseCache.create(str(tmp_path), task_dict={"m": task})
        keys.append(cache._task_fingerprints)
        cache.close()
    assert keys[0] != keys[1] == keys[2]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        pytest.param({"model": "m"}, {"judges": ["openai:model=m"]}, id="judge"),
        pytest.param({"base_url": "https://host/v1?code=word"}, {}, id="may-hold-a-secret"),
    ],
)
def test_results_are_signed_after_judging_and_name_judge_and_machine(
    options: dict[str, str], named: dict[str, object]
) -> None:
    """The task's own configuration, which keys the runner's cache of answers, stays unsigned."""
    chosen = ChosenJudges(judges=(Choice(name="openai", options=options),))
    judge = SimpleNamespace(
        benchmark="sketch", machine=lambda: "NVIDIA H200, torch 2.12.0", choices=lambda: chosen
    )
    task = Task()
    configs = {"sketch": task.dump_config()}
    results_metadata.add_signatures(configs, {"sketch": task}, {task: benchmark(judge=judge)})
    assert configs["sketch"]["metadata"] == {
        "version": "1-A",
        "signature": "judge:x|first:0",
        "judged_on": "NVIDIA H200, torch 2.12.0",
        **named,
    }
    assert task.dump_config() == {"metadata": {"version": "1-A"}}


class Model:
    """The part of the runner's model that is used. Its answers are the calls that it got them
    in.
    """

    def __init__(self, batch_size: object) -> None:
        self.batch_size = batch_size
        self.calls: list[str] = []

    def generate_until(self, requests: list[SimpleNamespace]) -> list[str]:
        self.calls.append("".join(request.task_name for request in requests))
        return [f"{request.task_name}{len(self.calls)}" for request in requests]

    def clean(self) -> None: ...


@pytest.mark.parametrize(
    ("batch_size", "has_ours", "calls"),
    [
        pytest.param("auto", True, ["aa", "b", "cc"], id="batches"),
        pytest.param("1", True, ["aabcc"], id="no-batches"),
        pytest.param(4, False, ["aabcc"], id="none-of-ours"),
    ],
)
def test_a_model_that_batches_gets_one_task_per_call_beside_a_task_of_ours(
    monkeypatch: pytest.MonkeyPatch, batch_size: object, has_ours: bool, calls: list[str]
) -> None:
    tasks = {"mine": Task(), "theirs": Task()}
    if has_ours:
        monkeypatch.setattr(hooks, "benchmark_of", {tasks["mine"]: benchmark()}.get)
    model, answers = Model(batch_size), list[str]()

    def evaluate(lm: Model, task_dict: object) -> None:
        del task_dict
        answers.extend(lm.generate_until([SimpleNamespace(task_name=name) for name in "aabcc"]))

    hooks.judge_answers(evaluate)(lm=model, task_dict=tasks)
    assert model.calls == calls
    assert [answer[0] for answer in answers] == list("aabcc")
    assert "generate_until" not in vars(model)


def test_broken_data_ends_a_command_before_generation_and_closes_the_judges(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def check_data(docs: object) -> None:
        raise DataMissing(f"2 of {len(docs)} images are not there", hint="draw them")

    def evaluate(lm, task_dict, limit, offset, cli_args):  # noqa: ARG001 - of the runner
        raise AssertionError("generates answers")

    task, folders, closed = Task(), list[Path](), list[JudgingSession]()
    broken = benchmark(check_data=check_data, add_answer_folder=folders.append)
    monkeypatch.setattr(hooks, "benchmark_of", {task: broken}.get)
    monkeypatch.setattr(JudgingSession, "close", lambda session: closed.append(session))
    options = {"lm": Model(1), "task_dict": {"mine": task}, "limit": 0.5, "offset": 1}
    command_line = SimpleNamespace(output_path="out")
    with pytest.raises(SystemExit, match="2 of 3 images are not there"):
        hooks.judge_answers(evaluate)(**options, cli_args=command_line)
    assert (folders, len(closed)) == ([Path("out")], 1)
    with pytest.raises(DataMissing):
        hooks.judge_answers(evaluate)(**options, cli_args=None)


def test_a_null_reply_is_a_failure_and_an_empty_one_an_answer() -> None:
    requests = [SimpleNamespace(resps=[None, ""]), SimpleNamespace(resps=["A fox."])]
    name_null_replies([SimpleNamespace(instances=requests)])
    (null, empty), text = requests[0].resps, requests[1].resps
    assert "null" in str(failure_of(null))
    assert (empty, text) == ("", ["A fox."])


@pytest.mark.parametrize("rank", [0, 1])
def test_a_judge_for_an_unknown_benchmark_stops_a_run_from_python(
    monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    monkeypatch.setenv("MMIE_TASKS_JUDGE", "openai:m mmei=mmie_score")
    with pytest.raises(SettingWrong, match="`mmei`, which is not a benchmark"):
        early_checks.check_judges([MMIE], rank)


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

    @wraps(evaluator.simple_evaluate)
    def simple_evaluate(_model, model_args, **_):
        add_answer_folder(Path(model_args))
        hooks.judge_answers(evaluate)(lm=Model(1), task_dict={})
        if image.is_relative_to(model_args):
            raise RuntimeError("out of memory")

    wrapped = hooks.check_first(simple_evaluate)
    with pytest.raises(RuntimeError):
        wrapped("stub", model_args=str(image.parent))
    wrapped("stub", model_args=str(tmp_path / "second"))
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
