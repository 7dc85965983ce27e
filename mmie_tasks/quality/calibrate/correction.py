"""A run's score, corrected with people's scores: the result, what it is worth, and its text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mmie_tasks.core.tables import NO_VALUE, percent_cell, signed_cell, table
from mmie_tasks.core.wording import counted, wrapped
from mmie_tasks.quality.calibrate.estimate import CorrectedMean, Estimate, Population
from mmie_tasks.quality.calibrate.judged_runs import NamedRun, notes_on
from mmie_tasks.quality.calibrate.judged_samples import without_points_text
from mmie_tasks.quality.calibrate.labelled_scores import Problem
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.results.agreement.measures import Measurement
from mmie_tasks.results.comparability import scored_signatures, signature_differences

_FormatCell: TypeAlias = Callable[..., str]  # `percent_cell`, or `signed_cell` for differences
_SHIFT = 0.1  # percentage points: a larger change of the judge's mean by the weights is reported
_WEAK = 0.3  # a lower correlation makes 100 labels worth at most 110


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedScore:
    """The headline or one stratum, in percent of full marks; for two runs, the difference of each.

    Attributes:
        name: The stratum; empty for the headline.
        samples, labels: How many have points of the judge, and how many of these have people's.
        judge: The judge's mean over all samples, rounded as in the tables; None without samples.
        judge_on_labels, people_on_labels: The unweighted means over the labelled samples alone;
            None without labels.
        mean: The estimates; None if labels are missing or are not a random sample.
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
        samples: How many samples were scored by two raters or more.
        correlation: Pearson's r of a rater with the mean of the others, averaged over raters; None
            if not defined.
        common: How many samples all raters scored.
        means: Each rater's mean over the common samples, in percent; empty if there are none.
    """

    samples: int
    correlation: float | None
    common: int
    means: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherScore:
    """Whether the robust score follows people better than the official one.

    Attributes:
        labels: Number of labelled samples that have both scores.
        correlation, official: The two scores' correlations with people's; None if not defined.
        difference: `correlation` less `official`.
    """

    kind: ScoreKind
    labels: int
    correlation: float | None
    official: float | None
    difference: Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """One task of a run, or its difference from a baseline, corrected with labels.

    Attributes:
        task, title: The task's name and the benchmark's title.
        kind: Which score is corrected.
        population: What the intervals are for.
        seed: The plan's seed; None unless there is exactly one.
        headline, strata: The score, and that of each stratum if there are several.
        correlation: Pearson's r of the judge and people on the labels.
        rater_names: Whose labels correct the score.
        other_raters: Raters of only a part of the labelled samples, whose scores are not used, with
            the number of samples that they scored.
        unratable: Number of answers of the plan that a rater could not rate.
        raters: How far raters agree; None with one rater.
        other_scores: The run's robust score, if it differs.
        without: Number of samples without points, which are in no mean here, by reason.
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
        """Whether the judge saves labels, as a sentence; empty without an interval."""
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
        """Why there is no corrected headline, the labels (``100 labels by 2 raters``), `worth`."""
        basis = (
            f"{counted(self.headline.labels, 'label')} by {counted(len(self.rater_names), 'rater')}"
        )
        notes = (self.headline.why_not, basis if self.rater_names else "", self.worth)
        return tuple(filter(None, notes))


def correction_text(runs: Sequence[NamedRun], correction: Correction) -> str:
    """A table, what it means in sentences, and what could not be used."""
    names = [run_.name for run_ in runs]
    cell: _FormatCell = signed_cell if len(names) > 1 else percent_cell
    what, unit = names[0], f"The {correction.kind} score in percent"
    if len(names) > 1:
        what = f"{names[1]} - {names[0]}"
        unit = f"Differences of the {correction.kind} score in percentage points"
    sentences = [*_sentences(runs, correction, cell), *notes_on(runs)]
    problems = [f"{p.text}. {f'Hint: {p.hint}.' if p.hint else ''}" for p in correction.problems]
    blocks = [
        f"# {correction.title} (`{correction.task}`), corrected by people: {what}",
        f"{unit}, with 95 % intervals.",
        _table(correction, cell),
        "\n".join(wrapped(f"- {sentence}") for sentence in sentences),
    ]
    if problems:
        lines = [wrapped(f"- {problem}") for problem in problems]
        blocks.append("\n".join(["## Problems\n", *lines]))
    return "\n\n".join(blocks)


