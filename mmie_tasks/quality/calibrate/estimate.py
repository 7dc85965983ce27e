"""A judge's mean, corrected with people's scores of a random sample (prediction-powered inference).

Source: A. N. Angelopoulos, J. C. Duchi, T. Zrnic, "PPI++: Efficient Prediction-Powered Inference",
arXiv 2311.01453. A stratum has N samples with the judge's points f; n of them were drawn at random
and have people's points y as well. People's mean over the stratum is estimated by::

    lam * mean(f) + mean(y - lam * f)

and the strata are added up with their weights. ``lam`` is the weight of the judge: 0 is people
alone. Where the run is the population, ``mean(f)`` is over all N samples and the variance is
``var(y - lam * f) * (1/n - 1/N)``. Where the run is a sample of a larger population, ``mean(f)`` is
over the M = N - n samples without a label and the variance is
``var(y - lam * f)/n + lam**2 * var(f)/M``; value and ``lam`` are then those of ``ppi-python``.

Decided by simulation (``tests/bench/calibrate_coverage.py``):

* **One slope for all strata**, the one that minimises the variance of the total. With a slope per
  stratum, intervals from few labels hold people's mean less often, and with 100 labels they are no
  narrower unless the judge is far better in one stratum than in another.
* **One unseen error** of half the scale is added to ``var(y - lam * f)``, shared by the labels of
  all strata: judges often make errors that are rare and large, and few labels show none of them.
  If all residuals are equal, it is an error of the whole scale. If people give every label the
  same points, the interval is as wide as the exact limit (Clopper and Pearson) of the share of
  answers that deserve the other end of the scale, ``1 - 0.025**(1/n)``.
* **Student's t** with the degrees of freedom of Welch and Satterthwaite, less one for the slope,
  and both ends moved by the skewness of ``y - lam * f`` (N. J. Johnson, "Modified t Tests and
  Confidence Intervals for Asymmetrical Populations", JASA 73, 1978): where nearly all labels are
  alike, the mean is more often missed on the side of the rare ones.
* **At least** `MIN_LABELS` **labels**, and two in each stratum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import stdtrit

from mmie_tasks.record.intervals import (
    LEVEL,
    Floats,
    Integers,
    Interval,
    skew_shift,
    third_central_moment,
)

Population: TypeAlias = Literal["run", "larger"]
"""What the interval is for: the run's samples, or a larger population they were drawn from."""

MIN_LABELS = 10
"""With fewer labels in all there is no interval."""

_MIN_STRATUM_LABELS = 2  # with fewer in a stratum there is no interval: one label shows no spread
_WORTHWHILE_GAIN = 0.05  # a judge that adds a smaller share to the labels' worth saves no labels
_TAIL = (1 - LEVEL) / 2
_ROUNDING = 1e-12  # a variance below this share of squared full marks is rounding error


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StratumScores:
    """The points of one stratum.

    Attributes:
        name: For messages.
        weight: Weight in the mean, above 0; the weights of all strata add up to 1.
        judge: The judge's points of all samples; shape ``(N,)``, at least one, finite.
        labelled: Indices into `judge` of the samples with people's points; shape ``(n,)``,
            distinct.
        people: People's mean points of these samples, in the same order; shape ``(n,)``, finite.
    """

    name: str
    weight: float
    judge: Floats
    labelled: Integers
    people: Floats

    @property
    def judge_on_labels(self) -> Floats:
        """The judge's points of the labelled samples; shape ``(n,)``."""
        return self.judge[self.labelled]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """An estimate, NaN if there is none, with its 95 % interval or why it has none.

    The interval is never clipped: an end beyond the scale shows that labels are too few.
    """

    value: float
    interval: Interval | None
    why_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedMean:
    """A judge's mean, people's mean, and the judge's mean corrected with people's scores.

    Attributes:
        samples, labels: How many have the judge's points, and how many of these have people's.
        judge: The judge's weighted mean over all samples.
        people: People's mean, from the labels alone.
        corrected: People's mean, from the labels and the judge (PPI++).
        bias: The judge's mean less the corrected mean.
        weights_of_judge: The weight of the judge (lam) in each stratum, 0 to 1, in the order of the
            strata.
        labels_worth: How many labels without the judge would give an interval as narrow, about;
            None without an interval.
        saves_labels: Whether `labels_worth` is at least 5 % above `labels`.
        labels_to_halve: How many more labels, in the same proportions, would halve the corrected
            interval; None if that is impossible, or without an interval that has a width.
    """

    samples: int
    labels: int
    judge: float
    people: Estimate
    corrected: Estimate
    bias: Estimate
    weights_of_judge: tuple[float, ...]
    labels_worth: float | None
    saves_labels: bool
    labels_to_halve: int | None


