"""How sure a mean is: bootstrap intervals over samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

_MANY = 1000  # distinct values; from here on drawing indices is quicker than drawing counts
_CHUNK = 4_000_000  # numbers held at once

_Floats: TypeAlias = npt.NDArray[np.float64]


class Interval(NamedTuple):
    """Both ends of an interval, in the unit of the points."""

    low: float
    high: float


def bootstrap_interval(
    points: Sequence[float], level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Interval | None:
    """The percentile bootstrap interval of the mean.

    Samples are drawn again as often as there are samples, with replacement. Only how often each
    value is drawn matters, so these counts are drawn: it is the same distribution, and quicker.

    Args:
        points: One number a sample, in any unit and any order.
        level: Share of the resampled means that lie within, above 0 and below 1.
        resamples: How many means are drawn.
        seed: The same points, in whatever order, with the same seed give the same interval.

    Returns:
        None for fewer than two points: they say nothing about how sure their mean is.

    Raises:
        ValueError: A point is not finite, or `level` or `resamples` is out of range.

    >>> bootstrap_interval([2, 2, 2]), bootstrap_interval([2])
    (Interval(low=2.0, high=2.0), None)
    """
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(f"no interval at level {level} from {resamples} resamples")
    if not all(math.isfinite(each) for each in points):
        raise ValueError("points must be finite numbers")
    if len(points) < 2:
        return None
    means = bootstrap_means(points, resamples, seed)
    tail = (1 - level) / 2
    low, high = np.clip(np.quantile(means, (tail, 1 - tail)), min(points), max(points))
    return Interval(float(low), float(high))


def bootstrap_means(points: Sequence[float], resamples: int, seed: int = 0) -> _Floats:
    """Means of samples drawn again, with replacement, as often as there are samples.

    Args:
        points: At least one, in any order; finite.
        resamples: How many means are drawn.
        seed: The same points with the same seed give the same means.

    Returns:
        Shape ``(resamples,)``, in the unit of the points.
    """
    values, counts = np.unique(np.asarray(points, dtype=np.float64), return_counts=True)
    drawn = _by_count if len(values) <= _MANY else _by_index
    return np.concatenate(list(drawn(values, counts, resamples, np.random.default_rng(seed))))


def _by_count(
    values: _Floats, counts: npt.NDArray[np.intp], resamples: int, random: np.random.Generator
) -> Iterator[_Floats]:
    """Means, a chunk at a time; how often each value is drawn is multinomial."""
    total = int(counts.sum())
    for size in _chunks(resamples, len(values)):
        yield random.multinomial(total, counts / total, size=size) @ values / total


def _by_index(
    values: _Floats, counts: npt.NDArray[np.intp], resamples: int, random: np.random.Generator
) -> Iterator[_Floats]:
    """Means, a chunk at a time; every sample of a resample is drawn."""
    samples = np.repeat(values, counts)
    for size in _chunks(resamples, len(samples)):
        yield samples[random.integers(len(samples), size=(size, len(samples)))].mean(axis=1)


def _chunks(resamples: int, width: int) -> Iterator[int]:
    """Sizes that add up to `resamples`, each of at most `_CHUNK` numbers, or one resample."""
    most = max(1, _CHUNK // width)
    for begin in range(0, resamples, most):
        yield min(most, resamples - begin)
