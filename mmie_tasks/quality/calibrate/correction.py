"""A run's score, corrected with people's scores of a random sample of its answers.

Only a rater's first labels of each stratum in the plan's order are used, because they are a random
sample; everything else is a named problem.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import TypeAlias

import numpy as np

from mmie_tasks.core.tables import counted, short_name
from mmie_tasks.core.verdict import Scored
from mmie_tasks.quality.calibrate.estimate import (
    MIN_LABELS,
    CorrectedMean,
    Estimate,
    Population,
    StratumScores,
    corrected_mean,
)
from mmie_tasks.quality.calibrate.matching import (
    LabelledScores,
    Problem,
    Ratings,
    match_labels,
    problem,
)
from mmie_tasks.quality.plan import JudgedSamples, judged_samples, strata_in_order, stratum_weights
from mmie_tasks.record.intervals import LEVEL, Interval
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.results.agreement.measures import Measurement, pearson
from mmie_tasks.results.labels import Label
from mmie_tasks.runs.run import TaskRun
from mmie_tasks.runs.values import metrics_of

_RESAMPLES = 1000  # for the interval of a difference of correlations
_WEAK = 0.3  # a correlation below it makes 100 labels worth 110 at most

Plan: TypeAlias = Mapping[str, Sequence[str]]
"""Stratum to its sample ids, in the order in which people should score them."""


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


def default_population(task_run: TaskRun) -> Population:
    """What intervals for a run are for: a run of a part is a sample of the benchmark."""
    whole = task_run.benchmark.published.get(task_run.task, 0)
    is_part = task_run.limit is not None or len(task_run.samples) < whole
    return "larger" if is_part else "run"


def correct(
    task_run: TaskRun,
    labels: Sequence[Label],
    kind: ScoreKind = "official",
    population: Population | None = None,
    *,
    baseline: TaskRun | None = None,
) -> Correction:
    """Correct a task's headline, and each stratum of it, or its difference to that of a baseline.

    A difference is over the samples that both runs have points for. Labelled are those whose
    answers of both runs have labels; an answer that both gave counts for both.

    Args:
        task_run: One task of a run that a judge scored.
        labels: People's scores, of any runs.
        kind: The score to correct.
        population: What the intervals are for; None for `default_population`. A difference is
            always for the larger one, whose strata are weighed by `Benchmark.stratum_sizes`.
        baseline: The same task of another run, whose points are subtracted; None for the score
            itself.
    """
    runs = [task_run, baseline] if baseline else [task_run]
    population = "larger" if baseline else population or default_population(task_run)
    judged = [judged_samples(run, kind) for run in runs]
    scores = match_labels(runs, judged, labels)
    seeds = {label.seed for label in scores.labels if label.seed is not None}
    blocking, gaps = [*_blocking_problems(judged, runs, scores)], list[Problem]()
    used = scores.ratings
    if seeds and not blocking:
        plan = strata_in_order(scores.strata, min(seeds))
        gaps = [gap for rater in used for gap in _gaps(rater, used, plan)]
        used = _complete({rater: _first_ones(by_id, plan) for rater, by_id in used.items()})
    corrected = partial(_corrected_scores, task_run, scores, population, bool(baseline))
    people = _means(used)
    rows = corrected(people, blocking)
    if gaps and rows[0].why_not:
        blocking, used = gaps, scores.ratings
        people = _means(used)
        rows = corrected(people, blocking)
    problems = [*scores.problems, *(() if blocking is gaps else blocking), *gaps]
    if scores.labels and not blocking and rows[0].why_not:
        hint = "`mmie-tasks calibrate RUN --people FILE --plan N -o more.csv` extends the plan"
        text, count = rows[0].why_not, rows[0].labels
        problems.append(Problem(name="too_few", text=text, count=count, hint=hint))
    reasons = dict.fromkeys(reason for run in judged for reason in run.without)
    return Correction(
        task=task_run.task,
        title=task_run.benchmark.title,
        kind=kind,
        population=population,
        seed=min(seeds) if len(seeds) == 1 else None,
        headline=rows[0],
        strata=tuple(rows[1:]),
        correlation=_correlation([scores.judge[id_] for id_ in people], list(people.values())),
        rater_names=tuple(used),
        other_raters={r: len(by_id) for r, by_id in scores.ratings.items() if r not in used},
        unratable=len(set().union(*used.values()) - people.keys()),
        raters=_agreement(scores.ratings) if len(scores.ratings) > 1 else None,
        other_scores=() if baseline else tuple(_other_scores(task_run, people)),
        without={reason: sum(len(r.without.get(reason, ())) for r in judged) for reason in reasons},
        problems=tuple(problems),
        is_random_sample=not blocking or blocking[0].name == "no_score",
    )


def _blocking_problems(
    judged: Sequence[JudgedSamples], runs: Sequence[TaskRun], scores: LabelledScores
) -> Iterator[Problem]:
    """Why there is no corrected score, whichever labels are used."""
    labels = scores.labels
    if hand_picked := [label.id for label in labels if label.seed is None or not label.answer]:
        hint = "`mmie-tasks calibrate RUN --plan 100 -o people.csv` draws a random sample"
        what = "are not of a plan, as they have no seed or do not say of which answer they are"
        yield problem("hand_picked", "label", what, hand_picked, hint)
    seeds = sorted({label.seed for label in labels if label.seed is not None})
    if len(seeds) > 1:
        text = f"the labels are of plans with different seeds: {', '.join(map(str, seeds))}"
        hint = "use the labels of one plan"
        yield Problem(name="several_seeds", text=text, count=len(seeds), hint=hint)
    strata = set(scores.strata.values())
    absent = sorted(stratum_weights(metrics_of(runs)[0], strata).keys() - strata)
    in_neither = [f"no sample of {name} has a score in both runs" for name in absent]
    if why_not := next(filter(None, [*(run.why_not for run in judged), *in_neither]), ""):
        yield Problem(name="no_score", text=f"there is no score to correct: {why_not}", count=0)


def _first_ones(by_id: Mapping[str, float], plan: Plan) -> dict[str, float]:
    """A rater's scores of the first samples of each stratum, up to the first gap."""
    firsts = (takewhile(by_id.__contains__, ids) for ids in plan.values())
    return {id_: by_id[id_] for ids in firsts for id_ in ids}


