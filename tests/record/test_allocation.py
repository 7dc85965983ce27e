"""Sizes of proportional subsets."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mmie_tasks.benchmarks.mmie.data import SMALL_ROWS
from mmie_tasks.benchmarks.mmie.published import CATEGORY_SIZES
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES
from mmie_tasks.record.intervals import allocation

QUICK = settings(max_examples=40, deadline=None)


@QUICK
@given(st.lists(st.integers(1, 500), min_size=1, max_size=6), st.data())
def test_allocations_add_up_and_never_exceed_the_strata(sizes, data):
    subset_size = data.draw(st.integers(1, sum(sizes)))
    allocated = allocation(sizes, subset_size)
    assert sum(allocated) == subset_size
    assert all(0 <= taken <= size for taken, size in zip(allocated, sizes, strict=True))


def test_the_allocation_of_a_thousand_equals_that_of_mmie_1k():
    assert allocation([CATEGORY_SIZES[name] for name in CATEGORIES], SMALL_ROWS) == [249, 571, 180]
