"""A run's score, corrected with people's scores: the result, and what it is worth in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mmie_tasks.core.wording import counted
from mmie_tasks.quality.calibrate.estimate import CorrectedMean, Estimate, Population
from mmie_tasks.quality.calibrate.problems import Problem
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.results.agreement.measures import Measurement

_WEAK = 0.3  # a correlation below it makes 100 labels worth 110 at most


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedScore:
    """The headline, or one stratum, in percent of full marks; of two runs everything is their
    difference.

    Attributes:
        name: Of the stratum; empty for the headline.
        samples: How many have points of the judge; `labels` of these have people's.
        judge: The judge's mean over all samples, rounded as in the tables; None without samples.
        judge_on_labels: The judge's mean over the labelled samples alone, unweighted; None without
            labels. `people_on_labels` is people's over the same samples.
        mean: The estimates; None where labels are missing or not a random sample.
        why_not: Why there is no corrected score with an interval; empty if there is one.
    """

    name: str
    samples: int
    labels: int
    judge: float | None
    judge_on_labels: float | None
    people_on_labels: float | None
    mean: CorrectedMean | None
    why_not: str

    @property
    def corrected(self) -> Estimate | None:
        """The corrected score; None without an interval."""
        return self.mean.corrected if self.mean and not self.why_not else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterAgreement:
    """How far people agree with each other.

    Attributes:
        samples: That two raters or more scored.
        correlation: Pearson's, of a rater with the mean of the others, averaged over raters; None
            where it is not defined.
        common: How many samples all of them scored.
        means: Each rater's mean over these samples, in percent; empty without such samples.
    """

    samples: int
    correlation: float | None
    common: int
    means: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherScore:
    """Whether the robust or expected score follows people better than the official one: their
    correlations with people's on the same `labels` samples, None where not defined, and the
    first less the second.
    """

    kind: ScoreKind
    labels: int
    correlation: float | None
    official: float | None
    difference: Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Everything that is computed of one task of a run, or of its difference to a baseline, with
    labels.

    Attributes:
        task, title: The task's name and the benchmark's title.
        kind: Which score is corrected.
        population: What the intervals are for.
        seed: Of the plan; None if there is no single one.
        headline, strata: The score, and that of each stratum if there are several.
        correlation: Pearson's, of the judge and people on the labels.
        rater_names: Whose labels correct the score.
        other_raters: Raters of only a part of the labelled samples, who correct nothing, to how
            many they scored.
        unratable: Answers of the plan that a rater could not rate.
        raters: How far they agree; None with one rater.
        other_scores: The scores of this run that are not the official one.
        without: Why samples have no points and are in no mean here, to how many.
        problems: What could not be used, and why there is no corrected score.
        is_random_sample: Whether the labelled samples are the first ones of a plan.
    """

    task: str
    title: str
    kind: ScoreKind
    population: Population
    seed: int | None
    headline: CorrectedScore
    strata: tuple[CorrectedScore, ...]
    correlation: Measurement
    rater_names: tuple[str, ...]
    other_raters: Mapping[str, int]
    unratable: int
    raters: RaterAgreement | None
    other_scores: tuple[OtherScore, ...]
    without: Mapping[str, int]
    problems: tuple[Problem, ...]
    is_random_sample: bool

    @property
    def worth(self) -> str:
        """Whether the judge saves labels, in words; empty without an interval."""
        mean, r = self.headline.mean, self.correlation.value
        if mean is None or mean.labels_worth is None:
            return ""
        if mean.saves_labels:
            labels = counted(mean.labels, "label")
            return f"this judge makes {labels} worth about {mean.labels_worth:,.0f}"
        number = "not defined" if r is None else f"{r:.2f}"
        if r is not None and r >= _WEAK:
            return f"this judge saves no labels here (r = {number})"
        why = "its scores say next to nothing about people's"
        return f"this judge saves no labels: {why} (r = {number})"

    @property
    def notes(self) -> tuple[str, ...]:
        """Why there is no corrected headline, what it rests on (``100 labels by 2 raters``), and
        labels saved.
        """
        basis = (
            f"{counted(self.headline.labels, 'label')} by {counted(len(self.rater_names), 'rater')}"
        )
        notes = (self.headline.why_not, basis if self.rater_names else "", self.worth)
        return tuple(filter(None, notes))
