"""The one rule of intervals of means, and the sizes of proportional subsets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mmie_tasks.record.intervals import allocation, stratified_mean

POINTS = st.lists(st.integers(0, 6), min_size=10, max_size=60)
QUICK = settings(max_examples=50, deadline=None)


def interval(strata, weights=(1,), full_marks=6, **level):
    return stratified_mean(strata, weights, full_marks).interval(0, full_marks, **level)


@QUICK
@given(POINTS, st.randoms(use_true_random=False))
def test_an_interval_holds_the_mean_stays_on_the_scale_and_ignores_the_order(points, order):
    low, high = interval([points])
    assert 0 <= low <= np.mean(points) <= high <= 6
    assert interval([order.sample(points, len(points))]) == (low, high)


def test_equal_points_have_the_interval_of_one_unseen_error_of_the_whole_scale():
    half = stats.t.ppf(0.975, 29) * 6 / 30
    assert interval([[4] * 30]) == pytest.approx((4 - half, 4 + half))


@pytest.mark.parametrize("points", [0, 6])
def test_none_or_full_marks_only_have_the_exact_interval_of_the_share_of_others(points):
    low, high = interval([[points] * 30])
    exact = stats.binomtest(points * 5, 30).proportion_ci(0.95, method="exact")
    assert (low, high) == pytest.approx((6 * exact.low, 6 * exact.high))


def test_skewness_moves_both_ends_towards_the_rare_points():
    points = [6] * 19 + [0]
    mean = stratified_mean([points], [1], 6)
    variance = mean.standard_error**2
    skewness = float(stats.moment(points, 3)) / 20**2 / variance
    assert skewness < 0
    assert mean.shift == pytest.approx((1 + 2 * 1.959964**2) / 6 * skewness)
    assert np.mean(mean.interval(-99, 99)) == pytest.approx(mean.value + mean.shift)
    assert stratified_mean([[0, 6] * 10], [1], 6).shift == pytest.approx(0)


@pytest.mark.parametrize(
    ("strata", "weights"),
    [
        pytest.param([[1, 5] * 4 + [2]], [1], id="nine-samples"),
        pytest.param([[1, 5] * 10, [3]], [0.5, 0.5], id="one-sample-in-a-stratum"),
        pytest.param([], [], id="nothing"),
    ],
)
def test_too_few_samples_have_no_interval(strata, weights):
    assert stratified_mean(strata, weights, 6) is None
    assert stratified_mean([[1, 5] * 4, [3, 4]], [0.5, 0.5], 6) is not None  # ten, and two of each


def test_strata_add_their_variances_with_squared_weights_and_satterthwaites_degrees():
    a, b = [0, 6, 3, 5, 1, 2], [4, 4, 6, 5]
    mean = stratified_mean([a, b], [0.75, 0.25], 6)
    of_a, of_b, unseen = 0.75**2 * np.var(a, ddof=1) / 6, 0.25**2 * np.var(b, ddof=1) / 4, 0.3**2
    assert mean.value == pytest.approx(0.75 * np.mean(a) + 0.25 * np.mean(b))
    assert mean.standard_error**2 == pytest.approx(of_a + of_b + unseen)
    assert mean.degrees == pytest.approx(
        (of_a + of_b + unseen) ** 2 / (of_a**2 / 5 + of_b**2 / 3 + unseen**2 / 9)
    )


@QUICK
@given(st.lists(st.integers(-6, 6), min_size=10, max_size=40), st.floats(0.5, 0.999))
def test_an_interval_excludes_0_exactly_where_the_p_value_is_below_its_level(differences, level):
    mean = stratified_mean([differences], [1], 6)
    low, high = mean.interval(-6, 6, level)
    if abs(mean.p_value - (1 - level)) > 1e-9:
        assert (low > 0 or high < 0) == (mean.p_value < 1 - level)


@QUICK
@given(st.lists(st.integers(1, 500), min_size=1, max_size=6), st.data())
def test_allocations_add_up_and_never_exceed_the_strata(sizes, data):
    subset_size = data.draw(st.integers(1, sum(sizes)))
    allocated = allocation(sizes, subset_size)
    assert sum(allocated) == subset_size
    assert all(0 <= taken <= size for taken, size in zip(allocated, sizes, strict=True))