def _table(correction: Correction, cell: _FormatCell) -> str:
    """The headline, and the strata that have an interval."""
    header = ["", "samples", "labels", "judge", "people alone", "corrected", "bias"]
    rows = []
    strata = [score for score in correction.strata if score.corrected]
    for score in (correction.headline, *strata):
        estimates = [NO_VALUE] * 3
        if mean := score.mean:
            estimates = [cell(e.value, e.interval) for e in (mean.people, mean.corrected)]
            estimates.append(signed_cell(mean.bias.value, mean.bias.interval))
        name, counts = score.name or correction.title, (f"{score.samples:,}", f"{score.labels:,}")
        rows.append([name, *counts, cell(score.judge), *estimates])
    return table(header, rows)


def _sentences(
    runs: Sequence[NamedRun], correction: Correction, cell: _FormatCell
) -> Iterator[str]:
    is_difference = len(runs) == 2
    if is_difference:
        yield _verdict(runs[0].name, runs[1].name, correction.headline.corrected)
    yield from _of_the_judge(correction, is_difference=is_difference)
    yield from _of_people(correction, cell)
    if is_difference:  # the settings of the two judges may differ
        differences = signature_differences(*(scored_signatures(run_.task_run) for run_ in runs))
        if keys := ", ".join(difference.key for difference in differences):
            yield (
                f"The runs were not scored alike ({keys}): the judge's difference is partly "
                "that of its settings."
            )
    yield from without_points_text(correction.without)
    if correction.without.keys() - {"left_out"} and not is_difference:
        yield "If the judge fails on bad answers, this is too high."


def _of_the_judge(correction: Correction, *, is_difference: bool) -> Iterator[str]:
    score, r = correction.headline, correction.correlation
    if score.why_not:
        missing = "There is no corrected score"
        if score.mean:
            missing = "The corrected score has no interval"
        yield f"{missing}: see the problems below."
        if score.labels:  # there is no better estimate
            people, judge = map(percent_cell, (score.people_on_labels, score.judge_on_labels))
            mark = "" if correction.is_random_sample else ", not a random sample"
            samples = counted(score.labels, "labelled sample")
            yield f"On the {samples}{mark}: people {people}, the judge {judge}."
    if r.value is None:
        yield f"There is no correlation of the judge with people: {r.why_not}."
    else:
        yield f"The judge's scores correlate with people's at r = {r.cell(2)}, on the labels."
    if worth := correction.worth:
        yield f"{worth[0].upper()}{worth[1:]}."
    if score.mean and score.mean.labels_to_halve and not is_difference:
        more = counted(score.mean.labels_to_halve, "more label")
        yield f"{more} would halve the corrected interval."


def _of_people(correction: Correction, cell: _FormatCell) -> Iterator[str]:
    score = correction.headline
    yield _raters(correction.raters, cell)
    for rater, samples in correction.other_raters.items():
        yield (
            f"{rater} scored {counted(samples, 'answer')}, not the {score.labels:,} that correct "
            "the score, and is not in it."
        )
    if correction.unratable:
        cannot = counted(correction.unratable, "answer")
        yield f"{cannot} of the plan cannot be rated, and count as like the others."
    if score.why_not:
        return
    if score.mean and score.judge is not None and abs(score.mean.judge - score.judge) >= _SHIFT:
        yield (
            "The run's strata are not in the benchmark's shares. All but the column `judge` is "
            f"weighed with these; the judge's mean is then {percent_cell(score.mean.judge)}."
        )
    about = {"run": "the samples of the run", "larger": "a larger population"}
    seed = f"a plan with the seed {correction.seed}"
    yield f"The intervals are for {about[correction.population]}; the labels are of {seed}."


def _verdict(a: str, b: str, estimate: Estimate | None) -> str:
    if estimate is None or estimate.interval is None:
        return f"It is not known whether {b} is better than {a} for people."
    difference = signed_cell(estimate.value, estimate.interval)
    if estimate.interval.low <= 0 <= estimate.interval.high:
        return f"It is not known whether {b} is better than {a} for people: {difference}."
    outcome = "better" if estimate.interval.low > 0 else "worse"
    return f"For people, {b} is {outcome} than {a}: {difference}."


def _raters(agreement: RaterAgreement | None, cell: _FormatCell) -> str:
    if agreement is None:
        return "One rater: how far people agree with each other is not known."
    if not agreement.samples:
        return "No answer was scored by two raters: how far they agree is not known."
    r = agreement.correlation
    follows = "" if r is None else f"; a rater follows the mean of the others at r = {r:.2f}"
    means = ", ".join(f"{name} {cell(mean)}" for name, mean in agreement.means.items())
    common = f". On the {counted(agreement.common, 'answer')} of all: {means}" if means else ""
    return f"{counted(agreement.samples, 'answer')} scored by two raters or more{follows}{common}."
