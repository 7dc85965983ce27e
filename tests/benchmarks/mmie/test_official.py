"""The official reader, and percentages, against the official script and the author's formula."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parity import mmie as parity
from support.golden import vectors

from mmie_tasks.benchmarks.mmie.official import percent_of, read_official, rounded_mean
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.metrics import weighted_mean


@pytest.mark.parametrize("case", vectors("mmie_scores")["cases"], ids=lambda case: case["id"])
def test_a_golden_reply_is_read_as_the_official_script_reads_it(case):
    verdict = read_official(case["text"])
    match case["score"]:
        case None:
            assert (type(verdict), verdict.reason) == (Unscored, "unparsed")
        case int(score) if 0 <= score <= 6:
            assert (type(verdict), verdict.points) == (Scored, score)
        case _:
            assert (type(verdict), verdict.reason) == (Unscored, "off_scale")


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_number_on_which_the_official_script_ends_is_off_the_scale(sign):
    verdict = read_official(f"### Score\n{sign}{'9' * 310}")
    assert verdict.reason == "off_scale"
    assert "ends" in verdict.detail
    assert len(verdict.detail) < 100


def test_a_long_reply_with_many_headings_and_no_number_takes_no_time():
    assert read_official("### Score\n" * 100_000).reason == "unparsed"


@settings(max_examples=40)
@given(st.text(), st.text(alphabet="ab \n:#"), st.integers(0, 6))
def test_only_the_first_number_after_the_first_heading_counts(before, between, points):
    before = before.replace("### Score", "")
    reply = f"{before}\n### Score{between}{points}"
    assert read_official(f"{reply} 3\n### Score\n2") == Scored(points, str(points))


def mean(points):
    return weighted_mean({"": [*map(Scored, points)]}, {"": 1.0}, floor=0).value


@given(st.lists(st.integers(0, 6), min_size=1, max_size=400))
def test_means_are_rounded_as_numpy_does(points):
    assert rounded_mean(mean(points)) == round(np.mean(np.array(points)), 3)


@pytest.mark.parametrize("thousandths", [*range(0, 6000, 370), 2000, 2001])
def test_means_half_way_between_two_thousandths_are_rounded_as_numpy_does(thousandths):
    whole, more = divmod(2 * thousandths + 1, 2000)
    points = [whole + 1] * more + [whole] * (2000 - more)
    assert rounded_mean(mean(points)) == round(np.mean(np.array(points)), 3)


def test_points_become_a_percentage_through_their_exact_and_rounded_mean():
    assert percent_of(mean([1, 0, 0])) == 5.55  # 0.333 of 6; of the mean itself it is 5.56
    assert (percent_of(6), percent_of(0), mean([])) == (100.0, 0.0, None)
    decimals = [3.0, 2.2, 3.7, 5.7, 5.8, 1.3, 3.2, 0.8]  # added up one by one: a mean of 3.213
    assert rounded_mean(mean(decimals)) == 3.212


def test_every_published_percentage_is_a_mean_of_three_decimals_and_avg_is_over_samples():
    cells, averages = parity.published_cells({}), parity.published_averages({})
    assert (cells.total, cells.differences) == (80, [])
    assert (averages.total, averages.differences) == (20, [])
