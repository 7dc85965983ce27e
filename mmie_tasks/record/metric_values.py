"""The value of a metric for the samples of a run: score, interval and coverage."""

from __future__ import annotations

import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from mmie_tasks.core.options import coverage_floor
from mmie_tasks.core.verdict import COVERAGE_FLOOR, Scored
from mmie_tasks.record.intervals import Interval, StratifiedMean, stratified_mean
from mmie_tasks.record.metrics import Metric, Scale, weighted_mean
from mmie_tasks.record.sample import ALL, LoggedSample, ScoreKind

_LEFT_OUT = 0.001  # share of a run's samples that odd rows of the data may cost it

_FLOOR = re.compile(r"\|min_coverage:(0(?:\.\d+)?|1)(?:\||$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """The value of one metric for one run.

    Attributes:
        percent: The score in percent, rounded as in the benchmark's own table; None if there is
            none.
        interval: 95 %, in percent, for the benchmark that the samples are from; see
            `mmie_tasks.record.intervals`. None without a score, for fewer than ten samples or one
            in a group that is averaged, and for a run that is not like the benchmark.
        scored: Number of samples with points.
        total: Number of samples that count for the metric.
        why_not: Why there is no score.
    """

    percent: float | None
    interval: Interval | None
    scored: int
    total: int
    why_not: str = ""


def samples_by_stratum(
    samples: Iterable[LoggedSample], metric: Metric
) -> dict[str, list[LoggedSample]]:
    """The samples that count for a metric, by their group in `Metric.weights`."""
    strata: dict[str, list[LoggedSample]] = defaultdict(list)
    for sample in samples:
        if (stratum := metric.stratum(sample)) is not None:
            strata[stratum].append(sample)
    return dict(strata)


def metric_value(
    samples: Collection[LoggedSample],
    metric: Metric,
    kind: ScoreKind,
    scale: Scale,
    strata: str = "",
    stratum_sizes: Mapping[str, int] | None = None,
) -> MetricValue | None:
    """The value of a metric; None if no sample counts for it.

    Samples that the official script leaves out enter neither the mean nor the coverage. The floor
    of coverage is that of the environment, else the one in the run's signature.

    Args:
        samples: All of a task of a run.
        metric: What to compute.
        kind: Official, robust or expected verdicts.
        scale: The benchmark's scale.
        strata: `Benchmark.strata`: a plain mean is of samples drawn within these groups.
        stratum_sizes: `Benchmark.stratum_sizes`: a run with other proportions has no intervals of
            means over several of these groups.
    """
    members_by_stratum = samples_by_stratum(samples, metric)
    verdicts = {
        name: [metric.verdict(sample, kind, scale) for sample in members]
        for name, members in members_by_stratum.items()
    }
    if not verdicts:
        return None
    floor = floor_of(next(iter(members_by_stratum.values()))[0])
    mean = weighted_mean(verdicts, metric.weights, floor, metric.by)
    points = {
        sample.id: verdict.points
        for name, members in members_by_stratum.items()
        for sample, verdict in zip(members, verdicts[name], strict=True)
        if isinstance(verdict, Scored)
    }
    estimate = None
    if mean.value is not None and (
        metric.by == strata or in_proportion(samples, strata, stratum_sizes or {})
    ):
        estimate = estimated(samples, points, metric, scale, strata)
    percent = 100 / scale.full_marks
    low, high = estimate.interval(0, scale.full_marks) if estimate else (math.nan, math.nan)
    return MetricValue(
        percent=None if mean.value is None else scale.percent(mean.value),
        interval=Interval(low * percent, high * percent) if estimate else None,
        scored=len(points),
        total=sum(map(len, verdicts.values())),
        why_not=mean.why_not,
    )


def estimated(
    samples: Iterable[LoggedSample],
    points: Mapping[str, float],
    metric: Metric,
    scale: Scale,
    strata: str,
) -> StratifiedMean | None:
    """The mean of points as an estimate for the benchmark; None for too few samples.

    Args:
        samples: That may have points.
        points: Sample id to points, or to the difference of two runs.
        metric: Whose groups are averaged with its weights.
        scale: The benchmark's scale.
        strata: The kind of group within which samples are drawn: `Benchmark.strata`. Its groups are
            the strata of a mean over all samples.
    """
    groups: defaultdict[str, defaultdict[tuple[str, ...], list[float]]]
    groups = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        if sample.id in points and (group := metric.stratum(sample)) is not None:
            stratum = sample.names(strata) if group == ALL else ()
            groups[group][stratum].append(points[sample.id])
    sizes = {group: sum(map(len, members.values())) for group, members in groups.items()}
    members = [
        (group, drawn) for group, by_stratum in groups.items() for drawn in by_stratum.values()
    ]
    weights = [metric.weights[group] * len(drawn) / sizes[group] for group, drawn in members]
    return stratified_mean([drawn for _, drawn in members], weights, scale.full_marks)


def in_proportion(
    samples: Collection[LoggedSample], strata: str, stratum_sizes: Mapping[str, int]
) -> bool:
    """Whether a run has the benchmark's strata in their proportions, or a single one of them.

    A run differs by one sample of a stratum at most, and by the odd rows that were left out of it.

    Args:
        samples: All of a task of a run.
        strata: The kind of group: `Benchmark.strata`.
        stratum_sizes: `Benchmark.stratum_sizes`; empty where any run is like the benchmark.
    """
    counts = Counter(name for sample in samples for name in sample.names(strata))
    if not stratum_sizes or len(counts) < 2:
        return True
    share = len(samples) / sum(stratum_sizes.values())
    return all(
        abs(counts[name] - size * share) <= 1 + _LEFT_OUT * len(samples)
        for name, size in stratum_sizes.items()
    )


def floor_of(sample: LoggedSample) -> float:
    """The floor of coverage for a sample's run: of the environment, else of its signature.

    Raises:
        SettingWrong: That of the environment is invalid.
    """
    noted = _FLOOR.search(sample.signature)
    return coverage_floor(os.environ, float(noted[1]) if noted else COVERAGE_FLOOR)
