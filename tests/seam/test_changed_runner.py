"""A later lmms-eval that does not call what we wrap: its results are complete all the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.runner import CommandResult, Workplace, write

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MIA, MILEBENCH = EXAMPLES / "mia_bench", EXAMPLES / "milebench"
WARNING = "did not call `lmms_eval.evaluator.evaluate`"
COMMAND = """
from types import FunctionType
import lmms_eval.evaluator as evaluator

{change}
from mmie_tasks.cli import main
main()
"""
AS_IT_IS = ""
PRIVATE_FUNCTION = """
names = dict(vars(evaluator))  # those that `simple_evaluate` calls are wrapped in the module only
called = evaluator.simple_evaluate.__wrapped__
evaluator.simple_evaluate = FunctionType(called.__code__, names, argdefs=called.__defaults__)
"""
OTHER_PARAMETERS = """
called = evaluator.evaluate
evaluator.evaluate = lambda **options: called(**options)
"""


def evaluate(folder: Path, change: str, *more: str) -> CommandResult:
    workplace = Workplace(folder=folder)
    write(folder / "changed.py", COMMAND.format(change=change))
    return workplace.run(
        *("python", "changed.py", "eval", "--model", "predictions"),
        *("--model_args", f"model=m,path={MIA / 'answers'};{MILEBENCH / 'answers'}"),
        *("--tasks", "mia_bench,milebench", "--judge", f"replay:path={MIA / 'replies.jsonl'}"),
        *("--output_path", "out", "--log_samples", *more),
        MIA_BENCH_DATA=str(MIA / "data"),
        MILEBENCH_DATA=str(MILEBENCH / "data"),
    )


def saved(folder: Path) -> dict[str, Any]:
    (path,) = (folder / "out").rglob("*_results.json")
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    metadata = {name: config["metadata"] for name, config in results["configs"].items()}
    return {"metadata": metadata, "details": results["mmie_tasks"]}


@pytest.fixture(scope="module")
def supported(tmp_path_factory: pytest.TempPathFactory) -> tuple[CommandResult, dict[str, Any]]:
    """The run of the runner as it is."""
    folder = tmp_path_factory.mktemp("supported")
    return evaluate(folder, AS_IT_IS), saved(folder)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(PRIVATE_FUNCTION, id="private-function"),
        pytest.param(OTHER_PARAMETERS, id="other-parameters"),
    ],
)
def test_results_are_those_of_a_supported_runner_and_a_warning_names_the_tasks(
    tmp_path: Path, change: str, supported: tuple[CommandResult, dict[str, Any]]
) -> None:
    """The judge is the one of the command line."""
    expected, expected_results = supported
    result = evaluate(tmp_path, change)
    assert result.status == 0, result.output
    assert saved(tmp_path) == expected_results
    assert result.values == expected.values
    assert last_lines(result) == last_lines(expected)
    (warning,) = [line for line in result.output.splitlines() if WARNING in line]
    assert "milebench, mia_bench" in warning
    assert WARNING not in expected.output
    assert "signature" in expected_results["metadata"]["mia_bench"]


def last_lines(result: CommandResult) -> str:
    _, title, block = result.output.rpartition("mmie-tasks: scores in percent")
    assert title
    return block


def test_a_run_that_only_predicts_is_not_signed(tmp_path: Path) -> None:
    result = evaluate(tmp_path, PRIVATE_FUNCTION, "--predict_only")
    assert result.output.count(WARNING) == 1, result.output
    (path,) = (tmp_path / "out").rglob("*_results.json")
    configs = json.loads(path.read_text(encoding="utf-8"))["configs"].values()
    assert [one for one in configs if "signature" in one["metadata"]] == []
