"""One command for a task of ours, a task written as the runner's own, and a launcher by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.runner import CommandResult, Workplace, write
from support.sketch import sketched, write_users

LAUNCHER = """
from loguru import logger

logger.warning("noted: imported")


class Noted:
    def __init__(self, **settings):
        logger.warning(f"noted: made with {settings}")

    def launch(self):
        logger.warning("noted: launched")

    def clean(self):
        logger.warning("noted: cleaned")
"""


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    workplace = sketched(tmp_path_factory.mktemp("mixed"))
    write(workplace.plugins / "noted_launcher.py", LAUNCHER)
    for name in ("noted", "sglang"):
        workplace.install_entry_point("mmie_tasks.launchers", name, "noted_launcher:Noted")
    return workplace


@pytest.fixture(scope="module")
def result(workplace: Workplace) -> CommandResult:
    users = write_users(workplace.folder / "users", local="A local one")
    return workplace.run(
        *("lmms-eval", "--model", "stub", "--model_args", "answer=green"),
        *("--tasks", "sketch,local", "--include_path", str(users), "--limit", "3"),
        *("--output_path", "out", "--log_samples", "--launcher_args", "name=noted,port=7"),
    )


@pytest.fixture(scope="module")
def out(result: CommandResult, workplace: Workplace) -> Path:
    assert result.status == 0, result.output
    return workplace.folder / "out"


def logged(out: Path, ending: str) -> str:
    (path,) = out.rglob(f"*_{ending}")
    return path.read_text(encoding="utf-8")


def test_the_table_has_a_row_for_each_task(result: CommandResult) -> None:
    assert result.values == {("A local one", "local_acc"): "0.3333", ("A sketch", "sketch_acc"): "0.3333"}, (
        result.output
    )


@pytest.mark.parametrize(("task", "metric"), [pytest.param("sketch", "sketch_acc"), pytest.param("local", "local_acc")])
def test_the_samples_of_each_task_are_logged_up_to_the_limit(out: Path, task: str, metric: str) -> None:
    lines = logged(out, f"samples_{task}.jsonl").splitlines()
    samples: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert [sample[metric] for sample in samples] == [0.0, 1.0, 0.0]
    assert samples[1]["target"] == "green"


def test_the_results_file_has_both_tasks(out: Path) -> None:
    results = json.loads(logged(out, "results.json"))["results"]
    assert results["sketch"]["sketch_acc,none"] == results["local"]["local_acc,none"]


def test_a_launcher_of_an_installed_package_is_found_by_its_name(result: CommandResult) -> None:
    created = result.output.index("noted: made with {'port': 7}")
    generated = result.output.index("stub: generating")
    launched = result.output.index("noted: launched")
    assert created < generated < launched < result.output.index("noted: cleaned")


def test_a_launcher_cannot_take_a_name_of_the_runner(result: CommandResult) -> None:
    assert "the launcher `sglang` = `noted_launcher.Noted` was not added" in result.output