def corrected_mean(
    strata: Sequence[StratumScores], population: Population = "run", full_marks: float = 100
) -> CorrectedMean:
    """Correct a judge's mean with people's scores of a random sample.

    The labelled samples of each stratum must be a simple random sample of it. For the difference of
    two models, pass the differences of the judge's and of people's points.

    >>> judge = np.arange(40.0) % 8
    >>> labelled = np.arange(24)
    >>> people = judge[:24] / 2 + 1
    >>> stratum = StratumScores(name="", weight=1, judge=judge, labelled=labelled, people=people)
    >>> mean = corrected_mean([stratum], full_marks=8)
    >>> mean.judge, mean.corrected.value, mean.bias.value, mean.weights_of_judge
    (3.5, 2.75, 0.75, (0.5,))
    """
    sums = _Sums(strata, larger=population == "larger", full_marks=full_marks)
    lam, alone = sums.judge_weights(), np.zeros(len(strata))
    judge = float(sums.weights @ [stratum.judge.mean() for stratum in strata])
    people = sums.estimate(sums.mean(alone), alone, alone)
    corrected = sums.estimate(sums.mean(lam), lam, lam)
    # The mean over the run is that of the labelled samples and that of the others, by their shares.
    share = sums.labels / sums.samples if sums.larger else alone
    bias = sums.estimate(judge - corrected.value, lam + share, 1 - share - lam, sign=-1)
    worth = sums.labels_worth(lam) if corrected.interval else None
    labels = round(sums.labels.sum())
    return CorrectedMean(
        samples=round(sums.samples.sum()),
        labels=labels,
        judge=judge,
        people=people,
        corrected=corrected,
        bias=bias,
        weights_of_judge=tuple(lam.tolist()),
        labels_worth=worth,
        saves_labels=worth is not None and worth >= (1 + _WORTHWHILE_GAIN) * labels,
        labels_to_halve=sums.labels_to_halve(lam) if corrected.interval else None,
    )


