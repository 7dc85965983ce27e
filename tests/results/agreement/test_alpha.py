"""Krippendorff's alpha, compared with the package `krippendorff`."""

from __future__ import annotations

import krippendorff
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mmie_tasks.record.intervals import resample_counts
from mmie_tasks.results.agreement import measures as module
from mmie_tasks.results.agreement.measures import LEVELS, alpha, alphas, rating_rows

QUICK = settings(max_examples=60, deadline=None)
RATINGS = st.integers(2, 4).flatmap(
    lambda raters: st.lists(
        st.tuples(*[st.sampled_from([np.nan, 0, 1, 2, 4.5, 6])] * raters), min_size=2, max_size=25
    )
)


def usable(points):
    """Whether alpha is defined: a sample has two ratings, and not all ratings are equal."""
    rated = points[np.isfinite(points).sum(axis=1) >= 2]
    return len(rated) and np.nanmin(rated) < np.nanmax(rated)


def by_library(points, level):
    rated = points[np.isfinite(points).sum(axis=1) >= 2]
    return krippendorff.alpha(reliability_data=rated.T, level_of_measurement=level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("limit", [module._ALPHA_CELLS, 0], ids=["library", "own"])
@QUICK
@given(rows=RATINGS)
def test_alpha_equals_that_of_the_library(limit, level, rows):
    points = np.array(rows, dtype=float)
    assume(usable(points))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_ALPHA_CELLS", limit)
        result = alpha(points, level, 0)
    assert result.value == pytest.approx(by_library(points, level), abs=1e-9)


@pytest.mark.parametrize("level", LEVELS)
@QUICK
@given(rows=RATINGS, seed=st.integers(0, 99))
def test_a_resample_has_the_alpha_of_the_drawn_samples(level, rows, seed):
    grouped = rating_rows(*np.array(rows, dtype=float).T)
    assume(grouped.samples)
    [drawn] = resample_counts(grouped.counts, 1, seed)
    points = np.repeat(grouped.points, drawn[0].astype(int), axis=0)
    expected = by_library(points, level) if usable(points) else np.nan
    assert alphas(grouped, drawn, level)[0] == pytest.approx(expected, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=20, deadline=None)
@given(rows=RATINGS, order=st.randoms(use_true_random=False))
def test_the_order_of_samples_does_not_matter(level, rows, order):
    shuffled = order.sample(rows, len(rows))
    one, other = (alpha(np.array(ratings, dtype=float), level, 100) for ratings in (rows, shuffled))
    assert one == other


@pytest.mark.parametrize("level", LEVELS)
def test_equal_ratings_agree_and_the_interval_contains_the_value(level):
    x = np.arange(60) % 7.0
    assert alpha(np.column_stack((x, x, x)), level, 100).value == pytest.approx(1)
    other = np.roll(x, 1)
    result = alpha(np.column_stack((x, other, x)), level, 200)
    assert result.interval.low < result.value < result.interval.high


@pytest.mark.parametrize(
    ("points", "why"),
    [
        pytest.param([[1, np.nan], [np.nan, 2]], "no sample", id="no-overlap"),
        pytest.param([[3, 3], [3, 3], [5, np.nan]], "all points are the same", id="constant"),
    ],
)
def test_an_undefined_alpha_has_a_reason(points, why):
    result = alpha(np.array(points), "interval", 100)
    assert result.value is None
    assert why in result.why_not


def test_one_sample_has_an_alpha_and_no_interval():
    result = alpha(np.array([[1.0, 2.0]]), "interval", 100)
    assert (result.value, result.interval) == (pytest.approx(0), None)
    assert "one sample" in result.why_not
