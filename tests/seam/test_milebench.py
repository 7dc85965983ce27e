"""MileBench through lmms-eval itself, on the bundled example."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.example import ANSWERS, DATA
from support.runner import CommandResult, Workplace

WHOLE = "MileBench"
TABLE = {  # what the example gives: half of it is there for the scores to differ
    "coverage": "100",
    "differ": "10",
    "official": "59.7222",
    "robust": "74.5370",
    "official_real": "59.7222",
    "robust_real": "74.5370",
    "official_diag": "50",
    "robust_diag": "100",
    "official_T-1": "33.3333",
    "official_S-3": "75",
    "official_tasks12": "57.2917",
    "official_datasets26": "57.6923",
    "official_GPR1200": "50",
    "robust_GPR1200": "100",
    "official_nuscenes": "50",
    "official_many": "65.7895",
}


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    workplace = Workplace(folder=tmp_path_factory.mktemp("milebench"))
    workplace.install_stub_model()
    return workplace


def play_back(workplace: Workplace, path: Path, *options: str, data: Path = DATA) -> CommandResult:
    answers = ("--model", "predictions", "--model_args", f"path={path}")
    return workplace.run("lmms-eval", *answers, *options, MILEBENCH_DATA=str(data))


@pytest.fixture(scope="module")
def whole(workplace: Workplace) -> CommandResult:
    options = ("--tasks", "milebench", "--output_path", "out", "--log_samples")
    return play_back(workplace, ANSWERS, *options)


def rounded(result: CommandResult, task: str = WHOLE) -> dict[str, float]:
    return {metric: float(value) for (name, metric), value in result.values.items() if name == task}


def test_the_printed_table_is_the_expected_one(whole: CommandResult) -> None:
    values = rounded(whole)
    assert {name: values.get(name) for name in TABLE} == pytest.approx(
        {name: float(value) for name, value in TABLE.items()}, abs=1e-4
    ), whole.output


def test_the_log_shows_both_scores_coverage_and_signature(whole: CommandResult) -> None:
    assert "official and robust scores differ: 10" in whole.output
    assert whole.output.count("task:milebench@5-E|variant:test|prompt:official") == 1
    assert "milebench: answers 58 of 58" in whole.output


def test_logged_answers_score_the_same_again_together_and_by_dataset(
    workplace: Workplace, whole: CommandResult
) -> None:
    again = play_back(workplace, workplace.folder / "out", "--tasks", "milebench,milebench_DocVQA")
    tables = [
        {metric: float(value) for (task, metric), value in result.table.items() if task == WHOLE}
        for result in (again, whole)
    ]
    assert tables[0] == pytest.approx(tables[1])
    assert rounded(again, "MileBench DocVQA")["official"] == 100
    assert "answers 2 of 2" in again.output


def test_a_model_sees_the_images_on_two_processes(workplace: Workplace) -> None:
    tasks = "milebench_GPR1200,milebench_combined1,milebench_adv"
    result = workplace.run(
        *("lmms-eval", "--model", "stub", "--tasks", tasks), processes=2, MILEBENCH_DATA=str(DATA)
    )
    assert rounded(result, "MileBench adv")["coverage"] == 100, result.output
    assert rounded(result, "MileBench combined1")["coverage"] == 100
    assert rounded(result, "MileBench GPR1200")["official"] == 0


def test_a_missing_answer_is_counted_and_below_the_coverage_floor_there_is_no_score(
    workplace: Workplace, tmp_path: Path
) -> None:
    entries = [{"sample_id": 0, "pred_response": "B"}, {"sample_id": 1, "pred_response": None}]
    path = tmp_path / "TQA" / "pred.json"
    path.parent.mkdir()
    path.write_text(json.dumps(entries), encoding="utf-8")
    result = play_back(workplace, path, "--tasks", "milebench_TQA")
    printed = rounded(result, "MileBench TQA")
    assert printed["coverage"] == 50
    assert "official" not in printed
    assert (
        "no official score: only 1 of 2 samples have a score\n  unscored: no_answer (1)\n"
        in result.output
    )
