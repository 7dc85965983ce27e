"""Corrects a run's score with people's scores of a random sample of its answers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mmie_tasks.core.command import as_called
from mmie_tasks.quality.calibrate.correction import CorrectedScore, Correction
from mmie_tasks.quality.calibrate.correlations import agreement_of_raters, correlation, other_scores
from mmie_tasks.quality.calibrate.estimate import Population, StratumScores, corrected_mean
from mmie_tasks.quality.calibrate.judged_samples import (
    counts_without_points,
    judged_samples,
    stratum_weights,
)
from mmie_tasks.quality.calibrate.label_choice import (
    LabelChoice,
    all_labels,
    first_of_plan,
    plan_seeds,
)
from mmie_tasks.quality.calibrate.labelled_scores import LabelledScores, Problem, match_labels
from mmie_tasks.record.intervals import Floats
from mmie_tasks.record.metrics import Scale
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.results.labels import Label
from mmie_tasks.runs.run import TaskRun
from mmie_tasks.runs.values import metrics_of


def default_population(task_run: TaskRun) -> Population:
    """``larger`` for a run of a part, which is a sample of the benchmark; else ``run``."""
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
    """Correct a task's headline and each stratum of it, or its difference from a baseline.

    A difference covers the samples that both runs have points for, and subtracts the baseline's. A
    sample counts as labelled if both runs' answers to it have labels; one label is enough for
    identical answers. Labels may also be of other runs.

    Intervals are for the population; by default for `default_population`. A difference is always
    for the larger one, in which `Benchmark.stratum_sizes` weigh the strata.
    """
    runs = [task_run, baseline] if baseline else [task_run]
    if baseline:
        population = "larger"
    elif population is None:
        population = default_population(task_run)
    is_difference = baseline is not None
    judged = [judged_samples(run, kind) for run in runs]
    scores = match_labels(runs, judged, labels)
    choice = first_of_plan(scores, judged, runs)
    rows = _corrected_scores(task_run, scores, choice, population, is_difference=is_difference)
    if choice.gaps and rows[0].why_not:  # too few labels up to the gaps: show what all of them say
        choice = all_labels(scores, choice.gaps)
        rows = _corrected_scores(task_run, scores, choice, population, is_difference=is_difference)
    problems = [*scores.problems, *choice.problems]
    if scores.labels and not choice.blocking and rows[0].why_not:
        problems.append(_too_few(rows[0]))
    seeds = plan_seeds(scores)
    people = choice.people
    return Correction(
        task=task_run.task,
        title=task_run.benchmark.title,
        kind=kind,
        population=population,
        seed=seeds[0] if len(seeds) == 1 else None,
        headline=rows[0],
        strata=tuple(rows[1:]),
        correlation=correlation([scores.judge[id_] for id_ in people], list(people.values())),
        rater_names=tuple(choice.ratings),
        other_raters={
            rater: len(by_id)
            for rater, by_id in scores.ratings.items()
            if rater not in choice.ratings
        },
        unratable=choice.unratable,
        raters=agreement_of_raters(scores.ratings) if len(scores.ratings) > 1 else None,
        other_scores=() if is_difference else other_scores(task_run, people),
        without=counts_without_points(judged),
        problems=tuple(problems),
        is_random_sample=choice.is_random_sample,
    )


def _corrected_scores(
    task_run: TaskRun,
    scores: LabelledScores,
    choice: LabelChoice,
    population: Population,
    *,
    is_difference: bool,
) -> list[CorrectedScore]:
    """The headline, then each of several strata; without an estimate if a problem is blocking."""
    metric, benchmark = metrics_of([task_run])[0], task_run.benchmark
    shares = stratum_weights(metric, scores.strata.values())
    sizes = benchmark.stratum_sizes if population == "larger" else None
    weights = stratum_weights(metric, scores.strata.values(), sizes)
    strata = _strata(scores, choice.people, weights)
    scale = None if is_difference else benchmark.scale
    why_not = _why_blocked(choice)
    judge_mean = _judge_mean(strata, shares, scale)
    rows = [_corrected_score("", strata, judge_mean, population, why_not)]
    if len(strata) > 1:
        for stratum in strata:
            alone = [replace(stratum, weight=1.0)]
            judge_mean = _judge_mean(alone, {stratum.name: 1.0}, scale)
            rows.append(_corrected_score(stratum.name, alone, judge_mean, population, why_not))
    return rows


def _strata(
    scores: LabelledScores, people: Mapping[str, float], weights: Mapping[str, float]
) -> list[StratumScores]:
    ids_by_stratum: defaultdict[str, list[str]] = defaultdict(list)
    for id_ in sorted(scores.strata):
        ids_by_stratum[scores.strata[id_]].append(id_)
    return [
        StratumScores(
            name=name,
            weight=weights[name],
            judge=np.array([scores.judge[id_] for id_ in ids]),
            labelled=np.array([i for i, id_ in enumerate(ids) if id_ in people], dtype=np.int64),
            people=np.array([people[id_] for id_ in ids if id_ in people]),
        )
        for name, ids in sorted(ids_by_stratum.items())
    ]


def _judge_mean(
    strata: Sequence[StratumScores], shares: Mapping[str, float], scale: Scale | None
) -> float | None:
    """The mean over strata with these shares, rounded by the scale if there is one; None if a
    stratum has no samples.
    """
    if not strata or len(strata) != len(shares):
        return None
    mean = float(sum(shares[stratum.name] * stratum.judge.mean() for stratum in strata))
    return mean if scale is None else scale.percent(mean * scale.full_marks / 100)


def _why_blocked(choice: LabelChoice) -> str:
    if not choice.blocking:
        return ""
    first = choice.blocking[0]
    return first.text if first.name == "no_score" else f"not a random sample: {first.text}"


def _corrected_score(
    name: str,
    strata: Sequence[StratumScores],
    judge_mean: float | None,
    population: Population,
    why_blocked: str,
) -> CorrectedScore:
    judge_on_labels = _joined([stratum.judge_on_labels for stratum in strata])
    people = _joined([stratum.people for stratum in strata])
    why_not, mean = why_blocked, None
    if not why_not and not people.size:
        why_not = "no sample has the labels that it needs"
    if not why_not and judge_mean is None:
        why_not = "no samples"
    if not why_not:
        mean = corrected_mean(strata, population)
        why_not = mean.corrected.why_not
    return CorrectedScore(
        name=name,
        samples=sum(len(stratum.judge) for stratum in strata),
        labels=people.size,
        judge=judge_mean,
        judge_on_labels=float(judge_on_labels.mean()) if judge_on_labels.size else None,
        people_on_labels=float(people.mean()) if people.size else None,
        mean=None if mean is None or math.isnan(mean.corrected.value) else mean,
        why_not=why_not,
    )


def _joined(arrays: Sequence[Floats]) -> Floats:
    return np.concatenate([np.empty(0), *arrays])


def _too_few(headline: CorrectedScore) -> Problem:
    longer_plan = as_called("mmie-tasks calibrate RUN --people FILE --plan N -o more.csv")
    hint = f"`{longer_plan}` extends the plan"
    return Problem(name="too_few", text=headline.why_not, count=headline.labels, hint=hint)
