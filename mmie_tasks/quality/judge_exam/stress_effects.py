"""How far changes of answers move a judge's points, and what this says about the judge.

Intervals and p-values are those of `mmie_tasks.record.intervals`. Each finding rests on a p-value
that is corrected for the number of changes (Holm): a fair judge that errs at random has a false
finding in 5 % of tests at most.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal, TypeAlias

from mmie_tasks.core.verdict import Scored, Unscored, Verdict
from mmie_tasks.quality.judge_exam.stress_changes import AGAIN, Change
from mmie_tasks.record.intervals import LEVEL, MIN_SAMPLES, Interval, holm, stratified_mean

NOT_APPLICABLE = "does not apply"
"""In place of a verdict, of a change that does not apply to an answer."""

_DRIFT = 0.01  # of full marks: what a harmless change must move a judge by, on average, to be told
_SAME = 1e-9  # points closer than this are equal

StressFinding: TypeAlias = Literal[
    "notices", "does not notice", "rewards it", "unmoved", "moved", "too few", "for comparison"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """How far a change moves a judge's points.

    Attributes:
        name, title, is_harmless: As of `Change`.
        n: Samples with points for the unchanged and the changed answer.
        mean_change, mean_size: Mean of points after less points before, and of the same without
            signs; None without samples. `interval` is of the first, 95 %; None below `MIN_SAMPLES`.
        at_zero, could_drop: Samples that had no points to lose, and those that had some.
        not_dropped: Percent of `could_drop` that have as many points as before, or more, with its
            exact 95 % interval (Clopper and Pearson); None without any, and below `MIN_SAMPLES`.
        p: Of the finding, corrected for the number of changes; None where there is no test.
        finding: What this says about the judge.
        not_applicable: Samples to which the change does not apply, or whose request it does not
            change.
        without_points: Reason to the number of samples that are in none of these numbers for it.
    """

    name: str
    title: str
    is_harmless: bool
    n: int
    mean_change: float | None
    interval: Interval | None
    mean_size: float | None
    at_zero: int
    could_drop: int
    not_dropped: float | None
    not_dropped_interval: Interval | None
    p: float | None
    finding: StressFinding
    not_applicable: int
    without_points: Mapping[str, int]


ChangeOutcomes: TypeAlias = Sequence[tuple[float, Verdict | str]]
"""Of each sample with points for its unchanged answer: these points; and the verdict on the changed
answer, or why there is none.
"""


def effects(
    outcomes_by_change: Mapping[Change, ChangeOutcomes], full_marks: float
) -> tuple[Effect, ...]:
    """The effects of changes on a judge's points.

    Args:
        outcomes_by_change: The changes, `AGAIN` among them, each with the same samples.
        full_marks: Of the benchmark's scale.
    """
    noise = [
        abs(after.points - before) if isinstance(after, Scored) else None
        for before, after in outcomes_by_change[AGAIN]
    ]
    rows = {
        change: _effect(change, outcomes, full_marks)
        for change, outcomes in outcomes_by_change.items()
    }
    p_values = {
        change: _p_value(change, outcomes_by_change[change], noise, full_marks)
        for change, row in rows.items()
        if row.interval and change is not AGAIN
    }
    for change, p in zip(p_values, holm(list(p_values.values())), strict=True):
        rows[change] = replace(rows[change], p=p, finding=_finding(rows[change], p))
    return tuple(rows.values())


def _effect(change: Change, outcomes: ChangeOutcomes, full_marks: float) -> Effect:
    """The effect of a change, without a test."""
    scored = [(before, after.points) for before, after in outcomes if isinstance(after, Scored)]
    differences = [after - before for before, after in scored]
    drops = [after - before < -_SAME for before, after in scored if before > 0]
    not_dropped = drops.count(False)
    exact = _exact_interval(not_dropped, len(drops)) if len(drops) >= MIN_SAMPLES else None
    estimate = stratified_mean([differences], [1], full_marks)
    return Effect(
        name=change.name,
        title=change.title,
        is_harmless=change.is_harmless,
        n=len(scored),
        mean_change=fmean(differences) if differences else None,
        interval=estimate.interval(-full_marks, full_marks) if estimate else None,
        mean_size=fmean(map(abs, differences)) if differences else None,
        at_zero=len(scored) - len(drops),
        could_drop=len(drops),
        not_dropped=100 * not_dropped / len(drops) if drops else None,
        not_dropped_interval=exact,
        p=None,
        finding="for comparison" if change.name == AGAIN.name else "too few",
        not_applicable=sum(after == NOT_APPLICABLE for _, after in outcomes),
        without_points=reasons_without_points(after for _, after in outcomes),
    )


def _exact_interval(count: int, total: int) -> Interval:
    """The exact 95 % interval of a share, in percent (Clopper and Pearson)."""
    from scipy.stats import binomtest

    interval = binomtest(count, total).proportion_ci(LEVEL, method="exact")
    return Interval(100 * float(interval.low), 100 * float(interval.high))


def _p_value(
    change: Change, outcomes: ChangeOutcomes, noise: Sequence[float | None], full_marks: float
) -> float:
    """Two-sided p of a mean change of 0.

    Of a harmless change, also of changes as large as the `noise` of the same samples: twice the
    smaller p of the two, where 1 stands for a mean of up to `_DRIFT`.
    """
    scored = [
        (after.points - before, size)
        for (before, after), size in zip(outcomes, noise, strict=True)
        if isinstance(after, Scored)
    ]
    shift = stratified_mean([[difference for difference, _ in scored]], [1], full_marks)
    if not change.is_harmless:
        return shift.p_value if shift else 1.0
    larger = [abs(difference) - size for difference, size in scored if size is not None]
    excess = stratified_mean([larger], [1], full_marks)
    p_values = [
        estimate.p_value
        for estimate, lowest in ((shift, -math.inf), (excess, 0))
        if estimate and estimate.value > lowest and abs(estimate.value) > _DRIFT * full_marks
    ]
    return min(1.0, 2 * min(p_values, default=1.0))


def _finding(row: Effect, p: float) -> StressFinding:
    """What a corrected p-value says about a judge."""
    is_found = p <= 1 - LEVEL
    if row.is_harmless:
        return "moved" if is_found else "unmoved"
    if is_found and row.mean_change:
        return "rewards it" if row.mean_change > 0 else "notices"
    return "does not notice" if row.could_drop >= MIN_SAMPLES else "too few"


def reasons_without_points(outcomes: Iterable[Verdict | str]) -> Mapping[str, int]:
    """Why samples have no points, to their number; without those to which a change does not
    apply.
    """
    reasons = (outcome.reason if isinstance(outcome, Unscored) else outcome for outcome in outcomes)
    counts = Counter(reason for reason in reasons if isinstance(reason, str))
    counts.pop(NOT_APPLICABLE, None)
    return dict(counts)
