"""Confidence intervals of means, and the allocation of subsets to strata.

The samples count as a random draw from a larger population: the benchmark, or for a whole run,
samples like these. The interval is Student's t on the stratified standard error, with
Satterthwaite's degrees of freedom and both ends moved by the skewness of the points (N. J. Johnson,
"Modified t Tests and Confidence Intervals for Asymmetrical Populations", JASA 73, 1978).

Points are often nearly all equal, and a small draw then lacks the rare bad answer. So the variance
of one unseen error is added: half the scale, or the whole scale if all points are equal. If all
points are 0 or all are full marks, the interval is as wide as the exact limit (Clopper and Pearson,
Biometrika 26, 1934) of the share of answers at the other end. The docs page of `mmie_tasks.results`
has the measured coverage.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri, stdtr, stdtrit

Floats: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.intp]

LEVEL = 0.95
"""The share of draws whose interval contains the population's mean."""

MIN_SAMPLES = 10
"""The fewest samples for an interval."""

_TAIL = (1 - LEVEL) / 2
_SKEWED = (1 + 2 * float(ndtri(_TAIL)) ** 2) / 6
_EQUAL = 1e-9  # points closer than this fraction of full marks are equal


class Interval(NamedTuple):
    """Both ends, in the unit of the points."""

    low: float
    high: float

    def times(self, factor: float) -> Interval:
        """The interval in another unit; `factor` is above 0."""
        return Interval(self.low * factor, self.high * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class StratifiedMean:
    """A weighted mean of stratum means, as an estimate for a larger population.

    Attributes:
        value: The mean, in points.
        standard_error: The standard error in points, above 0.
        degrees: Degrees of freedom for Student's t.
        shift: How far skewness moves both ends, in points; see `skew_shift`.
    """

    value: float
    standard_error: float
    degrees: float
    shift: float = 0.0

    def interval(self, lowest: float, highest: float, level: float = LEVEL) -> Interval:
        """The interval, cut at the lowest and highest possible value."""
        half = float(stdtrit(self.degrees, (1 + level) / 2)) * self.standard_error
        middle = self.value + self.shift
        return Interval(max(lowest, middle - half), min(highest, middle + half))

    @property
    def p_value(self) -> float:
        """Two-sided p of the hypothesis that the population's mean is 0.

        It is below `1 - level` exactly if the interval at this level excludes 0.
        """
        middle = self.value + self.shift
        return float(2 * stdtr(self.degrees, -abs(middle) / self.standard_error))


def skew_shift(third_moment: float, variance: float) -> float:
    """How far skewness moves an interval at `LEVEL` (Johnson 1978), in points.

    It takes the third moment (points cubed) and variance (points squared) of the estimate. The
    shift is below 1.5 standard errors, so an interval at this or a higher level contains the
    estimate.
    """
    return _SKEWED * third_moment / variance


def third_central_moment(points: Floats) -> float:
    """The mean of the cubed distances from the mean."""
    return float(((points - points.mean()) ** 3).mean())


def stratified_mean(
    strata: Sequence[Sequence[float] | Floats], weights: Sequence[float], full_marks: float
) -> StratifiedMean | None:
    """The weighted mean of stratum means, with its standard error.

    Returns None for fewer than `MIN_SAMPLES` points in all, or fewer than two in a stratum.

    Args:
        strata: The points of each stratum, or the differences of two runs, in any order.
        weights: The weight of each stratum; weights add up to 1.
        full_marks: The top of the scale, in points.

    >>> low, high = stratified_mean([[5] * 20], [1], full_marks=6).interval(0, 6)
    >>> round(low, 3), round(high, 3)
    (4.372, 5.628)
    """
    samples = sum(map(len, strata))
    if samples < MIN_SAMPLES or any(len(points) < 2 for points in strata):
        return None
    value, third_moment, variances, degrees = 0.0, 0.0, [], []
    for weight, points in zip(weights, strata, strict=True):
        ordered = np.sort(np.asarray(points, dtype=np.float64))  # the same sums in any order
        value += weight * float(ordered.mean())
        variances.append(weight**2 * float(ordered.var(ddof=1)) / len(ordered))
        third_moment += weight**3 * third_central_moment(ordered) / len(ordered) ** 2
        degrees.append(len(ordered) - 1)
    unseen = full_marks / 2 / samples
    if sum(variances) <= (_EQUAL * full_marks) ** 2:
        unseen = full_marks / samples
        if min(abs(value), abs(full_marks - value)) <= _EQUAL * full_marks:
            limit = 1 - _TAIL ** (1 / samples)
            unseen = full_marks * limit / float(stdtrit(samples - 1, 1 - _TAIL))
    variances.append(unseen**2)
    degrees.append(samples - 1)
    variance = sum(variances)
    return StratifiedMean(
        value=value,
        standard_error=math.sqrt(variance),
        degrees=variance**2 / sum(v**2 / d for v, d in zip(variances, degrees, strict=True)),
        shift=skew_shift(third_moment, variance),
    )


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values after Holm's step-down correction, which bounds the chance of any false positive.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    stepped = np.minimum(np.maximum.accumulate(np.asarray(p_values)[order] * factors), 1)
    return list(map(float, stepped[np.argsort(order)]))


def allocation(stratum_sizes: Sequence[int], subset_size: int) -> list[int]:
    """The number of samples that a proportional subset has in each stratum, by largest remainder.

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
