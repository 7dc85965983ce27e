"""The metrics of a task of a run, their values, and the reasons for missing scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from mmie_tasks.core.verdict import Unscored
from mmie_tasks.record.metrics import Metric, MetricValue, metric_value, samples_by_stratum
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.runs.run import TaskRun


def metrics_of(runs: Sequence[TaskRun]) -> tuple[Metric, ...]:
    """The metrics of a task, the headline first.

    A task that covers only a part of its benchmark has the metrics whose groups it contains. If the
    benchmark's headline is not among them, the first metric that counts every sample replaces it.
    """
    metrics = runs[0].benchmark.metrics
    if runs[0].task == runs[0].benchmark.name:
        return metrics
    samples = [sample for run in runs for sample in run.samples]
    groups = {
        kind: {name for sample in samples for name in sample.names(kind)}
        for kind in {metric.by for metric in metrics}
    }
    covered = [metric for metric in metrics if metric.weights.keys() <= groups[metric.by]]
    headline = metrics[0].kind
    if any(metric.kind == headline for metric in covered):
        return tuple(covered)
    first = next(
        (m for m in covered if all(m.stratum(sample) is not None for sample in samples)), None
    )
    if first is None:
        return metrics
    return (replace(first, kind=headline), *(metric for metric in covered if metric is not first))


def value_of(task_run: TaskRun, metric: Metric, kind: ScoreKind) -> MetricValue | None:
    """The value of a metric of a task, with its interval; None if no sample counts for it.

    If a small ``--limit`` left out groups of the metric, the reason begins with one that is enough.
    """
    benchmark = task_run.benchmark
    value = metric_value(
        task_run.samples, metric, kind, benchmark.scale, benchmark.strata, benchmark.stratum_sizes
    )
    limit = benchmark.two_of_each.get(task_run.task, 0)
    if value is None or value.percent is not None or not 0 < (task_run.limit or 0) < limit:
        return value
    if samples_by_stratum(task_run.samples, metric).keys() == metric.weights.keys():
        return value
    return replace(value, why_not=f"`--limit {limit}` has two of each; {value.why_not}")


def reasons_of(task_run: TaskRun, kind: ScoreKind) -> Counter[str]:
    """Each reason to the number of samples that have no score for it."""
    verdicts = (sample.verdict(kind) for sample in task_run.samples)
    return Counter(verdict.reason for verdict in verdicts if isinstance(verdict, Unscored))
