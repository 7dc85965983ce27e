"""From points to the percentages of the paper, rounded as they are there.

Source: ``average`` in ``main.py`` of Lillianwei-h/MMIE at eb0fd6e, and its author in issue 10: the
mean, out of 6, in percent. All 80 cells of the published table are a mean of 3 decimals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

FULL_MARKS = 6


def mean_points(points: Sequence[float]) -> float | None:
    """The mean, 0 to 6, rounded to 3 decimals; None where there are no points.

    Rounded as numpy does it, which the official script leaves it to: a thousand times the mean to
    the nearest whole, half to even. Python's own ``round`` looks at the exact decimals and differs.

    >>> mean_points([4, 3, 3]), mean_points([])
    (3.333, None)
    """
    if not points:
        return None
    return round(math.fsum(points) / len(points) * 1000) / 1000


def percent_of(mean: float) -> float:
    """A mean of 3 decimals, 0 to 6, in percent of full marks, to 2 decimals.

    No such mean lies half-way between two, so it does not matter how halves are rounded.

    >>> percent_of(3.928)
    65.47
    """
    return round(mean / FULL_MARKS * 100, 2)


def percent(points: Sequence[float]) -> float | None:
    """The mean in percent of full marks, to 2 decimals; None where there are no points.

    >>> percent([4, 3, 3])
    55.55
    """
    mean = mean_points(points)
    return None if mean is None else percent_of(mean)
