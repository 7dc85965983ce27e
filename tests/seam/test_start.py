"""Every way of starting the runner knows our tasks, of names that it has too (built-in < ours <
the user's ``--include_path``), and checks their data before anything is generated.

``accelerate launch`` is started as a process. The others run their entry point in a fork, in which
nothing of `mmie_tasks` and no model or task of `lmms_eval` is imported: see `support.fork_server`.
"""

from __future__ import annotations

import pytest
from support.runner import CommandResult, Workplace, write
from support.sketch import sketched, write_users

OVERRIDDEN = "mmie-tasks: mia_bench, mme, mmie: ours instead of the built-in of the same name"
ACCELERATE = "accelerate launch --cpu --num_processes 1 --num_machines 1 --mixed_precision no"
BROKEN = "2 of 4 images of `sketch` are not there."
LOOKED = "sketch: looked at {} samples before requests"

FROM_PYTHON = """
from lmms_eval.evaluator import simple_evaluate
results = simple_evaluate(model="stub", tasks=["mme"])["results"]["mme"]
print(results["alias"], results["sketch_acc,none"])

import os, sys
from loguru import logger
from lmms_eval.tasks import TaskManager
from mmie_tasks.core.errors import DataMissing

logger.add(sys.stdout, level="INFO")
manager = TaskManager(model_name="predictions")
saved = "path=saved.json,missing=count"
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
    return sketched(tmp_path_factory.mktemp("start"))


def test_accelerate_uses_our_task(workplace: Workplace) -> None:
    start = f"{ACCELERATE} --dynamo_backend no -m lmms_eval --model stub --tasks mme"
    result = workplace.run_process(*start.split())
    assert result.values == {("MME as a sketch", "sketch_acc"): "0.5"}, result.output
    assert result.output.count(OVERRIDDEN) == 1


def test_a_tag_has_the_users_task_beside_ours(workplace: Workplace) -> None:
    users = write_users(workplace.folder / "users", mme="MME of a user")
    options = ("--model", "stub", "--tasks", "sketches", "--include_path", str(users))
    result = workplace.run("python", "-m", "lmms_eval", "eval", *options)
    assert result.values == {
        ("MME of a user", "local_acc"): "0.5",
        ("A sketch", "sketch_acc"): "0.5",
    }, result.output
    assert "mmie-tasks: mia_bench, mmie: ours instead of the built-in" in result.output  # not mme
    assert not result.has_codes


@pytest.fixture(scope="module")
def from_python(workplace: Workplace) -> CommandResult:
    write(workplace.folder / "saved.json", '{"q0": "red"}')
    write(workplace.folder / "start_evaluation.py", FROM_PYTHON)
    return workplace.run("python", "start_evaluation.py")


def test_simple_evaluate_finds_our_task(from_python: CommandResult) -> None:
    assert "MME as a sketch 0.5" in from_python.output


def test_invalid_data_is_an_exception_in_python(from_python: CommandResult) -> None:
    assert f"caught: {BROKEN}" in from_python.output


def test_data_is_not_checked_for_the_model_predictions(from_python: CommandResult) -> None:
    before, _after = from_python.output.split("predictions: scored")
    assert "sketch: looked at" not in before.partition("MME as a sketch")[2]


def test_data_is_checked_for_tags_and_predict_only_runs(from_python: CommandResult) -> None:
    _before, after = from_python.output.split("looking again")
    assert after.count(LOOKED.format(4)) == 2  # sketch and mme by their tag


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
    assert result.output.count("failed; its error is above.") == 2
    assert result.output.count("RuntimeError: the stub") == 1
    assert result.output.count(LOOKED.format(1)) == 2  # within `limit` and `offset`
