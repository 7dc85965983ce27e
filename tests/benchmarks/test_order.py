"""The order of samples: random, the same everywhere, and in proportion at every prefix."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.benchmarks.order import fair_order

SIZES = st.lists(st.integers(1, 15), min_size=1, max_size=6)


def items_of(sizes):
    return [(str(group), f"{group}-{i}") for group, size in enumerate(sizes) for i in range(size)]


def group_of(item):
    return item[0]


def length_of(item):
    return str(len(item[1]))


def in_order(items, *groupings):
    return fair_order(items, lambda item: item[1], *groupings)


@given(SIZES)
def test_at_every_prefix_each_group_differs_from_its_share_by_less_than_one(sizes):
    ordered = in_order(items_of(sizes), group_of)
    assert sorted(ordered) == sorted(items_of(sizes))
    counts = Counter()
    for n, (group, _) in enumerate(ordered, 1):
        counts[group] += 1
        assert all(abs(counts[str(g)] - n * size / sum(sizes)) < 1 for g, size in enumerate(sizes))


@given(st.permutations(items_of([3, 5, 1, 7])))
def test_the_order_of_the_items_does_not_matter(items):
    assert in_order(items, group_of) == in_order(items_of([3, 5, 1, 7]), group_of)


@given(SIZES)
def test_a_group_has_the_order_that_it_has_alone_and_divides_in_proportion_too(sizes):
    items = items_of(sizes)
    ordered = in_order(items, group_of, length_of)
    for group in map(str, range(len(sizes))):
        own = [item for item in items if item[0] == group]
        assert [item for item in ordered if item[0] == group] == in_order(own, length_of)
