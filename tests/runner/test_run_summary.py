from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from support.report_runs import SKETCH, Sketch

from mmie_tasks.core.verdict import Scored, UnscoredReason, Verdicts
from mmie_tasks.judges.session import BenchmarkJudge
from mmie_tasks.record.record import Record
from mmie_tasks.record.segment import text_segments
from mmie_tasks.runner.run_summary import RunSummary


class Judged(Sketch):
    judge = BenchmarkJudge("sketch", "replay")


class Noted(Sketch):
    def notes(self, records: Sequence[Record]) -> list[str]:
        return [f"{len(records)} of 1 noted"]


def logged(points: float, robust: float, name: str = "1") -> dict[str, object]:
    graded = Verdicts(official=Scored(points), robust=Scored(robust))
    return Record(id=name, verdicts=graded).logged


def test_points_off_the_scale_are_no_score_in_the_last_lines_of_a_run() -> None:
    summary = RunSummary()
    records = [logged(points, 4, str(points)) for points in (3, 4, 12)]
    summary.add("sketch", SKETCH, records, {})
    (line,) = [one for one in summary.block("stub", "").splitlines() if one.startswith("sketch ")]
    assert "n/a" in line
    assert "100.00" in line
    assert "2 of 3" in line


def test_answers_that_begin_with_their_question_are_counted_in_the_last_lines() -> None:
    summary = RunSummary()
    question = "Which number is hidden in the pictures?"
    answers = (f"USER: {question} ASSISTANT: 7", "7", "")
    records = [
        logged(4, 4, str(number))
        | {"question": text_segments(question), "answer": text_segments(answer)}
        for number, answer in enumerate(answers)
    ]
    lines: list[dict[str, object]] = [{"doc_id": number} for number in range(len(answers))]
    summary.add("sketch", SKETCH, records, {}, lines)
    assert [(line["doc_id"], line["answer"]) for line in lines] == [*enumerate(answers)]
    assert "1 answer begins with its question" in summary.block("stub", "")


def test_the_last_lines_say_that_most_official_scores_differ_from_the_robust_ones() -> None:
    for robust, is_said in ((4, False), (5, True)):
        summary = RunSummary()
        records = [logged(4, robust, "1"), logged(4, 4, "2"), logged(4, robust, "3")]
        summary.add("sketch", SKETCH, records, {})
        said = "sketch: official and robust scores differ: 2 of 3" in summary.block("stub", "")
        assert said == is_said


def test_the_notes_of_a_benchmark_are_in_the_last_lines_of_score() -> None:
    summary = RunSummary()
    summary.add("sketch", Noted(), [logged(4, 4)], {})
    assert "sketch: 1 of 1 noted" in summary.block("stub", "", has_notes=True)


@pytest.mark.parametrize(
    ("reason", "is_asked"), [("unavailable", True), ("unparsed", True), ("no_answer", False)]
)
def test_samples_without_a_verdict_name_the_command_that_asks_the_judge_again(
    reason: UnscoredReason, is_asked: bool
) -> None:
    summary = RunSummary()
    record = Record(id="1", verdicts=Verdicts.unscored(reason, "HTTP 500"))
    summary.add("sketch", Judged(), [record.logged, logged(4, 4, "2")], {})
    text = summary.block("stub", "report", folder="out/a b")
    assert "sketch: 1 unscored because: HTTP 500" in text
    assert ("the judge gave 1 sample no points; " in text) == is_asked
    assert text.endswith("rejudge 'out/a b' --failed` asks again about these only") == is_asked


def test_the_table_has_no_mean_without_a_value_and_no_empty_standard_error() -> None:
    summary = RunSummary()
    summary.add("sketch", SKETCH, [logged(3, 4)], {})
    rows = {
        "alias": "Sketch",
        "official,none": math.nan,
        "official_stderr,none": "N/A",
        "official_stderr_clt,none": 1.5,
        "robust,none": 100.0,
        "robust_stderr_clt,none": 0.5,
        "robust_stderr,none": "N/A",
    }
    others = {"official,none": math.nan}
    results = {"results": {"sketch": rows, "others": others}}
    summary.add_details(results)
    assert rows == {"alias": "Sketch", "robust,none": 100.0, "robust_stderr_clt,none": 0.5}
    assert [*others] == ["official,none"]