def _gaps(rater: str, ratings: Ratings, plan: Plan) -> Iterator[Problem]:
    """Samples without a score of the rater, before the last one in the plan that has one."""
    by_id, gaps, plan_size = ratings[rater], list[str](), 0
    total = sum(map(len, plan.values()))
    for ids in plan.values():
        scored = [rank for rank, id_ in enumerate(ids, 1) if id_ in by_id]
        if scored and scored[-1] > len(scored):
            gaps += [id_ for id_ in ids[: scored[-1]] if id_ not in by_id]
            plan_size = max(plan_size, math.ceil(scored[-1] * total / len(ids)))
    if gaps:
        command = f"`mmie-tasks calibrate RUN --people FILE --plan {plan_size} -o more.csv`"
        by = f" by {short_name(rater)}" if len(ratings) > 1 else ""
        what = f"have no label{by}, unlike later ones of the plan"
        hint = f"{command} writes a page of the missing ones"
        yield problem("gaps", "sample", what, gaps, hint)


def _complete(ratings: Ratings) -> Ratings:
    """The scores of the raters of all labelled samples: a mean over other raters for other samples
    would be of nobody.
    """
    labelled = max(ratings.values(), key=len).keys()
    return {rater: by_id for rater, by_id in ratings.items() if by_id.keys() == labelled}


def _means(ratings: Ratings) -> dict[str, float]:
    """The raters' mean of each sample that all who saw it could rate."""
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for by_id in ratings.values():
        for id_, score in by_id.items():
            scores[id_].append(score)
    means = {id_: sum(scores[id_]) / len(scores[id_]) for id_ in sorted(scores)}
    return {id_: mean for id_, mean in means.items() if not math.isnan(mean)}


