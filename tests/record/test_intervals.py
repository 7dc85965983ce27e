"""Confidence intervals of means."""

import math
import random
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmie_tasks.record import intervals
from mmie_tasks.record.intervals import bootstrap_interval

POINTS = st.lists(st.integers(0, 6), min_size=2, max_size=60)
QUICK = settings(max_examples=50, deadline=None)


def by_hand(points, resamples, seed):
    """The textbook bootstrap: samples are drawn one by one."""
    draw = np.random.default_rng(seed)
    means = [draw.choice(points, len(points)).mean() for _ in range(resamples)]
    return np.quantile(means, [0.025, 0.975])


@QUICK
@given(POINTS)
def test_an_interval_contains_the_mean_and_stays_on_the_scale(points):
    low, high = bootstrap_interval(points, resamples=2000)
    assert min(points) <= low <= sum(points) / len(points) <= high <= max(points)


@QUICK
@given(POINTS, st.randoms(use_true_random=False))
def test_the_order_of_the_points_does_not_matter(points, order):
    shuffled = order.sample(points, len(points))
    assert bootstrap_interval(shuffled, resamples=200) == bootstrap_interval(points, resamples=200)


@QUICK
@given(POINTS)
def test_a_higher_level_is_a_wider_interval(points):
    inner, outer = (bootstrap_interval(points, level, resamples=500) for level in (0.8, 0.95))
    assert outer.low <= inner.low <= inner.high <= outer.high


@QUICK
@given(st.floats(-1e6, 1e6), st.integers(2, 50))
def test_equal_points_have_an_interval_without_width(value, n):
    assert bootstrap_interval([value] * n, resamples=100) == (value, value)


@pytest.mark.parametrize("points", [[], [3]], ids=["none", "one"])
def test_fewer_than_two_points_have_no_interval(points):
    assert bootstrap_interval(points) is None


def test_half_of_the_means_of_two_points_lie_between_them():
    assert bootstrap_interval([0, 6], level=0.95) == (0, 6)
    assert bootstrap_interval([0, 6], level=0.4) == (3, 3)  # means 0, 3, 6 with 1/4, 1/2, 1/4


def test_the_interval_of_many_points_agrees_with_the_normal_distribution():
    points = [n % 7 for n in range(4900)]
    low, high = bootstrap_interval(points)
    half = 1.96 * 2 / math.sqrt(len(points))  # 0 to 6 evenly: standard deviation 2
    assert (low, high) == pytest.approx((3 - half, 3 + half), abs=0.03 * half)


@pytest.mark.parametrize("many", [intervals._MANY_ROWS, 0], ids=["by-count", "by-index"])
def test_both_ways_of_drawing_equal_a_textbook_bootstrap(monkeypatch, many):
    monkeypatch.setattr(intervals, "_MANY_ROWS", many)
    points = [0] * 30 + [1] * 5 + [4.5] * 3 + [6] * 2
    expected = by_hand(points, 4000, seed=1)
    assert bootstrap_interval(points, seed=2) == pytest.approx(expected, abs=0.12)


def test_many_distinct_values_are_drawn_as_samples_and_not_as_counts(monkeypatch):
    only_integers = SimpleNamespace(integers=np.random.default_rng(0).integers)
    monkeypatch.setattr(np.random, "default_rng", lambda _seed: only_integers)
    points = [n / 1000 for n in range(1001)]
    low, high = bootstrap_interval(points, resamples=2000)
    half = 1.96 * 0.289 / math.sqrt(len(points))
    assert (low, high) == pytest.approx((0.5 - half, 0.5 + half), abs=0.15 * half)


@pytest.mark.parametrize("many", [intervals._MANY_ROWS, 0], ids=["by-count", "by-index"])
def test_chunks_do_not_change_the_interval(monkeypatch, many):
    points = random.Random(3).choices(range(7), k=50)  # noqa: S311
    monkeypatch.setattr(intervals, "_MANY_ROWS", many)
    whole = bootstrap_interval(points, resamples=101)
    monkeypatch.setattr(intervals, "_CHUNK", 60)
    assert bootstrap_interval(points, resamples=101) == pytest.approx(whole, rel=1e-12)
    assert list(intervals.chunk_sizes(101, 7)) == [8] * 12 + [5]
    assert list(intervals.chunk_sizes(3, 10**9)) == [1, 1, 1]


def test_the_seed_determines_the_draw():
    points = [n % 7 for n in range(500)]
    assert bootstrap_interval(points) == bootstrap_interval(points)
    assert bootstrap_interval(points, seed=1) != bootstrap_interval(points, seed=2)


@pytest.mark.parametrize(
    ("points", "settings_"),
    [
        pytest.param([1, math.nan], {}, id="not-a-number"),
        pytest.param([1, math.inf], {}, id="infinite"),
        pytest.param([1, 2], {"level": 1}, id="level-1"),
        pytest.param([1, 2], {"level": 0}, id="level-0"),
        pytest.param([1, 2], {"resamples": 0}, id="no-resamples"),
    ],
)
def test_invalid_points_or_options_are_an_error(points, settings_):
    with pytest.raises(ValueError, match=r"interval|finite"):
        bootstrap_interval(points, **settings_)
