"""Samples that several judges judged: their record, what is read of it, and the summary of a
run.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hostile import JUNK, outcome, spoil
from support.panels import MODELS, NOT_JUDGED, judged, mmie_line, signature

from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.judgement import Judged
from mmie_tasks.record.record import BadRecord, Line, Record
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.panels import judge_points
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


def test_the_record_holds_every_judges_replies_and_verdicts() -> None:
    record = logged(judged(4, 5, None))["record"]
    assert record["official"]["points"] == 4.5
    judgements = record["judgements"]
    assert [judgement["judge"]["judges"] for judgement in judgements] == [
        [{"judge": "openai", "model": model, "t": "0"}] for model in MODELS
    ]
    replies = [judgement["result"]["reply"] for judgement in judgements]
    assert [reply and reply["text"] for reply in replies] == ["### Score\n4", "### Score\n5", None]
    assert judgements[0]["verdicts"]["official"]["points"] == 4
    failure = {"reason": "unavailable", "detail": "HTTP 503"}
    assert judgements[2]["result"]["failure"] == judgements[2]["verdicts"]["robust"] == failure


def test_a_logged_panel_is_read_as_it_was_judged() -> None:
    judgement = judged(4, 6, None)
    sample = BENCHMARK.read_line(logged(judgement))
    assert sample.official == Scored(5)
    assert [reply.model for reply in sample.replies] == ["gpt-4o", "gpt-4o-mini"]
    assert sample.members == judgement.judgements
    assert BENCHMARK.read_line(logged(NOT_JUDGED)).members == ()


def test_the_facts_of_a_sample_name_each_judges_points_and_their_difference() -> None:
    points = judge_points(BENCHMARK.read_line(mmie_line(judged(4, 5, None))))
    assert points == {
        "judge gpt-4o": "4",
        "judge gpt-4o-mini": "5",
        "judge qwen": "no points: unavailable",
        "judges differ by": "1",
    }
    assert judge_points(BENCHMARK.read_line(mmie_line(NOT_JUDGED))) == {}


def test_a_panel_with_too_few_points_stays_unscored_when_its_replies_are_read_again() -> None:
    for judgement in (judged(4, None, "none"), judged(None, None, None)):
        official = read_again(logged(judgement)).official
        assert isinstance(official, Unscored)
        assert official == judgement.verdicts.official


@pytest.mark.parametrize(
    ("spoilt", "key", "value", "named"),
    [
        (lambda record: record, "judgements", ["judge:a"], "`judgements.0`"),
        (
            lambda record: record["judgements"][1],
            "verdicts",
            {},
            "`judgements.1.verdicts.official`",
        ),
        (lambda record: record["judgements"][1], "judge", 5, "`judgements.1.judge`"),
    ],
)
def test_a_panel_of_another_form_is_a_bad_record(
    spoilt: Callable[[Any], Any], key: str, value: object, named: str
) -> None:
    line = logged(judged(4, 5, 6))
    spoilt(line["record"])[key] = value
    with pytest.raises(BadRecord, match=named):
        BENCHMARK.read_line(line)


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


def test_a_panel_is_named_after_its_judges() -> None:
    assert Signature.parse(signature(("m", "m"))).name == "panel of m (1), m (2) (median)"
    run, _ = run_of(judged(4, 5, 6))
    *_, judge, why = last_line(run, "")
    assert judge == "panel of gpt-4o, gpt-4o-mini, qwen (median)"
    assert f"judge: {judge}, not the paper's" in why


def test_the_numbers_of_a_panel_are_those_of_a_judge_without_counts_of_whole_points() -> None:
    run, records = run_of(judged(3, 6, 3), judged(3, 6, None), judged(3, 6, "none"), NOT_JUDGED)
    details = numbers_of(run, records)
    assert details["parse_rate"] == pytest.approx(100 * 7 / 8)  # of the replies of all judges
    assert not [name for name in details if name.startswith(("points_", "judge"))]


def test_the_last_lines_of_a_run_name_each_judges_failures_and_all_tokens() -> None:
    notes = list(notes_of(*run_of(judged(3, 6, 3), judged(3, 5, None), judged(3, 6, "none"))))
    assert "judge 2, gpt-4o-mini: points in 3 of 3 samples" in notes
    (third,) = [note for note in notes if note.startswith("judge 3, qwen")]
    assert (
        third == "judge 3, qwen: points in 1 of 3 samples; without: unavailable (1), unparsed (1)"
    )
    assert (
        "judges differ by 2.67 points on average, in 3 samples with points of two or more" in notes
    )
    (replies,) = [note for note in notes if note.startswith("replies:")]
    assert "80 tokens in, 8 out, 4.0000 USD" in replies


def test_a_table_of_samples_has_the_panels_points_and_no_single_reply() -> None:
    run, _ = run_of(judged(4, 5, None), judged(None, 3, 3))
    frame = run.samples
    assert list(frame["official"]) == [4.5, 3]
    assert not [name for name in frame if name.startswith(("judge_", "judges_"))]
    assert set(frame["reply"]) == set(frame["second_reply"]) == {None}
    assert list(frame["input_tokens"]) == [20, 20]
