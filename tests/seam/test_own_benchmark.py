"""The benchmark of another package in ``examples/``: installed, run, and read again."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from support.runner import CommandResult, Workplace

from mmie_tasks import load_run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EXAMPLE, MMIE = EXAMPLES / "own_benchmark", EXAMPLES / "mmie"
TABLE = {
    "coverage": "91.6667",
    "official": "45.4545",
    "official_colour": "25.0000",
    "official_shape": "50.0000",
    "robust": "81.8182",
}
DETAILS = {  # in the results file only
    "differ": 4.0,
    "robust_colour": 75.0,
    "robust_shape": 75.0,
    "scored": 11.0,
    "samples": 12.0,
    "samples_size": 4.0,
    "unscored_no_answer": 1.0,
    "robust_unscored_no_answer": 1.0,
    "points_0": 6.0,
    "points_1": 5.0,
}


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    workplace = Workplace(folder=tmp_path_factory.mktemp("own_benchmark"))
    workplace.install(EXAMPLE)
    return workplace


@pytest.fixture(scope="module")
def result(workplace: Workplace) -> CommandResult:
    """An evaluation of the example benchmark and of MMIE."""
    mmie = MMIE / "answers"
    answers = f"path={EXAMPLE / 'answers.json'};{mmie},images={mmie},missing=count"
    judge = f"replay:path={MMIE / 'replies.jsonl'},prompts={MMIE / 'prompts.json'}"
    return workplace.run(
        *("mmie-tasks", "eval", "--model", "predictions", "--model_args", answers),
        *("--tasks", "odd_one_out,mmie", "--judge", judge),
        *("--output_path", "out", "--log_samples"),
        MMIE_DATA=str(MMIE / "data"),
    )


def test_the_runner_prints_its_table_beside_one_of_ours(result: CommandResult) -> None:
    printed = {metric: value for (task, metric), value in result.table.items() if task[:3] == "Odd"}
    assert printed == TABLE, result.output
    assert result.values["MMIE", "official"] == "68.5200"


def test_what_the_table_does_not_show_is_in_the_results_file(
    workplace: Workplace, result: CommandResult
) -> None:
    (path,) = (workplace.folder / "out").rglob("*_results.json")
    saved = json.loads(path.read_text(encoding="utf-8"))
    details = saved["mmie_tasks"]["odd_one_out"]
    assert {name: details[name] for name in DETAILS} == DETAILS
    assert details["ci95_low"] < details["official"] < details["ci95_high"]
    assert not {"official_size", "robust_size", "unscored_unavailable"} & details.keys()
    assert not DETAILS.keys() & {
        name.removesuffix(",none") for name in saved["results"]["odd_one_out"]
    } - {"samples"}
    assert saved["mmie_tasks"]["mmie"]["dropped"] == 1
    assert ("MMIE", "dropped") not in result.table


def test_the_run_ends_with_a_line_for_each_task_and_the_command_for_a_report(
    result: CommandResult,
) -> None:
    _, _, block = result.output.rpartition("mmie-tasks: scores in percent")
    odd_one_out, mmie = (
        line for line in block.splitlines() if line.startswith(("odd_one_out ", "mmie "))
    )
    assert "45.45 [" in odd_one_out
    assert "  68.52  " in mmie
    assert "9 of 10, 1 left out" in mmie
    assert (
        "1 unscored: no_answer; 11 of 20,103 samples; categories not in MMIE's proportions; "
        "judge: made-up, not the paper's; other prompt words" in mmie
    )
    assert block.rstrip().splitlines()[-1] == "mmie-tasks report out -o report.html"


@pytest.mark.usefixtures("result")
def test_metric_values_of_the_log_equal_the_table(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(workplace.plugins))  # this process can import the package
    scores = load_run(workplace.folder / "out").scores()
    ours = scores[scores["task"] == "odd_one_out"]
    percents = dict(zip(ours["metric"], ours["percent"], strict=True))
    assert math.isnan(percents.pop("official_size"))
    assert math.isnan(percents.pop("robust_size"))
    assert percents.keys() >= TABLE.keys() - {"coverage"}
    for name, percent in percents.items():
        assert TABLE.get(name, f"{percent:.4f}") == f"{percent:.4f}"
        assert DETAILS.get(name, percent) == percent