class _Sums:
    """Means and variances of strata, weighted and added up; arrays have shape ``(strata,)``."""

    def __init__(self, strata: Sequence[StratumScores], *, larger: bool, full_marks: float) -> None:
        self.strata = strata
        self.larger = larger
        self.full_marks = full_marks
        self.weights = np.array([stratum.weight for stratum in strata])
        self.samples = np.array([float(stratum.judge.size) for stratum in strata])
        self.labels = np.array([float(stratum.people.size) for stratum in strata])
        # Strata whose mean is unknown: all, or those with unlabelled samples.
        self.incomplete = larger | (self.labels < self.samples)
        # The samples that the judge's mean is taken over.
        self.targets = [
            np.delete(stratum.judge, stratum.labelled) if larger else stratum.judge
            for stratum in strata
        ]

    def judge_weights(self) -> Floats:
        """The weight of the judge (lam) in each stratum, from the slope that all strata share."""
        importance = self.weights**2 * (1 / np.maximum(self.labels, 1) - 1 / self.samples)
        covariances, variances = np.zeros((2, len(self.strata)))
        for index, stratum in enumerate(self.strata):
            if stratum.people.size >= _MIN_STRATUM_LABELS:
                moments = np.cov(stratum.people, stratum.judge_on_labels, ddof=not self.larger)
                covariances[index] = moments[0, 1]
                variances[index] = _variance(stratum.judge) if self.larger else moments[1, 1]
        denominator = float(importance @ variances)
        # A line through two labels fits them exactly, which says nothing.
        if denominator <= 0 or (self.labels - 1)[importance > 0].sum() <= 1:
            return np.zeros(len(self.strata))
        unlabelled = 1 - self.labels / self.samples if self.larger else np.ones(len(self.strata))
        return np.clip(float(importance @ covariances) / denominator * unlabelled, 0, 1)

    def mean(self, lam: Floats) -> float:
        """The estimate with these weights of the judge; NaN where a stratum has no label."""
        if not self.labels.all():
            return math.nan
        parts = [
            factor * (target.mean() if target.size else 0) + residual.mean()
            for factor, target, residual in zip(lam, self.targets, self.residuals(lam), strict=True)
        ]
        return float(self.weights @ parts)

    def residuals(self, factors: Floats) -> list[Floats]:
        """``y - factor * f`` of the labelled samples of each stratum."""
        return [
            stratum.people - factor * stratum.judge_on_labels
            for factor, stratum in zip(factors, self.strata, strict=True)
        ]

    def residual_variances(self, factors: Floats) -> Floats:
        """Variances of ``y - factor * f`` that allow for one unseen error."""
        variances = self.label_variances(factors)
        labels, unseen = max(int(self.labels[self.incomplete].sum()), 2), self.full_marks / 2
        if not self.is_spread(variances):
            unseen = self.full_marks
            if not self.is_spread(self.label_variances(np.zeros_like(factors))):
                limit = 1 - _TAIL ** (1 / labels)
                unseen *= limit * labels / float(stdtrit(labels - 1, 1 - _TAIL))
        return ((labels - 1) * variances + unseen**2) / labels

    def label_variances(self, factors: Floats) -> Floats:
        """Variances of ``y - factor * f`` on the labels."""
        return np.array(list(map(_variance, self.residuals(factors))))

    def is_spread(self, variances: Floats) -> bool:
        """Whether a stratum with an unknown mean has a variance above rounding error."""
        return bool((variances[self.incomplete] > _ROUNDING * self.full_marks**2).any())

    def third_moment(self, factors: Floats) -> float:
        """The third moment of the error of ``mean(y - factor * f)``, summed over the strata."""
        moments = list(map(third_central_moment, self.residuals(factors)))
        drawn = 0 if self.larger else self.labels / self.samples
        return float(self.weights**3 / self.labels**2 * (1 - drawn) * (1 - 2 * drawn) @ moments)

    def variances(self, on_labels: Floats, on_target: Floats) -> Floats:
        """Variances of the strata's parts of ``on_target * mean(f) + mean(y - on_labels * f)``."""
        finite = 0 if self.larger else 1 / self.samples
        per_label = 1 / np.maximum(self.labels, 1) - finite
        variances: Floats = self.residual_variances(on_labels) * per_label
        if self.larger:
            target_variances = np.array(list(map(_variance, self.targets)))
            variances += on_target**2 * target_variances / np.maximum(self.samples - self.labels, 1)
        variances *= self.weights**2
        return variances

    def lost_degree(self, variances: Floats, lam: Floats) -> float:
        """The factor on a variance because the slope was fitted to the same labels."""
        degrees = float((self.labels - 1)[variances > 0].sum())
        return degrees / (degrees - 1) if lam.any() and degrees >= 2 else 1.0

    def why_no_interval(self) -> str:
        labels = round(self.labels.sum())
        if self.incomplete.any() and labels < MIN_LABELS:
            return f"an interval needs {MIN_LABELS} labels, and there are {labels}"
        for stratum, is_incomplete in zip(self.strata, self.incomplete, strict=True):
            if is_incomplete and stratum.people.size < _MIN_STRATUM_LABELS:
                needed = f"an interval needs {_MIN_STRATUM_LABELS} labels of {stratum.name}"
                return f"{needed}, and there are {stratum.people.size}"
        return ""

    def estimate(
        self, value: float, on_labels: Floats, on_target: Floats, sign: int = 1
    ) -> Estimate:
        """The value with its interval; the sign is that of people's points in the value."""
        if why_not := self.why_no_interval():
            return Estimate(value=value, interval=None, why_not=why_not)
        variances = self.variances(on_labels, on_target)
        variance = float(variances.sum())
        if not variance:
            return Estimate(value=value, interval=Interval(value, value))
        factor = self.lost_degree(variances, on_labels)
        squares = float((variances**2 / np.maximum(self.labels - 1, 1)).sum())
        t = float(stdtrit(variance**2 / squares / factor, 1 - _TAIL))
        half = t * math.sqrt(variance * factor)
        moved = value + sign * skew_shift(self.third_moment(on_labels), variance * factor)
        return Estimate(value=value, interval=Interval(moved - half, moved + half))

    def labels_worth(self, lam: Floats) -> float:
        """How many labels alone have the variance of the corrected mean.

        M labels alone have ``var(y) * (1/M - 1/N)`` where the run is the population, else
        ``var(y)/M``.
        """
        alone, variances = np.zeros_like(lam), self.variances(lam, lam)
        ratio = float(variances.sum()) * self.lost_degree(variances, lam)
        labels, samples = float(self.labels.sum()), float(self.samples.sum())
        if labels == samples:
            return labels
        ratio /= float(self.variances(alone, alone).sum())
        finite = 0 if self.larger else 1 / samples
        return 1 / ((1 / labels - finite) * ratio + finite)

    def labels_to_halve(self, lam: Floats) -> int | None:
        """How many more labels, in the same proportions, give a quarter of the variance."""
        slope, floor = lam, 0.0
        if self.larger:  # its variance is that for the run, and var(y)/N
            slope = lam * self.samples / np.maximum(self.samples - self.labels, 1)
            people = np.array([_variance(stratum.people) for stratum in self.strata])
            floor = float(self.weights**2 * people @ (1 / self.samples))
        residual = self.weights**2 * self.residual_variances(slope)
        falling, end = float(residual @ (1 / self.labels)), float(residual @ (1 / self.samples))
        target = (falling - end + floor) / 4
        if target <= 0 or target < floor:
            return None
        more = self.labels.sum() * (falling / (target - floor + end) - 1)
        return int(min(math.ceil(round(more, 6)), (self.samples - self.labels).sum()))


def _variance(points: Floats) -> float:
    return float(np.var(points, ddof=1)) if points.size > 1 else 0.0
