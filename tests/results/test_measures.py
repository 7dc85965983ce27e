"""Measures of raters, compared with those of the libraries, and their intervals."""

import math

import krippendorff
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from mmie_tasks.record.metrics import Scale
from mmie_tasks.results.measures import MEASURES, alpha, measure

SIX = Scale(full_marks=6, unit="points, 0 to 6", whole=True, percent=lambda mean: mean / 0.06)
HUNDRED = Scale(full_marks=100, unit="percent", percent=lambda mean: mean)
QUICK = settings(max_examples=30, deadline=None)

POINTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=40)
VARIED = POINTS.filter(lambda rows: all(len(set(column)) > 1 for column in zip(*rows, strict=True)))
RATING = st.sampled_from([np.nan, 0, 1, 2, 4.5, 6])
RATINGS = st.integers(2, 4).flatmap(
    lambda raters: st.lists(st.tuples(*[RATING] * raters), min_size=2, max_size=25)
)


def measured(rows, scale=SIX):
    points = np.reshape(np.array(rows, dtype=float), (-1, 2))
    return {name: measure(points, name, scale) for name in MEASURES}


def values(rows, scale=SIX):
    return {name: measurement.value for name, measurement in measured(rows, scale).items()}


@QUICK
@given(VARIED)
def test_every_measure_equals_that_of_the_libraries(rows):
    from sklearn import metrics  # takes a second

    x, y = np.array(rows).T
    expected = {
        "cosine": metrics.pairwise.cosine_similarity([x], [y])[0, 0],
        "mse": metrics.mean_squared_error(y, x),
        "mae": metrics.mean_absolute_error(y, x),
        "pearson": stats.pearsonr(x, y).statistic,
        "spearman": stats.spearmanr(x, y).statistic,
        "kappa": metrics.cohen_kappa_score(x, y, labels=list(range(7)), weights="quadratic"),
        "bias": np.mean(x - y),
    }
    assert values(rows) == pytest.approx(expected, abs=1e-12)


RANKS = dict.fromkeys(["pearson", "spearman"], "the same points")
KAPPA = {"kappa": "the same one value"}


@pytest.mark.parametrize(
    ("rows", "missing"),
    [
        pytest.param([], dict.fromkeys(MEASURES, "no sample"), id="none"),
        pytest.param([(3, 1), (3, 4)], RANKS, id="constant"),
        pytest.param([(0, 0)] * 2, {"cosine": "only 0", **KAPPA, **RANKS}, id="only-zeros"),
        pytest.param([(2.2, 2.2)] * 7, KAPPA | RANKS, id="equal-with-rounding-errors"),
    ],
)
def test_an_undefined_measure_has_no_value_and_a_reason(rows, missing):
    undefined = measured(rows)
    assert {name for name in MEASURES if undefined[name].value is None} == set(missing)
    assert all(reason in undefined[name].why_not for name, reason in missing.items())


def test_kappa_needs_whole_numbers_on_the_scale_and_rounds_no_mean_of_people():
    assert values([(3, 3.5), (5, 1)])["kappa"] != values([(3, 4), (5, 1)])["kappa"]
    assert "whole numbers" in measured([(50, 60), (20, 30.5)], HUNDRED)["kappa"].why_not


def test_fewer_than_ten_samples_have_no_interval():
    rows = [(n % 7, n % 5) for n in range(10)]
    assert all(m.interval and not m.why_not for m in measured(rows).values())
    few = measured(rows[:9])
    assert all(m.interval is None and "10 samples" in m.why_not for m in few.values())
    pearson = measured([(3, 1)] * 40 + [(4, 2)])["pearson"]  # hangs on one sample
    assert (pearson.value, pearson.interval) == (pytest.approx(1), None)


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_judge_that_is_nearly_always_right_has_no_interval_of_zero_width(wrong):
    rows = [(n % 7, n % 7) for n in range(30)] + [(6, 0)] * wrong
    for measurement in measured(rows).values():
        assert measurement.interval.low <= measurement.value <= measurement.interval.high
        assert measurement.interval.high - measurement.interval.low > 0.01


@pytest.mark.parametrize("name", MEASURES)
def test_an_interval_has_the_error_of_the_jackknife_and_one_unseen_error_on_its_own_scale(name):
    random, function = np.random.default_rng(3), MEASURES[name].function
    reference = random.integers(0, 7, 40)
    points = np.column_stack((np.clip(reference + random.integers(-2, 3, 40), 0, 6), reference))
    value = function(*points.T)
    without = np.array([function(*np.delete(points, n, axis=0).T) for n in range(40)])
    unseen = [function(*np.vstack((points, row)).T) - value for row in ([6, 3], [3, 6])]
    error = math.sqrt(39 * without.var() + max(np.square(unseen)))
    scale, back, slope = {
        "difference": (float, float, 1),
        "distance": (math.log, math.exp, 1 / value),
        "correlation": (math.atanh, math.tanh, 1 / (1 - value**2)),
    }[MEASURES[name].form]
    ends = stats.t.interval(0.95, 39, scale(value), slope * error)
    assert measured(points)[name].interval == pytest.approx(tuple(map(back, ends)))


@QUICK
@given(rows=RATINGS)
def test_alpha_is_that_of_the_library_over_the_samples_with_two_ratings(rows):
    points = np.array(rows, dtype=float)
    rated = points[np.isfinite(points).sum(axis=1) >= 2]
    assume(len(rated) and np.nanmin(rated) < np.nanmax(rated))  # else alpha is not defined
    expected = krippendorff.alpha(reliability_data=rated.T, level_of_measurement="interval")
    result = alpha(points, SIX)
    assert result.value == pytest.approx(expected, abs=1e-9)
    assert result == alpha(points[::-1], SIX)
