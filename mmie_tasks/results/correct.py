"""A judge's mean, corrected by a reference's scores of some of the answers.

The reference is people, or another judge. A stratum has N answers with the judge's points f; n of
them, drawn at random, have the reference's points y as well. The reference's mean over the stratum
is estimated by prediction-powered inference (A. N. Angelopoulos, J. C. Duchi, T. Zrnic, "PPI++:
Efficient Prediction-Powered Inference", arXiv 2311.01453)::

    lam * mean(f of the N - n other answers) + mean(y - lam * f)

with the variance ``var(y - lam * f)/n + lam**2 * var(f)/(N - n)``, and the strata are added up with
their weights. ``lam`` is the weight of the judge, 0 to 1; 0 is the reference alone. The interval is
for a larger population from which the run's questions are drawn, like every interval of this
package; value and ``lam`` are those of ``ppi-python``.

Decided by simulation (``tests/results/test_correct.py``):

* **One slope for all strata**, the one that minimises the variance of the total. With a slope per
  stratum, intervals from few answers hold the reference's mean less often.
* **One unseen error** of half the scale is added to ``var(y - lam * f)``, shared by the answers of
  all strata: judges often make errors that are rare and large, and few answers show none of them.
  If all residuals are equal, it is an error of the whole scale. If the reference gives every answer
  the same points, the interval is as wide as the exact limit (Clopper and Pearson) of the share of
  answers that deserve the other end of the scale.
* **Student's t** with the degrees of freedom of Welch and Satterthwaite, less one for the slope,
  and both ends moved by the skewness of ``y - lam * f`` (Johnson 1978, see
  `mmie_tasks.record.intervals`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from mmie_tasks.record.intervals import (
    LEVEL,
    MIN_SAMPLES,
    Floats,
    Interval,
    skew_shift,
    third_central_moment,
)
from mmie_tasks.results.measures import Measurement

_MIN_IN_STRATUM = 2  # with fewer scored answers in a stratum there is no interval
_TAIL = (1 - LEVEL) / 2
_ROUNDING = 1e-12
"""A variance below this share of squared full marks, or a weight below it, is rounding error."""
_NO_MEAN = "a group of the headline has no answer with points of both"
_NO_INTERVAL = (
    f"an interval needs {MIN_SAMPLES} answers with points of both, {_MIN_IN_STRATUM} in each group"
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stratum:
    """The points of one stratum, on the benchmark's own scale.

    Attributes:
        weight: Weight in the mean, above 0; the weights of all strata add up to 1.
        reference: The reference's points of the answers that it scored; shape ``(n,)``.
        judge: The judge's points of the same answers, in the same order; shape ``(n,)``.
        others: The judge's points of the answers that the reference has not scored; shape
            ``(N - n,)``.
    """

    weight: float
    reference: Floats
    judge: Floats
    others: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedMean:
    """The reference's mean, in points. Its intervals are never clipped to the scale.

    Attributes:
        alone: From the answers that it scored.
        corrected: From these answers and the judge (PPI++).
        worth: About how many answers the reference alone would have to score for an interval as
            narrow; None without an interval.
    """

    alone: Measurement
    corrected: Measurement
    worth: float | None


def corrected_mean(strata: Sequence[Stratum], full_marks: float) -> CorrectedMean:
    """Correct a judge's mean by a reference's scores of a random sample.

    The answers that the reference scored must be a simple random sample of each stratum. For the
    difference of two models, pass the differences of the points.

    >>> judge = np.arange(40.0) % 8
    >>> reference = judge[:24] / 2 + 1
    >>> stratum = Stratum(weight=1, reference=reference, judge=judge[:24], others=judge[24:])
    >>> mean = corrected_mean([stratum], full_marks=8)
    >>> round(mean.alone.value, 2), round(mean.corrected.value, 2)
    (2.75, 2.75)
    """
    lam = _judge_weights(strata)
    alone = _estimate(strata, 0 * lam, full_marks)
    corrected = _estimate(strata, lam, full_marks)
    worth = None
    if corrected.interval:
        count = sum(len(stratum.reference) for stratum in strata)
        variances = [_variance(strata, factors, full_marks)[0] for factors in (0 * lam, lam)]
        worth = count * variances[0] / variances[1]
    return CorrectedMean(alone=alone, corrected=corrected, worth=worth)


def _judge_weights(strata: Sequence[Stratum]) -> Floats:
    """The weight of the judge (lam) in each stratum, from the slope that all strata share."""
    covariance = variance = 0.0
    degrees = 0
    for stratum in strata:
        n, others = len(stratum.reference), len(stratum.others)
        if n < _MIN_IN_STRATUM or not others:
            continue
        importance = stratum.weight**2 * (1 / n - 1 / (n + others))
        everyone = np.concatenate([stratum.judge, stratum.others])
        covariance += importance * float(np.cov(stratum.reference, stratum.judge, ddof=0)[0, 1])
        variance += importance * float(everyone.var(ddof=1))
        degrees += n - 1
    slope = covariance / variance if variance and degrees > 1 else 0.0  # two points fit any line
    shares = [len(s.others) / max(len(s.others) + len(s.reference), 1) for s in strata]
    weights: Floats = np.clip(slope * np.array(shares), 0, 1)
    return np.where(weights > _ROUNDING, weights, 0)


def _residuals(strata: Sequence[Stratum], lam: Floats) -> list[Floats]:
    return [s.reference - factor * s.judge for s, factor in zip(strata, lam, strict=True)]


def _estimate(strata: Sequence[Stratum], lam: Floats, full_marks: float) -> Measurement:
    """The mean with these weights of the judge, and its interval."""
    residuals = _residuals(strata, lam)
    counts = list(map(len, residuals))
    if not all(counts):
        return Measurement(why_not=_NO_MEAN)
    value = sum(
        s.weight * float(residual.mean() + (factor * s.others.mean() if len(s.others) else 0))
        for s, factor, residual in zip(strata, lam, residuals, strict=True)
    )
    if sum(counts) < MIN_SAMPLES or min(counts) < _MIN_IN_STRATUM:
        return Measurement(value=value, why_not=_NO_INTERVAL)
    variance, degrees = _variance(strata, lam, full_marks)
    third_moment = sum(
        s.weight**3 * third_central_moment(residual) / len(residual) ** 2
        for s, residual in zip(strata, residuals, strict=True)
    )
    half = float(stdtrit(degrees, 1 - _TAIL)) * math.sqrt(variance)
    middle = value + skew_shift(third_moment, variance)
    return Measurement(value=value, interval=Interval(middle - half, middle + half))


def _variance(strata: Sequence[Stratum], lam: Floats, full_marks: float) -> tuple[float, float]:
    """The variance of the mean, and its degrees of freedom."""
    residuals = _residuals(strata, lam)
    count = sum(map(len, residuals))
    unseen = _unseen_error(strata, residuals, count, full_marks)
    parts, degrees = [], []
    for stratum, factor, residual in zip(strata, lam, residuals, strict=True):
        of_residuals = ((count - 1) * float(residual.var(ddof=1)) + unseen**2) / count
        others = stratum.others
        of_judge = float(others.var(ddof=1)) / len(others) if len(others) > 1 else 0.0
        parts.append(stratum.weight**2 * (of_residuals / len(residual) + factor**2 * of_judge))
        degrees.append(len(residual) - 1)
    variance = sum(parts)
    lost = sum(degrees) / (sum(degrees) - 1) if lam.any() else 1.0  # the slope took a degree
    squares = sum(part**2 / n for part, n in zip(parts, degrees, strict=True))
    return variance * lost, variance**2 / squares / lost


def _unseen_error(
    strata: Sequence[Stratum], residuals: Sequence[Floats], count: int, full_marks: float
) -> float:
    """The size of the error that one of the scored answers may have had, in points."""
    rounding = _ROUNDING * full_marks**2
    if max(residual.var() for residual in residuals) > rounding:
        return full_marks / 2
    if max(stratum.reference.var() for stratum in strata) > rounding:
        return full_marks
    limit = 1 - _TAIL ** (1 / count)
    return float(full_marks * limit * count / stdtrit(count - 1, 1 - _TAIL))
