from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from support.report_runs import SKETCH, Sketch

from mmie_tasks.core.verdict import Scored, UnscoredReason, Verdicts
from mmie_tasks.record.judgement import Judgement
from mmie_tasks.record.record import Record
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.segment import text_segments
from mmie_tasks.record.signature import Signature
from mmie_tasks.runner.run_summary import RunSummary


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


def test_the_notes_of_a_benchmark_are_in_the_last_lines_of_score() -> None:
    summary = RunSummary()
    summary.add("sketch", Noted(), [logged(4, 4)], {})
    assert "sketch: 1 of 1 noted" in summary.block("stub", "", has_notes=True)


@pytest.mark.parametrize(
    ("cached", "reason", "counted"),
    [(True, "unparsed", True), (False, "unparsed", False), (True, "cut_off", False)],
)
def test_unparsed_replies_from_the_cache_are_counted_in_the_last_line(
    cached: bool, reason: UnscoredReason, counted: bool
) -> None:
    result = JudgeResult(reply=JudgeReply(text="Hm.", model="m", cached=cached))
    verdicts = Verdicts.unscored(reason, "")
    judgement = Judgement(judge=Signature(), result=result, verdicts=verdicts)
    record = Record(id="1", verdicts=verdicts, judgements=(judgement,))
    summary = RunSummary()
    summary.add("sketch", SKETCH, [record.logged], {})
    last_line = summary.block("stub", "report").splitlines()[-1]
    assert last_line.startswith("1 unreadable reply came from the cache; ") == counted


def test_samples_without_a_reply_name_the_command_that_asks_the_judge_again() -> None:
    verdicts = Verdicts.unscored("unavailable", "HTTP 500")
    record = Record(id="1", verdicts=verdicts)
    summary = RunSummary()
    summary.add("sketch", SKETCH, [record.logged, logged(4, 4, "2")], {})
    last_line = summary.block("stub", "report", folder="out/a b").splitlines()[-1]
    assert last_line.startswith("1 sample got no reply; ")
    assert "rejudge 'out/a b' --failed`" in last_line


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
