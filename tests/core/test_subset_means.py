"""Subsets drawn as counts have the distribution of subsets drawn sample by sample."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmie_tasks.benchmarks.mmie.data import PUBLISHED, SMALL_ROWS
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES
from mmie_tasks.core import bootstrap
from mmie_tasks.core.bootstrap import GroupMean, allocation, full_means, subset_means

QUICK = settings(max_examples=40, deadline=None)
POINTS = np.array([[6, 5, 5, 4, 0, 1, 2, 2, 3, 6, 6, 0], [1, 5, 2, 4, 0, 3, 2, 2, 3, 6, 4, 0]], float)
STRATA = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2])
PLAIN = GroupMean(groups=np.zeros(12, dtype=np.int64), weights=np.ones(1))
GROUPS = GroupMean(groups=np.where(STRATA == 2, -1, STRATA), weights=np.array([0.25, 0.75]))


def one_by_one(sizes, draws):
    """Subsets drawn sample by sample, as arrays of indices."""
    random = np.random.default_rng(1)
    taken = allocation([6, 4, 2], sizes)
    for _ in range(draws):
        yield np.concatenate(
            [
                random.choice(np.flatnonzero(stratum == STRATA), take, replace=False)
                for stratum, take in enumerate(taken)
            ]
        )


def test_the_full_means_are_plain_and_weighted():
    means = full_means(POINTS, [PLAIN, GROUPS])
    assert means[0] == pytest.approx(POINTS.mean(axis=1))
    by_hand = 0.25 * POINTS[:, :6].mean(axis=1) + 0.75 * POINTS[:, 6:10].mean(axis=1)
    assert means[1] == pytest.approx(by_hand)


@pytest.mark.parametrize("mean_index", [0, 1], ids=["plain", "of-groups"])
def test_counts_have_the_distribution_of_samples_drawn_one_by_one(mean_index):
    drawn = subset_means(POINTS, STRATA, [PLAIN, GROUPS], 6, 6000)[mean_index]
    expected = np.stack(
        [
            full_means(POINTS[:, chosen], [GroupMean(groups=m.groups[chosen], weights=m.weights)])[0]
            for m in ([PLAIN, GROUPS][mean_index],)
            for chosen in one_by_one(6, 6000)
        ],
        axis=1,
    )
    for ours, theirs in zip(drawn, expected, strict=True):
        for level in np.linspace(1.5, 5, 15):
            assert (ours <= level).mean() == pytest.approx((theirs <= level).mean(), abs=0.04)
    assert np.cov(drawn) == pytest.approx(np.cov(expected), abs=0.03)  # the same samples for both


def test_a_subset_of_all_samples_has_the_full_score():
    drawn = subset_means(POINTS, STRATA, [PLAIN, GROUPS], 12, 5)
    assert drawn == pytest.approx(np.repeat(full_means(POINTS, [PLAIN, GROUPS])[:, :, None], 5, axis=2))


def test_a_simple_subset_may_lack_a_group():
    strata = np.zeros(12, dtype=np.int64)
    means = subset_means(POINTS, strata, [GROUPS], 3, 500)[0, 0]
    assert np.isnan(means).any()  # a subset has no sample of a group
    assert np.isfinite(means).any()


def test_neither_order_nor_chunks_change_a_draw(monkeypatch):
    order = np.random.default_rng(0).permutation(12)
    turned = GroupMean(groups=GROUPS.groups[order], weights=GROUPS.weights)
    drawn = subset_means(POINTS, STRATA, [GROUPS], 6, 50)
    assert np.array_equal(drawn, subset_means(POINTS[:, order], STRATA[order], [turned], 6, 50))
    monkeypatch.setattr(bootstrap, "_CHUNK", 40)
    assert subset_means(POINTS, STRATA, [GROUPS], 6, 50).shape == drawn.shape


@QUICK
@given(st.lists(st.integers(1, 500), min_size=1, max_size=6), st.data())
def test_allocations_add_up_and_never_exceed_the_strata(sizes, data):
    subset_size = data.draw(st.integers(1, sum(sizes)))
    allocated = allocation(sizes, subset_size)
    assert sum(allocated) == subset_size
    assert all(0 <= taken <= size for taken, size in zip(allocated, sizes, strict=True))


def test_the_allocation_of_a_thousand_equals_that_of_mmie_1k():
    assert allocation([PUBLISHED[name] for name in CATEGORIES], SMALL_ROWS) == [249, 571, 180]
