"""Intervals and p-values of paired differences, compared with scipy; general properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mmie_tasks.results import compare as paired
from mmie_tasks.results.alignment import Stratum
from mmie_tasks.results.compare import Resampling, corrected, mean_difference

QUICK = settings(max_examples=40, deadline=None)
DIFFERENCES = st.lists(st.integers(-6, 6), min_size=1, max_size=10)
P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def strata(*differences, weights=None):
    weights = weights or [1 / len(differences)] * len(differences)
    return [
        Stratum(key=str(stratum), weight=weight, points=np.array(values, dtype=float))
        for stratum, (values, weight) in enumerate(zip(differences, weights, strict=True))
    ]


def scipys(differences, resamples=np.inf):
    zeros = np.zeros(len(differences))
    return stats.permutation_test(
        (np.array(differences, dtype=float), zeros),
        lambda a, b, axis: (a - b).mean(axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        rng=np.random.default_rng(1),
    ).pvalue


@QUICK
@given(st.lists(st.integers(-6, 6), min_size=2, max_size=8))
def test_the_p_of_few_pairs_equals_the_exact_p_of_scipy(differences):
    assert Resampling(10).p_value(strata(differences)) == pytest.approx(scipys(differences))


@pytest.mark.parametrize("spread", ["ties", "no-ties"])
@pytest.mark.parametrize("shift", [0.0, 0.2, 0.5])
def test_the_p_of_many_pairs_is_close_to_that_of_scipy(spread, shift):
    random = np.random.default_rng(0)
    differences = random.normal(shift, 2, 120)
    differences = differences.round() if spread == "ties" else differences
    ours = Resampling(20_000).p_value(strata(differences))
    assert ours == pytest.approx(scipys(differences, 20_000), abs=0.015)


def test_sampled_and_exact_p_values_agree(monkeypatch):
    groups = [[3, 1, -1, 2, 2], [0, 1, 4, -2, 1, 1]]
    exact = Resampling(10).p_value(strata(*groups, weights=[0.2, 0.8]))
    monkeypatch.setattr(paired, "EXACT_PAIRS", 0)
    drawn = Resampling(100_000).p_value(strata(*groups, weights=[0.2, 0.8]))
    assert 0.05 < exact < 0.95
    assert drawn == pytest.approx(exact, abs=0.01)


def test_a_sampled_p_value_is_not_zero():
    assert Resampling(99).p_value(strata([1.0] * 500)) == 0.01


def test_without_a_difference_false_positives_are_as_frequent_as_p():
    random = np.random.default_rng(7)
    p_values = [
        Resampling(400).p_value(strata(random.integers(-2, 3, 40), random.integers(-2, 3, 30)))
        for _ in range(300)
    ]
    assert 0.02 < np.mean(np.array(p_values) <= 0.05) < 0.09
    assert 0.4 < np.mean(np.array(p_values) <= 0.5) < 0.6


@pytest.mark.parametrize("draws", [16, 0], ids=["exact", "drawn"])
@pytest.mark.parametrize(
    "differences",
    [pytest.param([0, 0, 0], id="ties"), pytest.param([5], id="one"), pytest.param([0], id="none")],
)
def test_pairs_without_evidence_have_p_1(differences, draws, monkeypatch):
    monkeypatch.setattr(paired, "EXACT_PAIRS", draws)
    assert Resampling(50).p_value(strata(differences)) == 1


@QUICK
@given(DIFFERENCES, DIFFERENCES, st.randoms(use_true_random=False))
def test_order_and_sign_of_the_differences_do_not_change_the_result(one, other, order):
    ours, theirs = Resampling(200), Resampling(200)
    shuffled = strata(order.sample(one, len(one)), order.sample(other, len(other)))
    assert mean_difference(strata(one, other)) == mean_difference(shuffled)
    assert ours.interval(strata(one, other)) == theirs.interval(shuffled)
    assert ours.p_value(strata(one, other)) == theirs.p_value(shuffled)
    swapped = strata([-x for x in one], [-x for x in other])
    assert Resampling(200).p_value(swapped) == pytest.approx(ours.p_value(shuffled), abs=0.12)


def test_intervals_equal_those_of_pairs_drawn_one_by_one_within_groups():
    one, other = np.array([3.0, -1, 2, 2, 0, 5]), np.array([1.0, 0, 0, -4])
    random = np.random.default_rng(3)
    means = [
        0.3 * random.choice(one, 6).mean() + 0.7 * random.choice(other, 4).mean()
        for _ in range(20_000)
    ]
    interval = Resampling(20_000).interval(strata(one, other, weights=[0.3, 0.7]))
    assert interval == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.15)


def test_intervals_cover_the_true_value_as_often_as_their_level():
    random = np.random.default_rng(5)
    inside = 0
    for _ in range(300):
        low, high = Resampling(400).interval(strata(random.normal(0.5, 2, 60)))
        inside += low <= 0.5 <= high
    assert 0.9 <= inside / 300 <= 0.98


@pytest.mark.parametrize(
    "groups", [pytest.param([[1]], id="one"), pytest.param([[1, 2], [3]], id="one-in-a-group")]
)
def test_one_pair_has_no_interval(groups):
    assert Resampling(10).interval(strata(*groups)) is None


def test_equal_groups_with_different_names_are_drawn_independently():
    apart = Resampling(4000).interval(strata([0, 1] * 20, [0, 1] * 20))
    alone = Resampling(4000).interval(strata([0, 1] * 20))
    assert apart.high - apart.low < 0.85 * (alone.high - alone.low)


@QUICK
@given(P_VALUES)
def test_corrected_p_values_never_fall_and_keep_their_order(p_values):
    after = corrected(p_values)
    assert all(p <= q + 1e-12 and q <= 1 for p, q in zip(p_values, after, strict=True))
    order = np.argsort(p_values, kind="stable")
    assert all(np.diff(np.array(after)[order]) >= -1e-12)


def test_the_correction_equals_textbook_values():
    assert corrected([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert corrected([]) == []
