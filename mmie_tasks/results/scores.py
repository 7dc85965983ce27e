"""The scores of a run: the metrics of its tasks, computed from its records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.core.tables import percent_cell
from mmie_tasks.core.verdict import Scored, ScoreKind, Unscored, Verdict
from mmie_tasks.record.intervals import Interval, StratifiedMean, stratified_mean
from mmie_tasks.record.metrics import Metric, is_left_out, weighted_mean
from mmie_tasks.record.record import ALL, Record
from mmie_tasks.record.signature import COVERAGE_FLOOR

INTERVAL_NOTE = "The intervals hold the sampling error only, not the judge's error."
"""What is said of the intervals of judged scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A number of a run: one metric by one kind of score.

    Attributes:
        task: The task's name in lmms-eval.
        metric: The score's name in the results file: ``official_SA``.
        title: The metric's title for display.
        group: `Metric.kind`: ``headline``, ``category``, ...
        kind: Official or robust.
        percent: In percent, rounded as in the benchmark's own table; None without a score.
        interval: The 95 % interval in percent; see `mmie_tasks.record.intervals`. None without a
            score, for fewer than ten samples or two in a group, and for a run whose proportions are
            not the benchmark's.
        scored: Number of samples with points.
        total: Number of samples that count, which are all but those left out.
        left_out: Number of samples that the official script leaves out.
        why_not: Why there is no score.
    """

    task: str
    metric: str
    title: str
    group: str
    kind: ScoreKind
    percent: float | None
    interval: Interval | None
    scored: int
    total: int
    left_out: int
    why_not: str

    @property
    def text(self) -> str:
        """``48.10 [40.00, 56.25]``."""
        return percent_cell(self.percent, self.interval)

    @property
    def left_out_text(self) -> str:
        """``1 left out``; empty if none is."""
        return f"{self.left_out:,} left out" if self.left_out else ""

    @property
    def counts(self) -> str:
        """``9 of 10, 1 left out``."""
        return ", ".join(filter(None, (f"{self.scored:,} of {self.total:,}", self.left_out_text)))


def metrics_of(benchmark: Benchmark, task: str, records: Collection[Record]) -> tuple[Metric, ...]:
    """The metrics of a task, the headline first; `records` are those of one or several runs.

    A task that covers only a part of its benchmark has the metrics whose groups it contains. If the
    benchmark's headline is not among them, the first metric that counts every sample replaces it.
    """
    metrics = benchmark.metrics
    if task == benchmark.name:
        return metrics
    groups = {
        kind: {name for record in records for name in record.names(kind)}
        for kind in {metric.by for metric in metrics}
    }
    covered = [metric for metric in metrics if metric.weights.keys() <= groups[metric.by]]
    headline = metrics[0].kind
    if any(metric.kind == headline for metric in covered):
        return tuple(covered)
    first = next((m for m in covered if all(m.group_of(record) for record in records)), None)
    if first is None:
        return metrics
    return (replace(first, kind=headline), *(metric for metric in covered if metric is not first))


def score_of(
    benchmark: Benchmark,
    task: str,
    records: Collection[Record],
    metric: Metric,
    kind: ScoreKind,
    *,
    floor: float = COVERAGE_FLOOR,
    limit: float | None = None,
) -> Score | None:
    """The value of a metric for the records of a task; None if no sample counts for it.

    `floor` is the share of scored samples below which a group has no mean, 0 to 1. If a small
    ``--limit`` left out groups of the metric, the reason begins with one that is enough.
    """
    scale = benchmark.scale
    points: dict[str, float] = {}
    verdicts: defaultdict[str, list[Verdict]] = defaultdict(list)
    for record in records:
        if (group := metric.group_of(record)) is not None:
            verdict = metric.verdict(record, kind, scale)
            verdicts[group].append(verdict)
            if isinstance(verdict, Scored):
                points[record.id] = verdict.points
    if not verdicts:
        return None
    mean = weighted_mean(verdicts, metric.weights, floor, metric.by)
    estimate = None
    if mean.value is not None and (
        metric.by == benchmark.strata or in_proportion(records, benchmark)
    ):
        estimate = estimated(records, points, metric, benchmark)
    percent = 100 / scale.full_marks
    why_not, enough = mean.why_not, benchmark.two_of_each.get(task, 0)
    if why_not and 0 < (limit or 0) < enough and verdicts.keys() != metric.weights.keys():
        why_not = f"`--limit {enough}` has two of each; {why_not}"
    total = sum(map(len, verdicts.values()))
    left_out = sum(is_left_out(verdict) for group in verdicts.values() for verdict in group)
    return Score(
        task=task,
        metric=f"{kind}_{metric.name}".removesuffix("_"),
        title=metric.title,
        group=metric.kind,
        kind=kind,
        percent=None if mean.value is None else scale.percent(mean.value),
        interval=estimate.interval(0, scale.full_marks).times(percent) if estimate else None,
        scored=len(points),
        total=total - left_out,
        left_out=left_out,
        why_not=why_not,
    )


def estimated(
    records: Iterable[Record], points: Mapping[str, float], metric: Metric, benchmark: Benchmark
) -> StratifiedMean | None:
    """The weighted mean of points, or of differences, as an estimate for the benchmark.

    `points` has those of each sample that counts, by id. A mean over all samples is stratified by
    `Benchmark.strata`. None for too few samples.
    """
    strata = weighted_strata([r for r in records if r.id in points], metric, benchmark.strata)
    members = [[points[record.id] for record in of_stratum] for _, of_stratum in strata]
    return stratified_mean(members, [weight for weight, _ in strata], benchmark.scale.full_marks)


def weighted_strata(
    records: Iterable[Record], metric: Metric, strata: str
) -> list[tuple[float, list[Record]]]:
    """The weight and the samples of each stratum that a metric averages.

    A mean over all samples is stratified by the groups of the kind `strata`, in the proportions of
    these samples.
    """
    groups: defaultdict[str, defaultdict[tuple[str, ...], list[Record]]]
    groups = defaultdict(lambda: defaultdict(list))
    for record in records:
        if (group := metric.group_of(record)) is not None:
            groups[group][record.names(strata) if group == ALL else ()].append(record)
    sizes = {group: sum(map(len, members.values())) for group, members in groups.items()}
    return [
        (metric.weights[group] * len(of_stratum) / sizes[group], of_stratum)
        for group, members in groups.items()
        for of_stratum in members.values()
    ]


def in_proportion(records: Collection[Record], benchmark: Benchmark) -> bool:
    """Whether samples have the benchmark's proportions of strata, or are of a single stratum.

    Each stratum may differ by at most one sample.
    """
    sizes = benchmark.stratum_sizes
    counts = Counter(name for record in records for name in record.names(benchmark.strata))
    if not sizes or len(counts) < 2:
        return True
    share = len(records) / sum(sizes.values())
    return all(abs(counts[name] - size * share) <= 1 for name, size in sizes.items())


def reasons_of(records: Sequence[Record], kind: ScoreKind) -> Counter[str]:
    """Each reason to the number of samples that have no score for it."""
    verdicts = (record.verdict(kind) for record in records)
    return Counter(verdict.reason for verdict in verdicts if isinstance(verdict, Unscored))
