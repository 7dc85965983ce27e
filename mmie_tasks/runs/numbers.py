"""The numbers of a run, computed from its logged samples: mean, interval, coverage, or why not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mmie_tasks.core.bootstrap import Interval, bootstrap_means
from mmie_tasks.core.verdict import Scored, Unscored, Verdict, mean_of, tally
from mmie_tasks.runs.benchmark import LoggedSample, Metric, Scale, ScoreKind
from mmie_tasks.runs.log_files import TaskRun

RESAMPLES = 10_000
LEVEL = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """One number of one run.

    Attributes:
        percent: Of full marks, rounded as the benchmark's own table; None where there is none.
        interval: 95 %, percentile bootstrap over samples, within groups where the number is a mean
            of groups; None where there is no number, or one sample.
        scored: Samples with points.
        total: All samples that count for it.
        why_not: Why there is no number.
    """

    percent: float | None
    interval: Interval | None
    scored: int
    total: int
    why_not: str = ""


def metrics_of(runs: Sequence[TaskRun]) -> tuple[Metric, ...]:
    """The numbers of a task, the headline first.

    A task that is only a part of its benchmark has those whose groups it has; where the benchmark's
    headline is not among them, the first that every sample counts for takes its place.

    Args:
        runs: Of one task; at least one.
    """
    known = tuple(runs[0].benchmark.metrics)
    if runs[0].task == runs[0].benchmark.name:
        return known
    samples = [sample for run in runs for sample in run.samples]
    there = {
        kind: {name for sample in samples for name in sample.names(kind)}
        for kind in {number.by for number in known}
    }
    own = [number for number in known if number.weights.keys() <= there[number.by]]
    headline = known[0].kind
    if any(number.kind == headline for number in own):
        return tuple(own)
    covering = (n for n in own if all(n.stratum(sample) is not None for sample in samples))
    first = next(covering, None)
    if first is None:
        return known
    return (replace(first, kind=headline), *(number for number in own if number is not first))


def counting(samples: Iterable[LoggedSample], number: Metric) -> dict[str, list[LoggedSample]]:
    """The samples that count for a number, by stratum: see `Metric.weights`."""
    found: dict[str, list[LoggedSample]] = defaultdict(list)
    for sample in samples:
        if (stratum := number.stratum(sample)) is not None:
            found[stratum].append(sample)
    return dict(found)


def metric_value(
    samples: Iterable[LoggedSample],
    number: Metric,
    reading: ScoreKind,
    scale: Scale,
    resamples: int = RESAMPLES,
) -> MetricValue | None:
    """A number of a run; None where no sample of the run counts for it.

    A sample that the official script leaves out is no sample of the mean, and not held against
    the floor of coverage either.

    Args:
        samples: Of one benchmark.
        number: Which one.
        reading: Whose verdicts.
        scale: The benchmark's.
        resamples: Of the bootstrap; 0 for no interval.
    """
    strata = {
        name: [number.verdict(sample, reading, scale) for sample in members]
        for name, members in counting(samples, number).items()
    }
    verdicts = [verdict for members in strata.values() for verdict in members]
    if not verdicts:
        return None
    scored = tally(verdicts).scored
    mean, why_not = _mean(strata, number.weights)
    return MetricValue(
        percent=None if mean is None else scale.percent(mean),
        interval=None if mean is None else _interval(strata, number.weights, scale, resamples),
        scored=scored,
        total=len(verdicts),
        why_not=why_not,
    )


def _mean(
    strata: Mapping[str, Sequence[Verdict]], weights: Mapping[str, float]
) -> tuple[float | None, str]:
    """The weighted mean of the strata's means, on the scale of the points, or why there is none."""
    if absent := [name for name in weights if name not in strata]:
        return None, f"{len(absent)} of {len(weights)} parts not in this run: {absent[0]}, ..."
    total, reasons = 0.0, []
    for name, weight in weights.items():
        found = mean_of(tally(counted(strata[name])))
        total += weight * (found.value or 0.0)
        if found.why_not:
            reasons.append(f"{name}: {found.why_not}" if len(weights) > 1 else found.why_not)
    return (None, "; ".join(reasons)) if reasons else (total, "")


def counted(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Without those that the official script leaves out."""
    return [v for v in verdicts if not (isinstance(v, Unscored) and v.reason == "left_out")]


def _interval(
    strata: Mapping[str, Sequence[Verdict]],
    weights: Mapping[str, float],
    scale: Scale,
    resamples: int,
) -> Interval | None:
    points = {
        n: [v.points for v in members if isinstance(v, Scored)] for n, members in strata.items()
    }
    if not resamples or sum(map(len, points.values())) < 2:
        return None
    means = np.zeros(resamples)
    for seed, (name, weight) in enumerate(weights.items()):
        means += weight * bootstrap_means(points[name], resamples, seed)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(means, (tail, 1 - tail)) * (100 / scale.full_marks)
    return Interval(float(low), float(high))
