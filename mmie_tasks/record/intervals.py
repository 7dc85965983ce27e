"""Intervals of means: one rule for every score, and what else is drawn or divided among strata.

A score is for a larger population, of which the samples are a random draw: the benchmark, or for a
whole run samples like these. Its interval is Student's t on the stratified standard error, with
Satterthwaite's degrees of freedom. Points are often nearly all equal, and a small draw then lacks
the rare bad answer, so the variance of one unseen error is added: of half the scale, or of the
whole scale where all points are equal. The page of `mmie_tasks.results` has the measured coverage.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

Floats: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.intp]
Integers: TypeAlias = npt.NDArray[np.int64]

LEVEL = 0.95
"""Of an interval: the share of draws whose interval holds the value of the population."""

MIN_SAMPLES = 10
"""With fewer samples a mean has no interval."""

_EQUAL = 1e-9  # of full marks: points this close are equal
_MANY_ROWS = 1000  # distinct rows; above, drawing indices is quicker than drawing counts
_CHUNK = 4_000_000  # numbers in memory at once


class Interval(NamedTuple):
    """Both ends of an interval, in the unit of the points."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StratifiedMean:
    """A weighted mean of the means of strata, as an estimate for a larger population.

    Attributes:
        value: In the unit of the points.
        standard_error: In the same unit, above 0.
        degrees: Of freedom, for Student's t.
    """

    value: float
    standard_error: float
    degrees: float

    def interval(self, lowest: float, highest: float, level: float = LEVEL) -> Interval:
        """Student's t interval, within the least and the greatest possible value."""
        half = float(stdtrit(self.degrees, (1 + level) / 2)) * self.standard_error
        return Interval(max(lowest, self.value - half), min(highest, self.value + half))

    @property
    def p_value(self) -> float:
        """Two-sided p of the hypothesis that the population's mean is 0.

        It is below `1 - level` exactly where the interval of this level excludes 0.
        """
        return float(2 * stdtr(self.degrees, -abs(self.value) / self.standard_error))


def stratified_mean(
    strata: Sequence[Sequence[float] | Floats], weights: Sequence[float], full_marks: float
) -> StratifiedMean | None:
    """The weighted mean of the means of strata, with its standard error.

    Args:
        strata: The points of each, or the differences of two runs, in any order.
        weights: One for each stratum; they add up to 1.
        full_marks: Of the scale, in points.

    Returns:
        None for fewer than `MIN_SAMPLES` points in all, or than two in a stratum.

    >>> low, high = stratified_mean([[5] * 20], [1], full_marks=6).interval(0, 6)
    >>> round(low, 3), round(high, 3)
    (4.372, 5.628)
    """
    samples = sum(map(len, strata))
    if samples < MIN_SAMPLES or any(len(points) < 2 for points in strata):
        return None
    value, variances, degrees = 0.0, [], []
    for weight, points in zip(weights, strata, strict=True):
        ordered = np.sort(np.asarray(points, dtype=np.float64))  # the same sums in any order
        value += weight * float(ordered.mean())
        variances.append(weight**2 * float(ordered.var(ddof=1)) / len(ordered))
        degrees.append(len(ordered) - 1)
    are_equal = sum(variances) <= (_EQUAL * full_marks) ** 2
    variances.append(((full_marks if are_equal else full_marks / 2) / samples) ** 2)
    degrees.append(samples - 1)
    variance = sum(variances)
    return StratifiedMean(
        value=value,
        standard_error=math.sqrt(variance),
        degrees=variance**2 / sum(v**2 / d for v, d in zip(variances, degrees, strict=True)),
    )


def bootstrap_interval(
    points: Sequence[float], level: float = LEVEL, resamples: int = 10_000, seed: int = 0
) -> Interval | None:
    """The percentile bootstrap interval of the mean.

    Args:
        points: One number per sample, in any unit and any order.
        level: Share of the resampled means inside the interval, above 0 and below 1.
        resamples: How many means are drawn.
        seed: The same points, in any order, with the same seed give the same interval.

    Returns:
        None for fewer than two points: they say nothing about the spread of their mean.

    Raises:
        ValueError: A point is not finite, or `level` or `resamples` is out of range.

    >>> bootstrap_interval([2, 2, 2]), bootstrap_interval([2])
    (Interval(low=2.0, high=2.0), None)
    """
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(f"no interval at level {level} from {resamples} resamples")
    if not all(map(math.isfinite, points)):
        raise ValueError("points must be finite numbers")
    if len(points) < 2:
        return None
    interval = percentile_interval(bootstrap_means(points, resamples, seed), level)
    low, high = np.clip(interval, min(points), max(points))
    return Interval(float(low), float(high))


