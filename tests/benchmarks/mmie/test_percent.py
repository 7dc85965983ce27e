"""From points to percentages, as the official script and its author's formula have it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parity import mmie as parity

from mmie_tasks.benchmarks.mmie.official import percent_of, rounded_mean
from mmie_tasks.core.verdict import Scored
from mmie_tasks.record.metrics import weighted_mean


def mean(points):
    return weighted_mean({"": [*map(Scored, points)]}, {"": 1.0}, floor=0).value


def percent(points):
    return percent_of(mean(points))


def mean_of_half_a_thousandth(thousandths):
    """Points whose mean lies exactly half-way between two means of 3 decimals."""
    total = 2 * thousandths + 1
    whole, more = divmod(total, 2000)
    return [whole + 1] * more + [whole] * (2000 - more)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=400))
def test_means_are_rounded_as_numpy_does(points):
    assert rounded_mean(mean(points)) == round(np.mean(np.array(points)), 3)


@pytest.mark.parametrize("thousandths", [*range(0, 6000, 370), 2000, 2001])
def test_halves_are_rounded_as_numpy_does(thousandths):
    points = mean_of_half_a_thousandth(thousandths)
    assert rounded_mean(mean(points)) == round(np.mean(np.array(points)), 3)


def test_points_become_a_percentage_through_their_rounded_mean():
    assert percent([1, 0, 0]) == 5.55  # 0.333 of 6; without rounding in between it is 5.56
    assert (percent([6]), percent([0]), mean([])) == (100.0, 0.0, None)


def test_points_with_decimals_are_added_up_exactly():
    """Added up one by one from the left they make a mean of 3.213."""
    assert rounded_mean(mean([3.0, 2.2, 3.7, 5.7, 5.8, 1.3, 3.2, 0.8])) == 3.212


def test_every_published_percentage_is_a_mean_of_three_decimals_and_avg_is_over_samples():
    cells, averages = parity.published_cells({}), parity.published_averages({})
    assert (cells.total, cells.differences) == (80, [])
    assert (averages.total, averages.differences) == (20, [])
