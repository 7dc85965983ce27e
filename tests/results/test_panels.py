"""Samples that several judges judged: their record, reading it again, and a run's summary."""

import json

import pytest
from support.panels import judged, mmie_line, signature
from support.signatures import signature_from

from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.record import Record
from mmie_tasks.results.run import TaskRun
from mmie_tasks.results.summary import last_line, notes_of, numbers_of


def run_of(*records):
    return TaskRun(task="mmie", benchmark=BENCHMARK, records=records)


def logged(record):
    """A line of a log with this record, as a file has it."""
    return json.loads(json.dumps(mmie_line(record)))


def read_again(line):
    """The record with the verdicts of today's readers."""
    return BENCHMARK.regraded(Record.of_line(line))


def test_a_logged_panel_is_read_as_it_was_judged():
    written = judged(4, 6, None)
    record = Record.of_line(logged(written))
    assert record.official == Scored(5)
    assert [reply.model for reply in record.replies] == ["gpt-4o", "gpt-4o-mini"]
    assert record.members == written.judgements
    assert Record.of_line(logged(judged())).members == ()
    row = run_of(written, judged(None, 3, 3)).samples.iloc[1]
    assert (row["official"], row["input_tokens"], row["reply"]) == (3, 20, None)


def test_a_panel_with_too_few_points_stays_unscored_when_its_replies_are_read_again():
    for written in (judged(4, None, "none"), judged(None, None, None)):
        assert isinstance(written.official, Unscored)
        assert read_again(logged(written)).official == written.official


def test_the_numbers_of_a_panel_are_those_of_a_judge_without_counts_of_whole_points():
    points = (3, 6, 3), (3, 6, None), (3, 6, "none"), ()
    details = numbers_of(run_of(*(judged(*of, sample_id=str(n)) for n, of in enumerate(points))))
    assert details["parse_rate"] == pytest.approx(100 * 7 / 8)  # of the replies of all judges
    assert not [name for name in details if name.startswith(("points_", "judge"))]


def test_the_last_lines_of_a_run_name_the_panel_each_judges_failures_and_all_tokens():
    run = run_of(judged(3, 6, 3), judged(3, 5, None), judged(3, 6, "none"))
    *_, judge, why = last_line(run, "")
    assert judge == "panel of gpt-4o, gpt-4o-mini, qwen (median)"
    assert f"judge: {judge}, not the paper's" in why
    notes = list(notes_of(run))
    assert "judge 2, gpt-4o-mini: points in 3 of 3 samples" in notes
    third = "judge 3, qwen: points in 1 of 3 samples; without: unavailable (1), unparsed (1)"
    assert third in notes
    assert any(note.startswith("judges differ by 2.67 on average (") for note in notes)
    assert any("80 tokens in, 8 out, 4.0000 USD" in note for note in notes)
    assert signature_from(signature(("m", "m"))).name == "panel of m (1), m (2) (median)"