def with_unseen_error(variance: float, count: int, full_marks: float) -> float:
    """A variance of errors that allows for one error of half the scale that the draw lacks.

    Few draws miss errors that are rare and large, and then show too small a variance.

    Args:
        variance: Sample variance of the errors, in squared points.
        count: How many errors it is of, at least 1.
        full_marks: Of the scale, in points.

    >>> with_unseen_error(0.0, 9, 6)
    1.0
    """
    return ((count - 1) * variance + (full_marks / 2) ** 2) / count


def percentile_interval(values: Floats, level: float = LEVEL) -> Interval:
    """The interval that leaves out the same share of resampled values at both ends.

    Args:
        values: A statistic of each resample, shape ``(resamples,)``; finite, at least one.
        level: Share of the values inside the interval, above 0 and below 1.
    """
    tail = (1 - level) / 2
    low, high = np.quantile(values, (tail, 1 - tail))
    return Interval(float(low), float(high))


def bootstrap_means(points: Sequence[float], resamples: int, seed: int = 0) -> Floats:
    """Means of resamples, each of as many samples as there are points.

    Args:
        points: At least one, in any order; finite.
        resamples: How many means are drawn.
        seed: The same points with the same seed give the same means.

    Returns:
        Shape ``(resamples,)``, in the unit of the points.
    """
    values, counts = np.unique(np.asarray(points, dtype=np.float64), return_counts=True)
    chunks = resample_counts(counts, resamples, seed)
    return np.concatenate([weights @ values / len(points) for weights in chunks])


def resample_counts(counts: Indices, resamples: int, seed: int = 0) -> Iterator[Floats]:
    """How often each distinct row occurs in resamples drawn with replacement.

    Args:
        counts: How often each distinct row occurs in the samples; shape ``(rows,)``. With the rows
            sorted, results do not depend on the order of the samples.
        resamples: How many resamples are drawn, each as large as the samples.
        seed: The same counts with the same seed give the same draws.

    Yields:
        Shape ``(resamples in this chunk, rows)``; each line adds up to the number of samples.
    """
    random = np.random.default_rng(seed)
    total, rows = int(counts.sum()), len(counts)
    if rows <= _MANY_ROWS:
        for size in chunk_sizes(resamples, rows):
            yield random.multinomial(total, counts / total, size=size).astype(np.float64)
        return
    row_of_sample = np.repeat(np.arange(rows), counts)
    for size in chunk_sizes(resamples, total):
        drawn = row_of_sample[random.integers(total, size=(size, total))]
        drawn += rows * np.arange(size)[:, None]
        yield (
            np.bincount(drawn.ravel(), minlength=size * rows).reshape(size, rows).astype(np.float64)
        )


def chunk_sizes(draws: int, width: int) -> Iterator[int]:
    """Split draws so that memory stays bounded.

    Args:
        draws: How many there are in all.
        width: Numbers per draw.

    Yields:
        Sizes that add up to `draws`; each is one draw, or as many as four million numbers hold.
    """
    size = max(1, _CHUNK // width)
    for begin in range(0, draws, size):
        yield min(size, draws - begin)


def allocation(stratum_sizes: Sequence[int], subset_size: int) -> list[int]:
    """How many samples a proportional subset takes of each stratum, by largest remainder.

    >>> allocation([5005, 11482, 3616], 1000)
    [249, 571, 180]
    """
    total = sum(stratum_sizes) or 1
    shares = [divmod(subset_size * size, total) for size in stratum_sizes]
    taken = [quotient for quotient, _ in shares]
    by_remainder = sorted(range(len(shares)), key=lambda stratum: -shares[stratum][1])
    for stratum in by_remainder[: subset_size - sum(taken)]:
        taken[stratum] += 1
    return taken
