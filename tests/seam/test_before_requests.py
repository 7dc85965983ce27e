"""Our tasks check their data before anything is generated; `mmie-tasks eval` says whether a run
failed.
"""

from __future__ import annotations

import pytest
from support.runner import CommandResult, Workplace, write
from support.sketch import sketched

BROKEN = "2 of 4 images of `sketch` are not there."
LOOKED = "sketch: looked at {} samples before requests"

FROM_PYTHON = """
import os, sys
from loguru import logger
from lmms_eval.evaluator import simple_evaluate
from lmms_eval.tasks import TaskManager
from mmie_tasks.core.errors import DataMissing

logger.add(sys.stdout, level="INFO")
manager = TaskManager(model_name="predictions")
saved = "path=saved.json"
simple_evaluate(model="predictions", model_args=saved, tasks=["sketch"], task_manager=manager)
print("predictions: scored")
os.environ["SKETCH_BROKEN"] = "1"
manager.model_name = "stub"
try:
    simple_evaluate(model="stub", tasks=["sketch"], task_manager=manager)
except DataMissing as error:
    print("caught:", error)
del os.environ["SKETCH_BROKEN"]
print("looking again")
simple_evaluate(model="stub", tasks=["sketches"], task_manager=manager, predict_only=True)
"""


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return sketched(tmp_path_factory.mktemp("before_requests"))


@pytest.fixture(scope="module")
def from_python(workplace: Workplace) -> CommandResult:
    write(workplace.folder / "saved.json", '{"q0": "red"}')
    write(workplace.folder / "start_evaluation.py", FROM_PYTHON)
    return workplace.run("python", "start_evaluation.py")


def test_invalid_data_ends_a_command_with_status_1_before_generation(workplace: Workplace) -> None:
    result = workplace.run("lmms-eval", "--model", "stub", "--tasks", "sketch", SKETCH_BROKEN="1")
    assert result.status == 1
    assert BROKEN in result.output
    assert "Traceback" not in result.output
    assert "stub: generating" not in result.output


def test_invalid_data_is_an_exception_in_python(from_python: CommandResult) -> None:
    assert f"caught: {BROKEN}" in from_python.output


def test_data_is_not_checked_for_the_model_predictions(from_python: CommandResult) -> None:
    before, _after = from_python.output.split("predictions: scored")
    assert "sketch: looked at" not in before


def test_data_is_checked_for_tags_and_predict_only_runs(from_python: CommandResult) -> None:
    _before, after = from_python.output.split("looking again")
    assert after.count(LOOKED.format(4)) == 2  # sketch and mmie by their tag


CONFIG = """
- {model: stub, tasks: skech}
- {model: stub, model_args: answer=none, tasks: sketch, limit: 1}
- {model: stub, model_args: answer=red, tasks: sketch, limit: 2, offset: 3}
"""


def test_failed_evaluations_end_with_status_1_after_the_others(workplace: Workplace) -> None:
    write(workplace.folder / "runs.yaml", CONFIG)
    result = workplace.run("mmie-tasks", "eval", "--config", "runs.yaml")
    assert result.status == 1, result.output
    assert "Tasks not found: skech" in result.output
    assert result.output.count("stub: generating 1 answers") == 2
    assert result.values == {("A sketch", "sketch_acc"): "1"}, result.output
    failed = "the evaluation of `stub (answer=none)` on `sketch` failed; its error is above."
    assert result.output.count(failed) == 1
    assert result.output.count("RuntimeError: the stub") == 1
    assert result.output.count(LOOKED.format(1)) == 2  # within `limit` and `offset`
