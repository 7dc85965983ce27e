"""The headline of a run and of each stratum, corrected with people's scores."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mmie_tasks.quality.calibrate.correction import CorrectedScore
from mmie_tasks.quality.calibrate.estimate import Population, StratumScores, corrected_mean
from mmie_tasks.quality.calibrate.judged_samples import stratum_weights
from mmie_tasks.quality.calibrate.label_choice import LabelChoice
from mmie_tasks.quality.calibrate.matching import LabelledScores
from mmie_tasks.record.intervals import Floats
from mmie_tasks.record.metrics import Scale
from mmie_tasks.runs.run import TaskRun
from mmie_tasks.runs.values import metrics_of


def corrected_scores(
    task_run: TaskRun,
    scores: LabelledScores,
    choice: LabelChoice,
    population: Population,
    *,
    is_difference: bool,
) -> list[CorrectedScore]:
    """The headline, then each of several strata; without an estimate if a problem is blocking.

    Args:
        task_run: Has the metric and the benchmark.
        scores: Of the judge.
        choice: Of people.
        population: What the intervals are for; the larger one has the strata in the benchmark's
            own shares.
        is_difference: Whether the scores are the differences of two runs.
    """
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
    """The judge's and people's scores of each stratum, by name."""
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
    """The judge's mean over strata with these shares, rounded as the benchmark's scale rounds; not
    without one (a difference). None if a stratum has no samples.
    """
    if not strata or len(strata) != len(shares):
        return None
    mean = float(sum(shares[stratum.name] * stratum.judge.mean() for stratum in strata))
    return mean if scale is None else scale.percent(mean * scale.full_marks / 100)


def _why_blocked(choice: LabelChoice) -> str:
    """Why no score can be corrected with these labels; empty if one can."""
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
    """The score of one stratum, or of all; without an estimate if it is blocked."""
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