def _corrected_scores(
    task_run: TaskRun,
    scores: LabelledScores,
    population: Population,
    is_difference: bool,
    people: Mapping[str, float],
    blocking: Sequence[Problem],
) -> list[CorrectedScore]:
    """The headline, then each of several strata; without an estimate if a problem is blocking."""
    benchmark, metric = task_run.benchmark, metrics_of([task_run])[0]
    shares = stratum_weights(metric, scores.strata.values())
    sizes = benchmark.stratum_sizes if population == "larger" else None
    weights = stratum_weights(metric, scores.strata.values(), sizes)
    blocked = blocking[0].text if blocking else ""
    if blocked and blocking[0].name != "no_score":
        blocked = f"not a random sample: {blocked}"

    def score(
        name: str, strata: Sequence[StratumScores], shares: Mapping[str, float]
    ) -> CorrectedScore:
        """Of strata that have these shares in the run's score."""
        judge = np.concatenate([np.empty(0), *(stratum.judge_on_labels for stratum in strata)])
        human = np.concatenate([np.empty(0), *(stratum.people for stratum in strata)])
        total = None
        if strata and len(strata) == len(shares):
            total = float(sum(shares[s.name] * s.judge.mean() for s in strata))
            if not is_difference:
                total = benchmark.scale.percent(total * benchmark.scale.full_marks / 100)
        why_not = blocked or ("" if human.size else "no sample has the labels that it needs")
        mean = None if why_not or total is None else corrected_mean(strata, population)
        return CorrectedScore(
            name=name,
            samples=sum(len(stratum.judge) for stratum in strata),
            labels=human.size,
            judge=total,
            judge_on_labels=float(judge.mean()) if judge.size else None,
            people_on_labels=float(human.mean()) if human.size else None,
            mean=None if mean is None or math.isnan(mean.corrected.value) else mean,
            why_not=why_not or (mean.corrected.why_not if mean else "no samples"),
        )

    ids_by_stratum: defaultdict[str, list[str]] = defaultdict(list)
    for id_ in sorted(scores.strata):
        ids_by_stratum[scores.strata[id_]].append(id_)
    parts = [
        StratumScores(
            name=name,
            weight=weights[name],
            judge=np.array([scores.judge[id_] for id_ in ids]),
            labelled=np.array([i for i, id_ in enumerate(ids) if id_ in people], dtype=np.int64),
            people=np.array([people[id_] for id_ in ids if id_ in people]),
        )
        for name, ids in sorted(ids_by_stratum.items())
    ]
    alone = [score(part.name, [replace(part, weight=1.0)], {part.name: 1.0}) for part in parts]
    return [score("", parts, shares), *(alone if len(parts) > 1 else [])]


def _correlation(judge: Sequence[float], people: Sequence[float]) -> Measurement:
    """Pearson's correlation, with the interval of Fisher's z."""
    from scipy import stats

    if len(people) < 2:
        return Measurement(why_not=f"there are {counted(len(people), 'label')}")
    if not (np.ptp(judge) and np.ptp(people)):
        return Measurement(why_not="one of the two gives every sample the same points")
    result = stats.pearsonr(judge, people)
    r = float(result.statistic)
    if len(people) < MIN_LABELS or math.isclose(abs(r), 1):
        return Measurement(value=r, why_not="too few labels, or no spread, for an interval")
    return Measurement(value=r, interval=Interval(*map(float, result.confidence_interval(LEVEL))))


def _agreement(ratings: Ratings) -> RaterAgreement:
    import pandas as pd

    scores = pd.DataFrame(
        {rater: pd.Series(by_id, dtype=float) for rater, by_id in ratings.items()}
    )
    others = {rater: scores.drop(columns=rater).mean(axis=1) for rater in scores}
    with np.errstate(invalid="ignore", divide="ignore"):  # of a rater whose scores are all the same
        correlations = [scores[rater].corr(others[rater]) for rater in scores]
    defined = [r for r in correlations if not math.isnan(r)]
    common = scores.dropna()
    return RaterAgreement(
        samples=int((scores.count(axis=1) > 1).sum()),
        correlation=float(sum(defined) / len(defined)) if defined else None,
        common=len(common),
        means={str(rater): float(common[rater].mean()) for rater in common} if len(common) else {},
    )


def _other_scores(task_run: TaskRun, people: Mapping[str, float]) -> Iterator[OtherScore]:
    """The robust and the expected score, each if the labelled samples have it and it is not the
    official one.
    """
    kinds: tuple[ScoreKind, ...] = ("robust", "expected")
    for kind in kinds:
        points = [
            (people[sample.id], sample.official.points, other.points)
            for sample in task_run.samples
            if sample.id in people
            and isinstance(sample.official, Scored)
            and isinstance(other := sample.verdict(kind), Scored)
        ]
        if all(official == other for _, official, other in points):
            continue
        human, official, other = np.array(points).T
        r_other, r_official = (
            _correlation(list(scores), list(human)).value for scores in (other, official)
        )
        difference = Measurement(why_not="a correlation is not defined")
        if r_other is not None and r_official is not None:
            difference = Measurement(
                value=r_other - r_official, why_not=f"{counted(len(points), 'label')} are too few"
            )
            if len(points) >= MIN_LABELS:
                draws = np.random.default_rng(0).integers(
                    len(points), size=(_RESAMPLES, len(points))
                )
                differences = np.array(
                    [pearson(other[d], human[d]) - pearson(official[d], human[d]) for d in draws]
                )
                defined = differences[np.isfinite(differences)]
                ends = np.quantile(defined, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
                interval = Interval(*map(float, ends))
                difference = replace(difference, interval=interval, why_not="")
        yield OtherScore(
            kind=kind,
            labels=len(points),
            correlation=r_other,
            official=r_official,
            difference=difference,
        )
