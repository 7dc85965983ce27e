"""One command for a task of ours and a task written as the runner's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.runner import CommandResult, Workplace
from support.sketch import sketched, write_users


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return sketched(tmp_path_factory.mktemp("mixed"))


@pytest.fixture(scope="module")
def result(workplace: Workplace) -> CommandResult:
    users = write_users(workplace.folder / "users", local="A local one")
    return workplace.run(
        *("lmms-eval", "--model", "stub", "--model_args", "answer=green"),
        *("--tasks", "sketch,local", "--include_path", str(users), "--limit", "3"),
        *("--output_path", "out", "--log_samples"),
    )


@pytest.fixture(scope="module")
def out(result: CommandResult, workplace: Workplace) -> Path:
    assert result.status == 0, result.output
    return workplace.folder / "out"


def logged(out: Path, ending: str) -> str:
    (path,) = out.rglob(f"*_{ending}")
    return path.read_text(encoding="utf-8")


def test_the_table_has_a_row_for_each_task(result: CommandResult) -> None:
    assert result.values == {
        ("A local one", "local_acc"): "0.3333",
        ("A sketch", "sketch_acc"): "0.3333",
    }, result.output


@pytest.mark.parametrize(
    ("task", "metric"), [pytest.param("sketch", "sketch_acc"), pytest.param("local", "local_acc")]
)
def test_the_samples_of_each_task_are_logged_up_to_the_limit(
    out: Path, task: str, metric: str
) -> None:
    lines = logged(out, f"samples_{task}.jsonl").splitlines()
    samples: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert [sample[metric] for sample in samples] == [0.0, 1.0, 0.0]
    assert samples[1]["target"] == "green"


def test_the_results_file_has_both_tasks(out: Path) -> None:
    results = json.loads(logged(out, "results.json"))["results"]
    assert results["sketch"]["sketch_acc,none"] == results["local"]["local_acc,none"]
