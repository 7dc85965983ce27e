"""Measures of agreement between raters: the paper's four, three more, and Krippendorff's alpha.

An interval is for a larger population of samples. Its standard error is the jackknife's: each
sample is left out in turn. As in `mmie_tasks.record.intervals`, the effect of one error that few
samples may not show is added: of half the scale, or of the whole scale where no sample matters.
Correlations have their interval in Fisher's z and distances in logarithms, since both are skewed
near the end of their scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import stdtrit
from scipy.stats import rankdata

from mmie_tasks.core.tables import percent_cell
from mmie_tasks.record.intervals import LEVEL, MIN_SAMPLES, Floats, Indices, Interval
from mmie_tasks.record.metrics import Scale

_MAX_PARTS = 50  # parts left out in turn; enough for the 49 pairs of points from 0 to 6
_ALPHA_CELLS = 20_000_000  # samples times squared distinct points that the library holds
_ROUNDING = 1e-18  # share of squared full marks; a lower variance is rounding error
_CONSTANT = "one of the two gives every sample the same points"

Form: TypeAlias = Literal["correlation", "distance", "difference"]
"""The range of a measure: from -1 to 1, from 0 on, or with either sign."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A measure with its 95 % interval; `why_not` says why either is missing."""

    value: float | None = None
    interval: Interval | None = None
    why_not: str = ""

    def cell(self, decimals: int) -> str:
        """The value and both ends of its interval, for a table."""
        return percent_cell(self.value, self.interval, decimals)


class Measure(NamedTuple):
    """A measure of two raters; `undefined` says what NaN means."""

    title: str
    function: Callable[[Floats, Floats], float]
    form: Form
    undefined: str = ""


def _cosine(x: Floats, y: Floats) -> float:
    norms = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / norms if norms else math.nan


def _mse(x: Floats, y: Floats) -> float:
    return float(np.mean((x - y) ** 2))


def _pearson(x: Floats, y: Floats) -> float:
    return float(np.corrcoef(x, y)[0, 1]) if np.ptp(x) and np.ptp(y) else math.nan


def _kappa(x: Floats, y: Floats) -> float:
    """Cohen's kappa with quadratic weights, in moments, so that no mean of people is rounded.

    It is 1 - mean of (x - y)² / mean of (x - y)² over all pairs of any x with any y.
    """
    if np.ptp(np.concatenate((x, y))) == 0:  # the variances may be rounding errors
        return math.nan
    chance = float(np.var(x) + np.var(y) + (np.mean(x) - np.mean(y)) ** 2)
    return 1 - _mse(x, y) / chance


MEASURES = {
    "cosine": Measure("cosine", _cosine, "correlation", "one of the two gives only 0 points"),
    "mse": Measure("MSE", _mse, "distance"),
    "mae": Measure("MAE", lambda x, y: float(np.mean(np.abs(x - y))), "distance"),
    "pearson": Measure("Pearson", _pearson, "correlation", _CONSTANT),
    "spearman": Measure(
        "Spearman", lambda x, y: _pearson(rankdata(x), rankdata(y)), "correlation", _CONSTANT
    ),
    "kappa": Measure(
        "quadratic kappa", _kappa, "correlation", "both give every sample the same one value"
    ),
    "bias": Measure("bias", lambda x, y: float(np.mean(x - y)), "difference"),
}
"""Every measure of a judge and its reference, by name; the first four are those of the table in
which the paper of MMIE compares judges with people. The paper does not define its cosine; this is
that of the two vectors of points, not centred, and high for any points above 0. MAE and bias are in
points; bias is judge minus reference, above 0 for a lenient judge."""


def measure(points: Floats, name: str, scale: Scale) -> Measurement:
    """A measure in `MEASURES`; `points` have the shape ``(samples, 2)``, the judge's first."""
    if not len(points):
        return Measurement(why_not="no sample has points of both")
    if name == "kappa" and not scale.whole:
        return Measurement(why_not="points on this scale are not whole numbers")
    of_two = MEASURES[name]

    def statistic(rows: Floats) -> float:
        return of_two.function(*rows.T)

    return _with_interval(statistic, points, scale.full_marks, of_two.form, of_two.undefined)


