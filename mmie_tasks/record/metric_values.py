"""The value of a metric for the samples of a run: score, interval and coverage."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mmie_tasks.core.options import coverage_floor
from mmie_tasks.core.verdict import COVERAGE_FLOOR, Scored, Verdict, tally
from mmie_tasks.record.intervals import Interval, bootstrap_means, percentile_interval
from mmie_tasks.record.metrics import Metric, Scale, weighted_mean
from mmie_tasks.record.sample import LoggedSample, ScoreKind

RESAMPLES = 10_000

_FLOOR = re.compile(r"\|min_coverage:(0(?:\.\d+)?|1)(?:\||$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """The value of one metric for one run.

    Attributes:
        percent: The score in percent, rounded as in the benchmark's own table; None if there is
            none.
        interval: 95 % percentile bootstrap interval over samples, in percent; resampled within
            groups if the metric is a mean of groups. None without a score, or with one sample.
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
    samples: Iterable[LoggedSample],
    metric: Metric,
    kind: ScoreKind,
    scale: Scale,
    resamples: int = RESAMPLES,
) -> MetricValue | None:
    """The value of a metric; None if no sample counts for it.

    Samples that the official script leaves out enter neither the mean nor the coverage. The floor
    of coverage is that of the environment, else the one in the run's signature.

    Args:
        samples: Of one benchmark.
        metric: What to compute.
        kind: Official, robust or expected verdicts.
        scale: The benchmark's scale.
        resamples: Bootstrap resamples; 0 computes no interval.
    """
    members_by_stratum = samples_by_stratum(samples, metric)
    strata = {
        name: [metric.verdict(sample, kind, scale) for sample in members]
        for name, members in members_by_stratum.items()
    }
    verdicts = [verdict for members in strata.values() for verdict in members]
    if not verdicts:
        return None
    floor = floor_of(next(iter(members_by_stratum.values()))[0])
    mean = weighted_mean(strata, metric.weights, floor, metric.by)
    return MetricValue(
        percent=None if mean.value is None else scale.percent(mean.value),
        interval=None
        if mean.value is None
        else _interval(strata, metric.weights, scale, resamples),
        scored=tally(verdicts).scored,
        total=len(verdicts),
        why_not=mean.why_not,
    )


def floor_of(sample: LoggedSample) -> float:
    """The floor of coverage for a sample's run: of the environment, else of its signature.

    Raises:
        SettingWrong: That of the environment is invalid.
    """
    noted = _FLOOR.search(sample.signature)
    return coverage_floor(os.environ, float(noted[1]) if noted else COVERAGE_FLOOR)


def _interval(
    strata: Mapping[str, Sequence[Verdict]],
    weights: Mapping[str, float],
    scale: Scale,
    resamples: int,
) -> Interval | None:
    points = {
        name: [verdict.points for verdict in members if isinstance(verdict, Scored)]
        for name, members in strata.items()
    }
    if not resamples or sum(map(len, points.values())) < 2:
        return None
    means = np.zeros(resamples)
    for seed, (name, weight) in enumerate(weights.items()):
        means += weight * bootstrap_means(points[name], resamples, seed)
    low, high = percentile_interval(means)
    return Interval(low * (100 / scale.full_marks), high * (100 / scale.full_marks))
