"""Every way of starting the runner knows our tasks, and ours win over its own.

``accelerate launch`` is started as a process. The others run their entry point in a fork, in which
nothing of `mmie_tasks` and no model or task of `lmms_eval` is imported: see `support.fork_server`.
Most other files here start the runner's console script.
"""

from __future__ import annotations

import pytest
from support.runner import CommandResult, Workplace, write
from support.sketch import sketched

EVALUATION = ("--model", "stub", "--tasks", "mme")
OVERRIDDEN = "mmie-tasks: mia_bench, mme, mmie: ours instead of the built-in of the same name"
ACCELERATE = "accelerate launch --cpu --num_processes 1 --num_machines 1 --mixed_precision no"

FROM_PYTHON = """
from lmms_eval.evaluator import simple_evaluate
results = simple_evaluate(model="stub", tasks=["mme"])["results"]["mme"]
print(results["alias"], results["sketch_acc,none"])
"""


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return sketched(tmp_path_factory.mktemp("ways"))


def test_accelerate_uses_our_task(workplace: Workplace) -> None:
    start = f"{ACCELERATE} --dynamo_backend no -m lmms_eval"
    check_our_task(workplace.run_process(*start.split(), *EVALUATION))


def test_an_evaluation_by_the_module_uses_our_task(workplace: Workplace) -> None:
    result = workplace.run("python", "-m", "lmms_eval", "eval", *EVALUATION)
    check_our_task(result)
    assert not result.has_codes


def check_our_task(result: CommandResult) -> None:
    assert result.values == {("MME as a sketch", "sketch_acc"): "0.5"}, result.output
    assert result.output.count(OVERRIDDEN) == 1


def test_simple_evaluate_finds_our_task(workplace: Workplace) -> None:
    write(workplace.folder / "evaluation.py", FROM_PYTHON)
    result = workplace.run("python", "evaluation.py")
    assert "MME as a sketch 0.5" in result.output