def alpha(points: Floats, scale: Scale) -> Measurement:
    """Krippendorff's alpha for interval data; 1 is the best, 0 is chance.

    `points` have the shape ``(samples, raters)``, with NaN where a rater has none.
    """
    import krippendorff

    rated = points[np.isfinite(points).sum(axis=1) >= 2]
    distinct = np.unique(rated[np.isfinite(rated)])
    if not len(rated):
        return Measurement(why_not="no sample has points of two raters")
    if len(rated) * len(distinct) ** 2 > _ALPHA_CELLS:
        return Measurement(why_not="there are too many different points")

    def statistic(rows: Floats) -> float:
        if np.nanmin(rows) == np.nanmax(rows):
            return math.nan
        return float(krippendorff.alpha(reliability_data=rows.T, level_of_measurement="interval"))

    undefined = "all points are the same"
    return _with_interval(statistic, rated, scale.full_marks, "correlation", undefined)


def _with_interval(
    statistic: Callable[[Floats], float],
    points: Floats,
    full_marks: float,
    form: Form,
    undefined: str = "",
) -> Measurement:
    """A statistic with its interval, independent of the order of the samples.

    Args:
        statistic: A function of points with more or fewer samples; NaN where it is not defined.
        points: Shape ``(samples, raters)``.
        full_marks: The upper end of the scale, in points.
        form: The range of the statistic.
        undefined: The reason for NaN.
    """
    points = points[np.lexsort(points.T)]
    value = statistic(points)
    if math.isnan(value):
        return Measurement(why_not=undefined)
    if len(points) < MIN_SAMPLES:
        return Measurement(value=value, why_not=f"there are fewer than {MIN_SAMPLES} samples")
    times, parts = _parts(points)
    without = np.array([statistic(np.delete(points, part, axis=0)) for part in parts])
    if not np.isfinite(without).all():
        return Measurement(value=value, why_not="it depends on a few samples")
    number = float(times.sum())
    variance = (number - 1) / number * float(times @ (without - times @ without / number) ** 2)
    lower = full_marks / 2 if variance > _ROUNDING * full_marks**2 else 0
    others = points.shape[1] - 1
    unseen = [full_marks, *[lower] * others], [lower, *[full_marks] * others]
    effects = [statistic(np.vstack((points, row))) - value for row in unseen]
    error = math.sqrt(variance + max(effect**2 for effect in effects))
    return Measurement(value=value, interval=_ends(value, error, number - 1, form))


def _parts(points: Floats) -> tuple[Floats, list[Indices]]:
    """How often each part counts, and the samples in it: equal ones together, or random parts."""
    comparable = np.nan_to_num(points, nan=-1.0)  # NaN is not equal to NaN
    _, first, counts = np.unique(comparable, axis=0, return_index=True, return_counts=True)
    if len(first) <= _MAX_PARTS:
        return counts.astype(np.float64), [np.array([index]) for index in first]
    shuffled = np.random.default_rng(0).permutation(len(points))
    return np.ones(_MAX_PARTS), np.array_split(shuffled, _MAX_PARTS)


def _ends(value: float, error: float, degrees: float, form: Form) -> Interval:
    """The ends by Student's t; a value at the end of its scale is first moved by `error`."""
    half = float(stdtrit(degrees, (1 + LEVEL) / 2)) * error
    if form == "difference":
        return Interval(value - half, value + half)
    if form == "distance":
        centre = max(value, error)
        low, high = (centre * math.exp(sign * half / centre) for sign in (-1, 1))
    else:
        centre = math.copysign(max(0.0, min(abs(value), 1 - error)), value)
        reach = half / (1 - centre**2)
        low, high = (math.tanh(math.atanh(centre) + sign * reach) for sign in (-1, 1))
    return Interval(min(low, value), max(high, value))
