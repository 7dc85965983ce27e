"""What MMIE says of its logged samples: read, averaged as in the runner's table, read again."""

import copy
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mmie_tasks.benchmarks.mmie.record import MmieRecord
from support.logged_runs import mmie_lines

from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK, percent
from mmie_tasks.benchmarks.mmie.metrics import TABLE
from mmie_tasks.benchmarks.mmie.official import percent_of
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.record import BadRecord
from mmie_tasks.record.segment import Segment
from mmie_tasks.results.run import TaskRun, as_counted

LINES = list(mmie_lines(60, image="kite.png", unscored=0.05))
REASONS = ["unparsed", "left_out", "unavailable"]


def changed(**fields):
    line = copy.deepcopy(LINES[0])
    line["record"].update(fields)
    return line


def with_reply(text, **fields):
    line = copy.deepcopy(LINES[0])
    line["record"]["judgements"][0]["result"]["reply"] |= {"text": text, **fields}
    return line


def regraded(line):
    return BENCHMARK.regraded(BENCHMARK.read_record(line), line)


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
    records = [
        MmieRecord(id=str(n), category="SA", official=verdict, robust=verdict)
        for n, verdict in enumerate(verdicts)
    ]
    samples = tuple(record.sample({}) for record in records)
    value = TaskRun(task="mmie_sa", benchmark=BENCHMARK, records=samples).score(
        BENCHMARK.metrics[0], "official"
    )
    rows = [TABLE.rows(record)["official"] for record in records]
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
    assert sample.properties["judge tokens"] == 900
    assert "truncated" not in sample.properties


def test_an_answer_that_the_limit_on_images_cut_is_marked():
    whole, cut = LINES[0], changed(facts={"truncated": True})
    assert [BENCHMARK.read_line(one).answer_cut for one in (whole, cut)] == [False, True]
    assert BENCHMARK.read_line(cut).properties == {"truncated": True, "judge tokens": 900}


def test_an_image_of_an_answer_that_could_not_be_used_says_why():
    answer = [{"text": None, "image": "../../secret", "problem": "outside"}]
    (segment,) = BENCHMARK.read_line(changed(answer=answer)).answer
    assert segment == Segment(image="../../secret", problem="outside")


def test_a_line_of_an_older_version_is_shown_without_its_images():
    line = copy.deepcopy(LINES[0])
    for name in ("question", "gold", "answer", "facts", "field"):
        del line["record"][name]
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
        pytest.param({"robust": {"reason": "sleepy"}}, "robust", id="unknown-reason"),
        pytest.param({"official": {"points": 1, "reading": 2}}, "reading", id="reading"),
        pytest.param({"question": "?"}, "question", id="question"),
        pytest.param({"gold": [{"image": 7}]}, "image", id="image"),
        pytest.param({"judgements": 3}, "judgements", id="judgements"),
        pytest.param({"facts": {"typed": 3}}, "typed", id="typed"),
        pytest.param({"signature": {"judges": 3}}, "signature", id="signature"),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(fields, named):
    with pytest.raises(BadRecord, match=named):
        BENCHMARK.read_line(changed(**fields))


@pytest.mark.parametrize("points", [7, -1, math.nan, math.inf])
def test_points_that_are_not_on_the_scale_are_none(points):
    verdict = {"points": points, "reading": ""}
    sample = BENCHMARK.read_line(changed(official=verdict))
    checked = as_counted(sample, BENCHMARK.scale)
    assert checked.official.reason == "off_scale"
    assert checked.robust == sample.robust


def test_a_record_of_a_release_candidate_is_read_without_its_expected_score_and_digits():
    line = changed(expected={"reason": "no_probabilities", "detail": ""}, entropy_bits=2)
    line["record"]["judgements"][0]["result"]["reply"]["digits"] = [None, -0.5]
    assert BENCHMARK.read_record(line) == BENCHMARK.read_record(LINES[0])


def test_a_reply_that_ran_into_its_limit_is_read_officially_only():
    record = regraded(with_reply("### Score\n4", finish="length"))
    assert record.official.points == 4
    assert record.robust.reason == "cut_off"
