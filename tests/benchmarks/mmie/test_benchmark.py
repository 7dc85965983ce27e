"""What MMIE says of its logged samples: read, averaged as in the runner's table, read again."""

import copy
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.logged_runs import mmie_lines
from support.records import record_of

from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK, percent
from mmie_tasks.benchmarks.mmie.metrics import TABLE
from mmie_tasks.benchmarks.mmie.official import percent_of
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.record import Record
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
    return BENCHMARK.regraded(Record.of_line(line))


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
    records = tuple(record_of(str(n), verdict) for n, verdict in enumerate(verdicts))
    value = TaskRun(task="mmie_sa", benchmark=BENCHMARK, records=records).score(
        BENCHMARK.metrics[0], "official"
    )
    rows = [TABLE.rows(record)["official"] for record in records]
    expected = percent(rows)
    assert value.percent == (None if math.isnan(expected) else expected)
    points = [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]
    mean = math.fsum(points) / max(1, len(points))
    assert value.percent in (None, percent_of(mean))


def test_question_gold_and_answer_are_shown_with_their_images():
    sample = Record.of_line(LINES[0])
    assert [segment.image for segment in sample.question] == ["kite.png"]
    assert [segment.image for segment in sample.gold] == [None, "kite.png"]
    assert [segment.image for segment in sample.answer] == [None, "kite.png"]
    assert sample.answer[0].text.startswith("model-a: ")
    assert sample.groups == {"category": ("SA",), "field": ("literature",)}


def test_an_image_of_an_answer_that_could_not_be_used_says_why():
    answer = [{"text": None, "image": "../../secret", "problem": "outside"}]
    (segment,) = Record.of_line(changed(answer=answer)).answer
    assert segment == Segment(image="../../secret", problem="outside")


@pytest.mark.parametrize("points", [7, -1, math.nan, math.inf])
def test_points_that_are_not_on_the_scale_are_none(points):
    verdicts = {**LINES[0]["record"]["verdicts"], "official": {"points": points}}
    sample = Record.of_line(changed(verdicts=verdicts))
    checked = as_counted(sample, BENCHMARK.scale)
    assert checked.official.reason == "off_scale"
    assert checked.robust == sample.robust


def test_a_reply_that_ran_into_its_limit_is_read_officially_only():
    record = regraded(with_reply("### Score\n4", finish="length"))
    assert record.official.points == 4
    assert record.robust.reason == "cut_off"
