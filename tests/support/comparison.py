"""What a parity script prints: what is compared, and how many cases are equal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was compared, how many cases are equal, and those that are not."""

    name: str
    equal: int
    total: int
    differences: tuple[str, ...] = ()


def compared(name: str, cases: Sequence[tuple[str, object, object]]) -> Comparison:
    """The comparison of cases of a name, what the official side has, and what ours has."""
    different = [
        f"{case}: {theirs!r:.300} != {ours!r:.300}"
        for case, theirs, ours in cases
        if theirs != ours
    ]
    return Comparison(
        name=name, equal=len(cases) - len(different), total=len(cases), differences=tuple(different)
    )


def printed(comparisons: Iterable[Comparison]) -> int:
    """Print a line for each; returns the exit status, 1 if a case is not equal."""
    status = 0
    for comparison in comparisons:
        lines = [f"{comparison.equal:,} of {comparison.total:,} {comparison.name}"]
        lines += [f"  {difference}" for difference in comparison.differences[:5]]
        sys.stdout.write("\n".join([*lines, ""]))
        status |= bool(comparison.differences)
    return status
