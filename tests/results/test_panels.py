"""Samples that several judges judged: their record, what is read of it, and the summary of a
run.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hostile import JUNK, outcome, spoil
from support.panels import NOT_JUDGED, judged, mmie_line, signature

from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.judgement import Judged
from mmie_tasks.record.record import Line, Record
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.run import TaskRun
from mmie_tasks.results.summary import last_line, notes_of, numbers_of


def run_of(*judgements: Judged) -> tuple[TaskRun, list[Any]]:
    """A run of MMIE with these judgements, and its records."""
    lines = [mmie_line(judgement, f"SA-{n}") for n, judgement in enumerate(judgements)]
    samples = tuple(map(BENCHMARK.read_line, lines))
    run = TaskRun(task="mmie", benchmark=BENCHMARK, records=samples)
    return run, list(map(BENCHMARK.read_record, lines))


def logged(judgement: Judged) -> Any:
    """A line of a log with this judgement, as a file has it."""
    return json.loads(json.dumps(mmie_line(judgement)))


def read_again(line: Line) -> Record:
    """The record with the verdicts of today's readers."""
    return BENCHMARK.regraded(BENCHMARK.read_record(line), line)


def test_a_logged_panel_is_read_as_it_was_judged() -> None:
    judgement = judged(4, 6, None)
    sample = BENCHMARK.read_line(logged(judgement))
    assert sample.official == Scored(5)
    assert [reply.model for reply in sample.replies] == ["gpt-4o", "gpt-4o-mini"]
    assert sample.members == judgement.judgements
    assert BENCHMARK.read_line(logged(NOT_JUDGED)).members == ()
    run, _ = run_of(judgement, judged(None, 3, 3))
    row = run.samples.iloc[1]
    assert (row["official"], row["input_tokens"], row["reply"]) == (3, 20, None)


def test_a_panel_with_too_few_points_stays_unscored_when_its_replies_are_read_again() -> None:
    for judgement in (judged(4, None, "none"), judged(None, None, None)):
        official = read_again(logged(judgement)).official
        assert isinstance(official, Unscored)
        assert official == judgement.verdicts.official


@given(
    st.randoms(use_true_random=False),
    st.sampled_from(JUNK),
    st.sampled_from([(4, 5, 6), (4, None, 5), (None, None, None)]),
)
def test_no_line_of_a_panel_upsets_the_readers(
    lots: Any, junk: object, points: tuple[object, ...]
) -> None:
    line = logged(judged(*points))
    spoil(line["record"]["judgements"], lots, junk)
    for read in (BENCHMARK.read_line, read_again):
        assert outcome(read, line) != ""


def test_the_numbers_of_a_panel_are_those_of_a_judge_without_counts_of_whole_points() -> None:
    run, records = run_of(judged(3, 6, 3), judged(3, 6, None), judged(3, 6, "none"), NOT_JUDGED)
    details = numbers_of(run, records)
    assert details["parse_rate"] == pytest.approx(100 * 7 / 8)  # of the replies of all judges
    assert not [name for name in details if name.startswith(("points_", "judge"))]


def test_the_last_lines_of_a_run_name_the_panel_each_judges_failures_and_all_tokens() -> None:
    run, records = run_of(judged(3, 6, 3), judged(3, 5, None), judged(3, 6, "none"))
    *_, judge, why = last_line(run, "")
    assert judge == "panel of gpt-4o, gpt-4o-mini, qwen (median)"
    assert f"judge: {judge}, not the paper's" in why
    notes = list(notes_of(run, records))
    assert "judge 2, gpt-4o-mini: points in 3 of 3 samples" in notes
    third = "judge 3, qwen: points in 1 of 3 samples; without: unavailable (1), unparsed (1)"
    assert third in notes
    assert any(note.startswith("judges differ by 2.67 points on average, in 3 ") for note in notes)
    assert any("80 tokens in, 8 out, 4.0000 USD" in note for note in notes)
    assert Signature.parse(signature(("m", "m"))).name == "panel of m (1), m (2) (median)"
