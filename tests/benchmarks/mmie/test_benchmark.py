"""What MMIE says of its logged samples: read, averaged as in the runner's table, read again."""

import copy
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.hostile import JUNK, outcome, spoil
from support.logged_runs import mmie_lines

from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK
from mmie_tasks.benchmarks.mmie.metrics import TABLE
from mmie_tasks.benchmarks.mmie.official import percent_of
from mmie_tasks.benchmarks.mmie.task import percent
from mmie_tasks.core.verdict import NO_PROBABILITIES, Scored, Unscored
from mmie_tasks.record.metrics import metric_value
from mmie_tasks.record.record import BadRecord
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.segment import Segment
from mmie_tasks.runs.run import without_off_scale_points

LINES = list(mmie_lines(60, image="kite.png", unscored=0.05, with_digits=30))
REASONS = ["unparsed", "left_out", "unavailable"]


def changed(**fields):
    line = copy.deepcopy(LINES[0])
    line["coverage"].update(fields)
    return line


@settings(max_examples=50)
@given(
    st.lists(
        st.one_of(
            st.integers(0, 6).map(Scored),
            st.decimals(0, 6, places=1).map(lambda points: Scored(float(points))),
            st.sampled_from(REASONS).map(Unscored),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_a_mean_is_rounded_as_the_official_table(verdicts):
    samples = [
        LoggedSample(id=str(n), official=verdict, robust=verdict, groups={})
        for n, verdict in enumerate(verdicts)
    ]
    value = metric_value(samples, BENCHMARK.metrics[0], "official", BENCHMARK.scale)
    rows = [TABLE.rows(sample, {})["official"] for sample in samples]
    expected = percent(rows)
    assert value.percent == (None if math.isnan(expected) else expected)
    points = [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]
    mean = math.fsum(points) / max(1, len(points))
    assert value.percent in (None, percent_of(mean))


def test_question_gold_and_answer_are_shown_with_their_images():
    sample = BENCHMARK.read_line(LINES[0])
    assert [segment.image for segment in sample.question] == ["kite.png"]
    assert [segment.image for segment in sample.gold] == [None, "kite.png"]
    assert [segment.image for segment in sample.answer] == [None, "kite.png"]
    assert sample.answer[0].text.startswith("model-a: ")
    assert sample.groups == {"category": ("SA",), "field": ("literature",)}
    assert sample.facts["judge tokens"] == 900
    assert "truncated" not in sample.facts


def test_an_answer_that_the_limit_on_images_cut_is_marked():
    whole, cut = LINES[0], changed(facts={"truncated": True})
    assert [BENCHMARK.read_line(one).answer_cut for one in (whole, cut)] == [False, True]
    assert BENCHMARK.read_line(cut).facts == {"truncated": True}


def test_an_image_of_an_answer_that_could_not_be_used_says_why():
    answer = [{"text": None, "image": "../../secret", "problem": "outside"}]
    (segment,) = BENCHMARK.read_line(changed(answer=answer)).answer
    assert segment == Segment(image="../../secret", problem="outside")


def test_a_line_of_an_older_version_is_shown_without_its_images():
    line = copy.deepcopy(LINES[0])
    for name in ("question", "gold", "answer", "facts", "field"):
        del line["coverage"][name]
    sample = BENCHMARK.read_line(line)
    assert sample.question[0].problem == "not in this log"
    assert sample.question[0].image is None
    assert sample.gold == (Segment(text=line["target"]),)
    assert sample.answer == (Segment(text=line["filtered_resps"]),)
    assert sample.groups == {"category": ("SA",)}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        pytest.param({"id": 3}, "id", id="id"),
        pytest.param({"category": "XX"}, "category", id="category"),
        pytest.param({"field": 3}, "field", id="field"),
        pytest.param({"official": 3}, "official", id="verdict-that-is-a-number"),
        pytest.param({"robust": {"unscored": "sleepy"}}, "robust", id="unknown-reason"),
        pytest.param({"official": {"points": 1, "reading": 2}}, "reading", id="reading"),
        pytest.param({"expected": 3}, "expected", id="expected-verdict-that-is-a-number"),
        pytest.param({"question": "?"}, "question", id="question"),
        pytest.param({"gold": [{"image": 7}]}, "image", id="image"),
        pytest.param({"replies": {}}, "replies", id="replies"),
        pytest.param({"facts": {"typed": 3}}, "typed", id="typed"),
        pytest.param({"signature": 3}, "signature", id="signature"),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(fields, named):
    with pytest.raises(BadRecord, match=named):
        BENCHMARK.read_line(changed(**fields))


@settings(max_examples=60)
@given(st.randoms(use_true_random=False), st.sampled_from(JUNK))
def test_no_line_upsets_the_reader(lots, junk):
    line = copy.deepcopy(LINES[0])
    spoil(line, lots, junk)
    for read in (BENCHMARK.read_line, BENCHMARK.reread, BENCHMARK.rerecord):
        assert outcome(read, line) != ""


def test_points_that_are_not_on_the_scale_are_none():
    for points in (7, -1, math.nan, math.inf, 10**400):
        row = {"points": points}
        sample = BENCHMARK.read_line(changed(official=row, expected=row))
        assert math.isnan(sample.official.points)
        assert math.isnan(sample.expected.points)
        checked = without_off_scale_points(
            replace(sample, official=Scored(3), robust=Scored(3)), BENCHMARK.scale
        )
        assert checked.expected.reason == "off_scale"


def test_reading_again_gives_what_was_logged():
    for line in LINES:
        sample = BENCHMARK.read_line(line)
        again = BENCHMARK.reread(line)
        assert [again["official"], again["robust"]] == [sample.official, sample.robust]
        assert BENCHMARK.rerecord(line) == line["coverage"]


def test_the_expected_score_is_read_back_from_the_record():
    sample, row = BENCHMARK.read_line(LINES[0]), LINES[0]["coverage"]["expected"]
    assert sample.expected == Scored(sample.official.points + 0.25)
    assert sample.entropy_bits == 0.811
    assert row == {"points": sample.expected.points, "entropy_bits": 0.811}
    assert BENCHMARK.read_line(LINES[-1]).expected == NO_PROBABILITIES
    for entropy in (-1, "low", math.nan, None):
        assert (
            BENCHMARK.read_line(changed(expected={**row, "entropy_bits": entropy})).entropy_bits
            is None
        )


def test_the_expected_score_is_computed_again_from_the_saved_reply():
    line = changed(expected={"points": 1.5, "entropy_bits": 2})
    assert BENCHMARK.rerecord(line)["expected"] == LINES[0]["coverage"]["expected"]
    line["coverage"]["replies"][0]["text"] += ".5"
    assert BENCHMARK.rerecord(line)["expected"]["unscored"] == "no_probabilities"


def test_reading_again_looks_at_the_reply_and_not_at_the_stored_verdict():
    line = changed(
        replies=[{"text": "### Score\n4"}], official={"points": 1}, robust={"unscored": "unparsed"}
    )
    assert BENCHMARK.reread(line) == {"official": Scored(4, "4"), "robust": Scored(4.0, "4")}
    assert BENCHMARK.rerecord(line)["official"] == {"reading": "4", "points": 4}


def test_a_reply_that_ran_into_its_limit_is_read_officially_only():
    line = changed(replies=[{"text": "### Score\n4", "finish": "length"}])
    again = BENCHMARK.reread(line)
    assert again["official"].points == 4
    assert again["robust"].reason == "cut_off"


@pytest.mark.parametrize(
    "replies",
    [pytest.param(None, id="older-version"), pytest.param([], id="a-verdict-and-no-reply")],
)
def test_without_its_reply_a_verdict_cannot_be_read_again(replies):
    assert BENCHMARK.reread(changed(replies=replies)) is None
    assert (
        BENCHMARK.rerecord(changed(replies=replies))["official"] == LINES[0]["coverage"]["official"]
    )
