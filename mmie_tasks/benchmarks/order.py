"""Orders a task's samples so that every ``--limit`` is a fair sample of the task."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

_Item = TypeVar("_Item")


def fair_order(
    items: Iterable[_Item], id_of: Callable[[_Item], str], *groupings: Callable[[_Item], str]
) -> list[_Item]:
    """The items in a random order in which every prefix has the groups in their proportions.

    The first grouping divides all items, the next each of its groups, and so on. At every prefix of
    n items, the size of each group of the first grouping differs by less than 1 from n times its
    share. Items of one group are in the order of the SHA-256 of their ids, which are unique: the
    same in every process and for every order of the data file.

    >>> fair_order(["b1", "a1", "a2", "a3"], str, lambda name: name[0])
    ['a2', 'a3', 'a1', 'b1']
    """
    if not groupings:
        return sorted(items, key=lambda item: _lot(id_of(item)))
    groups: defaultdict[str, list[_Item]] = defaultdict(list)
    for item in items:
        groups[groupings[0](item)].append(item)
    ordered = {
        name: iter(fair_order(groups[name], id_of, *groupings[1:])) for name in sorted(groups)
    }
    return [next(ordered[name]) for name in _turns({name: len(groups[name]) for name in ordered})]


def _lot(sample_id: str) -> bytes:
    return hashlib.sha256(f"order:{sample_id}".encode()).digest()


def _turns(sizes: Mapping[str, int]) -> Iterator[str]:
    """The group of each item, by the quota method (Balinski and Young, Amer. Math. Monthly 82,
    1975, pages 701-730).
    """
    total = sum(sizes.values())
    counts = dict.fromkeys(sizes, 0)
    for n in range(1, total + 1):
        eligible = [name for name in sizes if counts[name] * total < n * sizes[name]]
        name = max(eligible, key=lambda name: sizes[name] / (counts[name] + 1))
        counts[name] += 1
        yield name
