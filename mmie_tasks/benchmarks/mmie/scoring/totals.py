"""The run's numbers, each made of the rows of the samples that count for it.

A sample that the official script leaves out (`left_out`) is counted by `coverage` and moves no
mean; and since no judge is at fault, it does not count against the floor of coverage either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from mmie_tasks.benchmarks.mmie.scoring.metrics import graded
from mmie_tasks.benchmarks.mmie.scoring.percent import FULL_MARKS, mean_points, percent_of
from mmie_tasks.verdict import Mean, Scored, Unscored, Verdict, mean_of, tally

Rows: TypeAlias = Sequence[Mapping[str, object]]
Ends: TypeAlias = tuple[float, float]
Interval: TypeAlias = Callable[[Sequence[float]], Ends | None]
"""Gives both ends of an interval of a mean, or None where too little is known for one."""


def average(verdicts: Iterable[Verdict]) -> Mean:
    """The mean, 0 to 6, as the official script rounds it; none below the floor of coverage.

    The official script has no floor: it averages what it can read, however little.

    >>> average([Scored(4), Scored(3), Scored(3), Unscored("left_out")])
    Mean(value=3.333, why_not='')
    """
    counted = _counted(verdicts)
    found = mean_of(tally(counted))
    return found if found.value is None else Mean(mean_points(_points(counted)))


def in_percent(verdicts: Iterable[Verdict]) -> Mean:
    """`average` in percent of full marks.

    >>> in_percent([Scored(4), Scored(3), Scored(3)]).value
    55.55
    """
    found = average(verdicts)
    return found if found.value is None else Mean(percent_of(found.value))


def ends(verdicts: Sequence[Verdict], interval: Interval) -> Ends | None:
    """Both ends of the interval of the mean, in percent; None where there is no mean either."""
    if average(verdicts).value is None:
        return None
    found = interval(_points(verdicts))
    return found and (found[0] / FULL_MARKS * 100, found[1] / FULL_MARKS * 100)


def points(rows: Rows) -> float:
    """Mean points, 0 to 6, to 3 decimals; NaN below the floor of coverage."""
    return _or_nan(average(map(graded, rows)).value)


def percent(rows: Rows) -> float:
    """Mean in percent of full marks, to 2 decimals; NaN below the floor of coverage.

    >>> percent([{"points": 4, "score": 66.7}, {"points": 3, "score": 50.0}])
    58.33
    """
    return _or_nan(in_percent(map(graded, rows)).value)


def ci_low(rows: Rows, interval: Interval) -> float:
    """Lower end of the interval of the mean, in percent of full marks; NaN where there is none."""
    found = ends([graded(row) for row in rows], interval)
    return math.nan if found is None else found[0]


def ci_high(rows: Rows, interval: Interval) -> float:
    """Upper end of the interval of the mean, in percent of full marks; NaN where there is none."""
    found = ends([graded(row) for row in rows], interval)
    return math.nan if found is None else found[1]


def coverage(records: Rows) -> float:
    """Samples with an official score, in percent of all, those left out included."""
    verdicts = [official_of(record) for record in records]
    return 100 * tally(verdicts).coverage


def share(rows: Rows) -> float:
    """Samples of which something holds, in percent of those it can hold of."""
    return 100 * sum(bool(row["holds"]) for row in rows) / len(rows)


def total(rows: Rows) -> float:
    """The sum of what is counted.

    >>> total([{"count": 2}, {"count": 0}])
    2.0
    """
    return float(sum(count for row in rows if isinstance(count := row["count"], int)))


def plain_mean(scores: Sequence[float]) -> float:
    """Mean of plain scores, 0 to 1, for ``--baseline``."""
    return sum(scores) / len(scores)


def official_of(record: Mapping[str, object]) -> Verdict:
    """The official verdict, 0 to 6, in a record."""
    return _reading(record, "official")


def robust_of(record: Mapping[str, object]) -> Verdict:
    """The robust verdict, 0 to 6, in a record."""
    return _reading(record, "robust")


def _reading(record: Mapping[str, object], name: str) -> Verdict:
    row = record[name]
    return graded(row if isinstance(row, Mapping) else {})


def _counted(verdicts: Iterable[Verdict]) -> list[Verdict]:
    return [v for v in verdicts if not (isinstance(v, Unscored) and v.reason == "left_out")]


def _points(verdicts: Iterable[Verdict]) -> list[float]:
    return [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
