"""The samples of a run that count for its headline and have points, in strata with weights."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mmie_tasks.core.verdict import Scored
from mmie_tasks.core.wording import counted, listed
from mmie_tasks.record.metrics import Metric, metric_value
from mmie_tasks.record.sample import ALL, LoggedSample, ScoreKind
from mmie_tasks.runs.run import TaskRun
from mmie_tasks.runs.values import metrics_of


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSample:
    """A sample with points on the benchmark's own scale, and its stratum."""

    sample: LoggedSample
    stratum: str
    points: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAnswer:
    """An answer that people should score; `answer` is its `answer_digest`."""

    id: str
    answer: str
    stratum: str
    sample: LoggedSample


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSamples:
    """The samples of a run that count for its headline and have points.

    Attributes:
        by_id: The samples by id.
        without: Ids of samples without points by reason: ``left_out``, ``unparsed``, ...
        why_not: Why the headline has no value; empty if it has one.
    """

    by_id: Mapping[str, JudgedSample]
    without: Mapping[str, tuple[str, ...]]
    why_not: str = ""


def judged_samples(task_run: TaskRun, kind: ScoreKind) -> JudgedSamples:
    """The samples of a run that have points of the judge.

    The strata are the groups of the headline, if it is a mean of group means; else the groups named
    by `Benchmark.strata`; else one for all.
    """
    metric, benchmark = metrics_of([task_run])[0], task_run.benchmark
    by_id: dict[str, JudgedSample] = {}
    without: defaultdict[str, list[str]] = defaultdict(list)
    for sample in task_run.samples:
        stratum = metric.stratum(sample)
        if stratum is None:  # does not count for the headline
            continue
        if len(metric.weights) <= 1:
            strata = benchmark.strata
            stratum = next(iter(sample.names(strata)), "other") if strata else ALL
        verdict = metric.verdict(sample, kind, benchmark.scale)
        if isinstance(verdict, Scored):
            by_id[sample.id] = JudgedSample(sample=sample, stratum=stratum, points=verdict.points)
        else:
            without[verdict.reason].append(sample.id)
    value = metric_value(task_run.samples, metric, kind, benchmark.scale)
    return JudgedSamples(
        by_id=by_id,
        without={reason: tuple(ids) for reason, ids in without.items()},
        why_not=value.why_not if value else "no sample counts for it",
    )


def stratum_weights(
    metric: Metric, strata: Iterable[str], sizes: Mapping[str, int] | None = None
) -> Mapping[str, float]:
    """The weight of each stratum in a metric; weights add up to 1.

    A mean of group means has its own weights. For other headlines the strata are weighed by `sizes`
    (`Benchmark.stratum_sizes`), or by the numbers of these samples if a stratum has no size.
    """
    if len(metric.weights) > 1:
        return metric.weights
    counts: Mapping[str, int] = Counter(sorted(strata))
    if sizes and sizes.keys() >= counts.keys():
        counts = {name: sizes[name] for name in counts}
    return {name: count / sum(counts.values()) for name, count in counts.items()}


def counts_without_points(runs: Iterable[JudgedSamples]) -> dict[str, int]:
    """Numbers of samples without points in all runs, by reason."""
    counts: Counter[str] = Counter()
    for run in runs:
        counts.update({reason: len(ids) for reason, ids in run.without.items()})
    return dict(counts)


def without_points_text(counts: Mapping[str, int]) -> list[str]:
    """One sentence on samples without points; an empty list if there are none."""
    if not counts:
        return []
    number = counted(sum(counts.values()), "sample")
    return [f"{number} without points, in neither a plan nor a corrected score: {listed(counts)}."]
