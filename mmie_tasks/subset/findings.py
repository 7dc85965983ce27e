"""What came of looking at subsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mmie_tasks.review import Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """Deviations of one number of one run, in percent points, whichever way.

    Attributes:
        mean: Of the deviations.
        within: 95 % of them are not larger.
        worst: The largest.
    """

    mean: float
    within: float
    worst: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Two runs, by their first number over all samples.

    Attributes:
        ahead: The run with more, by its place.
        behind: The other.
        by: Percent points.
        kept: Size to the share of draws in which `ahead` stays ahead.
    """

    ahead: int
    behind: int
    by: float
    kept: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """A given subset.

    Attributes:
        name: For people.
        samples: Those of it that all runs have points for.
        unscored: Those that some run has no points for.
        unknown: Ids that no run has.
        counts: Number, by its place, to how many of `samples` count for it.
        percent: Number, by its place, to the score of each run; None where there is none.
    """

    name: str
    samples: int
    unscored: int
    unknown: int
    counts: tuple[int, ...]
    percent: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One task of one or more runs.

    Attributes:
        numbers: Those that were looked at, headline first.
        why_not: Title of a number to why it was not looked at.
        samples: How many have points in all runs: what subsets are drawn from.
        unscored: How many have none in some run, or are not there.
        stratify: The kind of group that is kept in proportion; empty for none.
        percent: Number, by its place, to the full score of each run.
        strays: Size to number to run; None where a subset may lack a group that is averaged.
        orders: Of every two runs that are not level.
        ranks: Size to the mean rank correlation (Spearman) of the runs; from three runs on.
        fixed: Given subsets.
    """

    numbers: tuple[Number, ...]
    why_not: Mapping[str, str]
    samples: int
    unscored: int
    stratify: str
    percent: tuple[tuple[float, ...], ...]
    strays: Mapping[int, tuple[tuple[Stray | None, ...], ...]]
    orders: tuple[Order, ...]
    ranks: Mapping[int, float]
    fixed: tuple[Fixed, ...]
