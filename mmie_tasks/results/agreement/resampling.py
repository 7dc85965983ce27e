"""Samples drawn again with replacement, and the intervals that come of it.

A statistic of ratings depends on how often each distinct row of ratings occurs, and on nothing
else. So these counts are drawn: twenty thousand samples with points from 0 to 6 by two judges are
49 counts at most. It is the usual bootstrap, and quick.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from mmie_tasks.core.bootstrap import Interval

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.intp]

LEVEL = 0.95
RESAMPLES = 1000
NOT_ASKED = "no resamples were asked for"
MANY = 1000  # distinct rows; from here on drawing indices is quicker than drawing counts

_CHUNK = 2_000_000  # numbers held at once
_WORK = 5_000_000  # numbers drawn in all for many distinct rows
_LEAST = 200  # resamples, however many samples there are
_UNDEFINED = 0.05  # share of resamples without a value, above which there is no interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A statistic of some ratings.

    Attributes:
        value: None where it is not defined.
        interval: 95 %, percentile bootstrap over samples; None where there is none.
        why_not: Why there is no value, or no interval.
        resamples: That the interval is from.
    """

    value: float | None = None
    interval: Interval | None = None
    why_not: str = ""
    resamples: int = 0


def resamples_for(distinct: int, asked: int) -> int:
    """How many resamples are drawn of this many distinct rows: fewer of very many.

    >>> resamples_for(49, 1000), resamples_for(20_000, 1000)
    (1000, 250)
    """
    return asked if distinct <= MANY else min(asked, max(_LEAST, _WORK // distinct))


def draws(counts: Ints, resamples: int, seed: int = 0) -> Iterator[Floats]:
    """How often each row is drawn, a chunk of resamples at a time.

    Args:
        counts: How often each distinct row occurs; shape ``(rows,)``. Whoever sorts the rows has
            results that do not depend on the order of the samples.
        resamples: How many times all samples are drawn.
        seed: The same counts with the same seed give the same draws.

    Yields:
        Shape ``(some resamples, rows)``; every line adds up to the number of samples.
    """
    random = np.random.default_rng(seed)
    total, rows = int(counts.sum()), len(counts)
    owners = np.repeat(np.arange(rows), counts)
    most = max(1, _CHUNK // max(rows, total if rows > MANY else 1))
    for begin in range(0, resamples, most):
        size = min(most, resamples - begin)
        if rows <= MANY:
            yield random.multinomial(total, counts / total, size=size).astype(np.float64)
        else:
            drawn = owners[random.integers(total, size=(size, total))]
            drawn += rows * np.arange(size)[:, None]
            found = np.bincount(drawn.ravel(), minlength=size * rows)
            yield found.reshape(size, rows).astype(np.float64)


def measured(value: float, drawn: Floats, samples: int) -> Measured:
    """A value with the interval of its resampled values.

    Args:
        value: Of the samples as they are; NaN is not allowed.
        drawn: Of every resample; NaN where it is not defined. None drawn: no interval.
        samples: How many there are.
    """
    if samples < 2:
        return Measured(value=value, why_not="one sample says nothing about an interval")
    if not len(drawn):
        return Measured(value=value, why_not=NOT_ASKED)
    defined = drawn[np.isfinite(drawn)]
    if len(defined) < (1 - _UNDEFINED) * len(drawn):
        lost = 100 * (1 - len(defined) / len(drawn))
        return Measured(value=value, why_not=f"it is not defined in {lost:.0f} % of the resamples")
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(defined, (tail, 1 - tail))
    return Measured(value=value, interval=Interval(float(low), float(high)), resamples=len(drawn))
