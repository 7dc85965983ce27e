"""What is checked before a model is loaded, and the benchmarks whose data and judges are."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from mmie_tasks.core.errors import AnswersUnusable, DataMissing, MmieTasksError, SettingWrong
from mmie_tasks.core.files import task_dir
from mmie_tasks.runner.early_checks import check_before_model
from mmie_tasks.runner.evaluation import RunningEvaluation, new_evaluation, running

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LOG = "20261101_000000_samples_{}.jsonl"


def indexed(path: Path) -> dict[str, object]:
    return {"type": "task", "yaml_path": str(path)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with saved answers; there is data of MileBench, and no network."""
    (tmp_path / "scores.json").write_text('{"accuracy": 0.5}')
    (tmp_path / "plain.jsonl").write_text('{"id": "1", "answer": "A"}\n')
    for task in ("mia_bench", "milebench_DocVQA", "mme"):
        line = {"doc_id": 0, "resps": [["A"]], "filtered_resps": ["A"], "coverage": {"id": "1"}}
        (tmp_path / "out" / task).mkdir(parents=True)
        (tmp_path / "out" / task / LOG.format(task)).write_text(json.dumps(line) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MILEBENCH_DATA", str(EXAMPLES / "milebench" / "data"))
    monkeypatch.setenv("MMIE_TASKS_CACHE", "cache")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


def check(
    tasks: Sequence[str], model: str = "theirs", path: str = "", *, predict_only: bool = False
) -> None:
    """Check a run of a command line, with an index that has all our tasks and one of others."""
    index = {file.stem: indexed(file) for file in task_dir().glob("*/[!_]*.yaml")}
    options = {
        "cli_args": Namespace(tasks=",".join(tasks) or "nothing*"),
        "tasks": tasks,
        "model": model,
        "model_args": f"path={path}",
        "predict_only": predict_only,
        "task_manager": SimpleNamespace(task_index={**index, "theirs": {"type": "task"}}),
    }
    evaluation = new_evaluation({}, options)
    with running(evaluation):
        check_before_model(options, evaluation)


@pytest.mark.parametrize(
    ("arguments", "error", "names"),
    [
        pytest.param(([],), SettingWrong, ["`--tasks nothing*`"], id="no-task"),
        pytest.param((["opening"], "hf"), SettingWrong, ["--model NAME"], id="no-model"),
        pytest.param(
            (["opening"],), DataMissing, ["HF_HUB_OFFLINE", "OPENING_DATA"], id="offline-no-data"
        ),
        pytest.param(
            (["milebench"], "predictions", "nowhere"), AnswersUnusable, ["nowhere"], id="no-path"
        ),
        pytest.param(
            (["theirs"], "predictions", "scores.json"),
            AnswersUnusable,
            ["scores.json"],
            id="no-answers",
        ),
        pytest.param(
            (["theirs", "milebench_DocVQA"], "predictions", "out/mia_bench"),
            AnswersUnusable,
            ["None of the 1 ", "`milebench_DocVQA`", "`mia_bench`", "--tasks mia_bench"],
            id="log-of-another-benchmark",
        ),
    ],
)
@pytest.mark.usefixtures("folder")
def test_what_cannot_be_used_is_refused(
    arguments: tuple[Sequence[str], str, str], error: type[MmieTasksError], names: list[str]
) -> None:
    with pytest.raises(error) as refusal:
        check(*arguments)
    assert all(name in str(refusal.value) for name in names)


@pytest.mark.parametrize(
    ("tasks", "path"),
    [
        pytest.param(["milebench"], "out/milebench_DocVQA", id="log-of-a-smaller-task"),
        pytest.param(["milebench"], "plain.jsonl", id="answers-without-a-task"),
        pytest.param(["milebench"], "out/mme", id="log-of-a-task-that-may-be-the-users"),
        pytest.param(["theirs"], "out/mia_bench", id="none-of-our-tasks"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_answers_that_may_be_to_a_requested_task_are_left_to_the_run(
    tasks: list[str], path: str
) -> None:
    check(tasks, "predictions", path)


@pytest.mark.usefixtures("folder")
def test_predict_only_needs_no_data_yet_and_reads_the_settings_that_the_questions_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []
    note = lambda _self, task, _benchmark, _metadata: read.append(task)  # noqa: E731
    monkeypatch.setattr(RunningEvaluation, "configure", note)
    check(["opening"], predict_only=True)
    assert read == ["opening"]
