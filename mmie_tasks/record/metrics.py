"""Metrics of a benchmark, and their values for a run, with interval and coverage."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmie_tasks.core.verdict import Scored, Unscored, Verdict
from mmie_tasks.core.wording import counted
from mmie_tasks.record.sample import ALL, LoggedSample, ScoreKind
from mmie_tasks.record.signature import COVERAGE_FLOOR

if TYPE_CHECKING:
    from mmie_tasks.record.intervals import Interval, StratifiedMean


def slug(title: str) -> str:
    """A title as the name of a metric or task.

    >>> slug("Image-based 3D Reasoning"), slug(" EECS ")
    ('image_based_3d_reasoning', 'eecs')
    """
    return re.sub(r"\W+", "_", title.strip()).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A benchmark's own scale of points: 0 to `full_marks`.

    Attributes:
        full_marks: The maximum: 6, 1 or 100.
        unit: The unit for headings: ``points, 0 to 6``.
        whole: Whether points are whole numbers, so that a histogram can count them.
        open_ended: Whether points outside the scale count, because the official script does not
            check them.
        percent: Converts mean points to percent, rounded as in the benchmark's official table.
    """

    full_marks: float
    unit: str
    whole: bool = False
    open_ended: bool = False
    percent: Callable[[float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A mean over samples, or a weighted mean of group means.

    Attributes:
        name: Suffix after ``official_`` and ``robust_`` in the runner's table and the results file;
            empty for a headline.
        title: The title for display: ``Situational analysis``.
        kind: Metrics of one kind are shown together: ``headline``, ``category``, ``field``, ...
        by: The kind of group whose means are averaged.
        weights: Group to weight; weights add up to 1. The metric has no value if a group has no
            samples.
        in_table: Whether the paper's table has such a column: the report shows it, with an
            interval.
        component: Component whose share of full marks is averaged; empty for the sample's points.
    """

    name: str
    title: str
    kind: str
    by: str = ALL
    weights: Mapping[str, float] = field(default_factory=lambda: {ALL: 1.0})
    in_table: bool = False
    component: str = ""

    @classmethod
    def of_group(
        cls, kind: str, name: str, title: str, *, in_table: bool = True, component: str = ""
    ) -> Metric:
        """The mean over the samples of one group."""
        return cls(
            name=name,
            title=title,
            kind=kind,
            by=kind,
            weights={name: 1},
            in_table=in_table,
            component=component,
        )

    def stratum(self, sample: LoggedSample) -> str | None:
        """The group in `weights` that contains the sample; None if it does not count."""
        for name in sample.names(self.by):
            if name in self.weights:
                return name
        return None

    def verdict(self, sample: LoggedSample, kind: ScoreKind, scale: Scale) -> Verdict:
        """The sample's verdict, or its component's share of full marks as points."""
        whole = sample.verdict(kind)
        if not self.component or isinstance(whole, Unscored):
            return whole
        share = sample.shares.get(kind, {}).get(self.component)
        if share is None:
            return Unscored("unparsed", "no mark for this component")
        return Scored(share * scale.full_marks)


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean in points, or None and the reason.

    If groups are absent, `of_present` is the mean of the others, unless it has no value either.
    """

    value: float | None
    why_not: str = ""
    of_present: float | None = None


def mean_of(verdicts: Iterable[Verdict], floor: float = COVERAGE_FLOOR) -> Mean:
    """The mean points of the scored samples, unless their share is below the floor (0 to 1).

    >>> mean_of([Scored(1.0), Scored(0.0), Unscored("no_answer")], floor=0.5).value
    0.5
    """
    verdicts = list(verdicts)
    points = [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]
    if not points:
        return Mean(None, "no sample has a score")
    if len(points) / len(verdicts) < floor:
        return Mean(None, f"only {len(points)} of {len(verdicts)} samples have a score")
    return Mean(math.fsum(points) / len(points))  # the same in any order


def weighted_mean(
    groups: Mapping[str, Sequence[Verdict]],
    weights: Mapping[str, float],
    floor: float,
    by: str = "group",
) -> Mean:
    """The weighted mean of group means, in points, or the reason there is none.

    Samples that the official script leaves out do not count for the mean or the coverage.

    Args:
        groups: Group to verdicts.
        weights: Group to weight; weights add up to 1.
        floor: Coverage below which a group has no mean, 0 to 1.
        by: The word for a group in the reason.

    >>> weighted_mean({"a": [Scored(1), Unscored("left_out")]}, {"a": 0.5, "b": 0.5}, 0.9).why_not
    '1 of 2 groups not in this run: b'
    """
    if absent := [name for name in weights if not groups.get(name)]:
        if len(weights) == 1:
            return Mean(None, "no samples in this run")
        more = ", ..." if len(absent) > 1 else ""
        why_not = f"{len(absent)} of {counted(len(weights), by)} not in this run: {absent[0]}{more}"
        present = {name: weight for name, weight in weights.items() if groups.get(name)}
        shares = {name: weight / sum(present.values()) for name, weight in present.items()}
        return Mean(None, why_not, weighted_mean(groups, shares, floor, by).value)
    total, reasons = 0.0, []
    for name, weight in weights.items():
        mean = mean_of(itertools.filterfalse(_is_left_out, groups[name]), floor)
        total += weight * (mean.value or 0.0)
        if mean.why_not:
            reasons.append(f"{name}: {mean.why_not}" if len(weights) > 1 else mean.why_not)
    more = f"; {len(reasons) - 2} more reasons" if len(reasons) > 2 else ""
    return Mean(None, "; ".join(reasons[:2]) + more) if reasons else Mean(total)


def _is_left_out(verdict: Verdict) -> bool:
    return isinstance(verdict, Unscored) and verdict.reason == "left_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricValue:
    """The value of one metric for one run.

    Attributes:
        percent: The score in percent, rounded as in the benchmark's own table; None without one.
        interval: The 95 % interval in percent; see `mmie_tasks.record.intervals`. None without a
            score, for fewer than ten samples or two in a group, and for a run whose proportions are
            not the benchmark's.
        scored: Number of samples with points.
        total: Number of samples that count, which are all but those left out.
        left_out: Number of samples that the official script leaves out.
        why_not: Why there is no score.
        of_present: If there is no score because groups are not in the run, that of the others.
    """

    percent: float | None
    interval: Interval | None
    scored: int
    total: int
    left_out: int = 0
    why_not: str = ""
    of_present: float | None = None

    @property
    def left_out_text(self) -> str:
        """``1 left out``; empty if none is."""
        return f"{self.left_out:,} left out" if self.left_out else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Why there is no score, and what there is."""
        mean = "" if self.of_present is None else f"mean of the others: {self.of_present:.2f}"
        return tuple(filter(None, (self.why_not, mean)))

    @property
    def counts_text(self) -> str:
        """``9 of 10, 1 left out``."""
        return ", ".join(filter(None, (f"{self.scored:,} of {self.total:,}", self.left_out_text)))


def samples_by_stratum(
    samples: Iterable[LoggedSample], metric: Metric
) -> dict[str, list[LoggedSample]]:
    """The samples that count for a metric, by their group."""
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

    Args:
        samples: All samples of a task of a run.
        metric: The metric.
        kind: Official or robust verdicts.
        scale: The benchmark's scale.
        strata: `Benchmark.strata`: a mean over all samples is stratified by these groups.
        stratum_sizes: `Benchmark.stratum_sizes`: a run with other proportions has no interval for
            a mean over several of these groups.
    """
    members_by_stratum = samples_by_stratum(samples, metric)
    verdicts = {
        name: [metric.verdict(sample, kind, scale) for sample in members]
        for name, members in members_by_stratum.items()
    }
    if not verdicts:
        return None
    floor = next(iter(members_by_stratum.values()))[0].signature.min_coverage
    mean = weighted_mean(verdicts, metric.weights, floor, metric.by)
    points = {
        sample.id: verdict.points
        for name, members in members_by_stratum.items()
        for sample, verdict in zip(members, verdicts[name], strict=True)
        if isinstance(verdict, Scored)
    }
    from mmie_tasks.record.intervals import Interval  # numpy and scipy

    estimate = None
    if mean.value is not None and (
        metric.by == strata or in_proportion(samples, strata, stratum_sizes or {})
    ):
        estimate = estimated(samples, points, metric, scale, strata)
    left_out = sum(_is_left_out(verdict) for group in verdicts.values() for verdict in group)
    percent = 100 / scale.full_marks
    low, high = estimate.interval(0, scale.full_marks) if estimate else (math.nan, math.nan)
    return MetricValue(
        percent=None if mean.value is None else scale.percent(mean.value),
        interval=Interval(low * percent, high * percent) if estimate else None,
        scored=len(points),
        total=sum(map(len, verdicts.values())) - left_out,
        left_out=left_out,
        why_not=mean.why_not,
        of_present=None if mean.of_present is None else scale.percent(mean.of_present),
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
        samples: All samples; those without points are left out.
        points: Sample id to points, or to the difference of two runs.
        metric: The metric.
        scale: The benchmark's scale.
        strata: See `metric_value`.
    """
    from mmie_tasks.record.intervals import stratified_mean  # numpy and scipy

    drawn = weighted_strata([s for s in samples if s.id in points], metric, strata)
    members = [[points[sample.id] for sample in of_stratum] for _, of_stratum in drawn]
    return stratified_mean(members, [weight for weight, _ in drawn], scale.full_marks)


def weighted_strata(
    samples: Iterable[LoggedSample], metric: Metric, strata: str
) -> list[tuple[float, list[LoggedSample]]]:
    """The samples of each stratum that a metric averages, in their order, and its weight.

    A mean over all samples is stratified by the groups of the kind `strata`, in the proportions of
    these samples. For `strata` see `metric_value`.
    """
    groups: defaultdict[str, defaultdict[tuple[str, ...], list[LoggedSample]]]
    groups = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        if (group := metric.stratum(sample)) is not None:
            groups[group][sample.names(strata) if group == ALL else ()].append(sample)
    sizes = {group: sum(map(len, members.values())) for group, members in groups.items()}
    return [
        (metric.weights[group] * len(drawn) / sizes[group], drawn)
        for group, by_stratum in groups.items()
        for drawn in by_stratum.values()
    ]


def in_proportion(
    samples: Collection[LoggedSample], strata: str, stratum_sizes: Mapping[str, int]
) -> bool:
    """Whether a run has the benchmark's proportions of strata, or a single stratum.

    Each stratum may differ by at most one sample. Any proportions are right if `stratum_sizes` is
    empty. For `strata` and `stratum_sizes` see `Benchmark`.
    """
    counts = Counter(name for sample in samples for name in sample.names(strata))
    if not stratum_sizes or len(counts) < 2:
        return True
    share = len(samples) / sum(stratum_sizes.values())
    return all(abs(counts[name] - size * share) <= 1 for name, size in stratum_sizes.items())
