"""Correlations of judge, raters and other scores with people's scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from mmie_tasks.core.verdict import Scored
from mmie_tasks.core.wording import counted
from mmie_tasks.quality.calibrate.correction import OtherScore, RaterAgreement
from mmie_tasks.quality.calibrate.estimate import MIN_LABELS
from mmie_tasks.quality.calibrate.labelled_scores import Ratings
from mmie_tasks.record.intervals import LEVEL, Floats, Interval
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.results.agreement.measures import Measurement, pearson
from mmie_tasks.runs.run import TaskRun

_RESAMPLES = 1000  # for the interval of a difference of correlations


def correlation(judge: Sequence[float], people: Sequence[float]) -> Measurement:
    """Pearson's correlation, with an interval by Fisher's z."""
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


def agreement_of_raters(ratings: Ratings) -> RaterAgreement:
    """How far raters agree with each other."""
    import pandas as pd

    scores = pd.DataFrame(
        {rater: pd.Series(by_id, dtype=float) for rater, by_id in ratings.items()}
    )
    others = {rater: scores.drop(columns=rater).mean(axis=1) for rater in scores}
    with np.errstate(invalid="ignore", divide="ignore"):  # a rater with constant scores
        correlations = [scores[rater].corr(others[rater]) for rater in scores]
    defined = [r for r in correlations if not math.isnan(r)]
    common = scores.dropna()
    return RaterAgreement(
        samples=int((scores.count(axis=1) > 1).sum()),
        correlation=float(sum(defined) / len(defined)) if defined else None,
        common=len(common),
        means={str(rater): float(common[rater].mean()) for rater in common} if len(common) else {},
    )


def other_scores(task_run: TaskRun, people: Mapping[str, float]) -> tuple[OtherScore, ...]:
    """The robust score, if the labelled samples have it and it differs from the official one."""
    score = _other_score(task_run, people, "robust")
    return () if score is None else (score,)


def _other_score(
    task_run: TaskRun, people: Mapping[str, float], kind: ScoreKind
) -> OtherScore | None:
    """None if no labelled sample has this score, or all of them equal the official one."""
    points: list[tuple[float, float, float]] = []  # people's, official, other
    for sample in task_run.samples:
        if sample.id in people:
            official, other = sample.official, sample.verdict(kind)
            if isinstance(official, Scored) and isinstance(other, Scored):
                points.append((people[sample.id], official.points, other.points))
    if all(of_official == of_other for _, of_official, of_other in points):
        return None
    human_points, official_points, other_points = np.array(points).T
    r_other = correlation(list(other_points), list(human_points)).value
    r_official = correlation(list(official_points), list(human_points)).value
    difference = Measurement(why_not="a correlation is not defined")
    if r_other is not None and r_official is not None:
        difference = Measurement(
            value=r_other - r_official, why_not=f"{counted(len(points), 'label')} are too few"
        )
        if len(points) >= MIN_LABELS:
            interval = _interval_of_difference(human_points, official_points, other_points)
            difference = replace(difference, interval=interval, why_not="")
    return OtherScore(
        kind=kind,
        labels=len(points),
        correlation=r_other,
        official=r_official,
        difference=difference,
    )


def _interval_of_difference(people: Floats, official: Floats, other: Floats) -> Interval:
    """The bootstrap interval of the difference; all arrays have shape ``(labels,)``."""
    size = (_RESAMPLES, len(people))
    draws = np.random.default_rng(0).integers(len(people), size=size)
    differences = np.array(
        [pearson(other[d], people[d]) - pearson(official[d], people[d]) for d in draws]
    )
    defined = differences[np.isfinite(differences)]
    ends = np.quantile(defined, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Interval(*map(float, ends))
