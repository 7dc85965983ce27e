"""Applies the current readers to the saved replies of a run, and lists what changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from mmie_tasks.core.verdict import Unscored, Verdict, differ
from mmie_tasks.record.metrics import Metric, MetricValue, metric_value
from mmie_tasks.record.record import BadRecord
from mmie_tasks.record.sample import SCORE_KINDS, LoggedSample, ScoreKind
from mmie_tasks.runs.run import TaskRun, record_lines
from mmie_tasks.runs.values import metrics_of


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictChange:
    """A verdict that differs with the current readers, on the benchmark's own scale."""

    id: str
    score_kind: ScoreKind
    before: Verdict
    after: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class RescoredTask:
    """A task of a run with the verdicts of the current readers.

    Samples that cannot be rescored are unchanged; `not_rescored` has the reasons by id. `changes`
    are in the order of the log.
    """

    task_run: TaskRun
    samples: tuple[LoggedSample, ...]
    changes: tuple[VerdictChange, ...]
    not_rescored: Mapping[str, str]

    @property
    def change_counts(self) -> dict[ScoreKind, int]:
        """How many official and how many robust verdicts changed."""
        counts = Counter(change.score_kind for change in self.changes)
        return {kind: counts[kind] for kind in SCORE_KINDS}


def rescored_task(task_run: TaskRun) -> RescoredTask:
    """Apply the current readers to a task's log; raises `AnswersUnusable` if it cannot be read."""
    after = task_run.by_id
    not_rescored: dict[str, str] = {}
    changes: list[VerdictChange] = []
    for record, line in record_lines(task_run):
        sample = after[record.id]
        try:
            verdicts = task_run.benchmark.regraded(record, line).verdicts
        except BadRecord as error:
            not_rescored[sample.id] = str(error)
            continue
        of_sample = [
            VerdictChange(
                id=sample.id,
                score_kind=kind,
                before=sample.verdict(kind),
                after=verdicts.verdict(kind),
            )
            for kind in SCORE_KINDS
            if _is_changed(sample.verdict(kind), verdicts.verdict(kind))
        ]  # equal verdicts stay as they were logged
        changes += of_sample
        changed: dict[str, Any] = {change.score_kind: change.after for change in of_sample}
        after[sample.id] = replace(sample, **changed)
    return RescoredTask(
        task_run=task_run,
        samples=tuple(after.values()),
        changes=tuple(changes),
        not_rescored=not_rescored,
    )


def _is_changed(before: Verdict, after: Verdict) -> bool:
    """Whether the points differ, or the reason why there are none."""
    if isinstance(before, Unscored) and isinstance(after, Unscored):
        return before.reason != after.reason
    return differ(before, after)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChange:
    """A metric before and after."""

    metric: Metric
    score_kind: ScoreKind
    before: MetricValue
    after: MetricValue


def metric_changes(rescored: RescoredTask) -> list[MetricChange]:
    """The headline metrics before and after; if a run has none of them, the first with a value and
    others of its kind.
    """
    task_run, changes = rescored.task_run, []
    # Readers give the sample's points, not the shares of components.
    metrics = [metric for metric in metrics_of([task_run]) if not metric.component]
    for metric, kind in product(metrics, SCORE_KINDS):
        before, after = (
            metric_value(samples, metric, kind, task_run.benchmark.scale)
            for samples in (task_run.samples, rescored.samples)
        )
        if before and after:
            changes.append(MetricChange(metric=metric, score_kind=kind, before=before, after=after))
    with_value = [c for c in changes if {c.before.percent, c.after.percent} != {None}]
    shown = with_value or changes
    return [c for c in shown if c.metric.kind == shown[0].metric.kind]
