"""Paired differences of two runs, and whether they are chance.

The samples that both runs have points for are taken as drawn from the benchmark's, as for every
interval of the package: one Student's t gives the interval of a difference and its p-value.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.core.verdict import Scored, Unscored, Verdict
from mmie_tasks.core.wording import plural
from mmie_tasks.record.intervals import MIN_SAMPLES, Interval, StratifiedMean, holm
from mmie_tasks.record.metrics import Metric, Scale, weighted_mean
from mmie_tasks.record.sample import LoggedSample, ScoreKind
from mmie_tasks.record.signature import COVERAGE_FLOOR
from mmie_tasks.results.comparability import SignatureDifference, require_comparable
from mmie_tasks.results.marks import paper_marks
from mmie_tasks.results.run import TaskRun
from mmie_tasks.results.scores import estimated, in_proportion, metrics_of

IDENTICAL = "identical"
"""Replaces the interval if both runs have the same points in every pair."""

TOO_FEW = (f"fewer than {MIN_SAMPLES} pairs", "a group of one pair")
"""Reasons why differences that are not identical have no interval."""

SIGNIFICANT = 0.05
"""Differences with a lower p-value, corrected for all metrics of a kind, are not chance."""

_EQUAL = 1e-9  # points this close are equal, as in `verdict.differ`
_LEVEL = 0.005  # percentage points: prints as 0.00
_ABSENT = Unscored("no_answer", "not in this run")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparison:
    """One metric of two runs, over the samples that both have points for.

    `a` and `b` are in percent of full marks, rounded as in the benchmark's own table; `difference`
    is B - A in percentage points, not rounded; if they are None, `why_not` says why. `p` is
    two-sided, for the hypothesis that the benchmark's mean difference is 0. `interval`, in
    percentage points, is adjusted for the metrics of this kind like `p_corrected`: it excludes 0
    exactly if `p_corrected` is below 0.05. `wins` are pairs with more points in B.
    """

    metric: Metric
    a: float | None = None
    b: float | None = None
    difference: float | None = None
    interval: Interval | None = None
    why_no_interval: str = ""
    p: float | None = None
    p_corrected: float | None = None
    wins: int = 0
    ties: int = 0
    losses: int = 0
    pairs: int
    why_not: str = ""

    @property
    def is_level(self) -> bool:
        """Whether the difference is printed as 0."""
        return self.difference is not None and abs(self.difference) < _LEVEL

    @property
    def may_be_chance(self) -> bool:
        """Whether the difference is not 0 and not significant, by its corrected p-value."""
        p = self.p_corrected
        return p is not None and p >= SIGNIFICANT and not self.is_level


@dataclass(frozen=True, slots=True, kw_only=True)
class _DifferingSample:
    """A sample on which the runs differ; points on the benchmark's own scale."""

    id: str
    a: float
    b: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One task of two runs; differences are B minus A.

    Attributes:
        marks: What makes the scores of A, and of B, incomparable with the published ones.
        ignored: Differences of the signatures that the user allows.
        metrics: The headline first, then kind by kind.
        differing: The samples on which the runs differ most, the largest difference first.
        left_over: The number of samples that are not compared, by reason.
        pairs: The number of samples that both have points for.
        floor: Minimum coverage for a metric to have a value, 0 to 1.
    """

    a: TaskRun
    b: TaskRun
    marks: Mapping[str, tuple[str, ...]]
    ignored: tuple[SignatureDifference, ...]
    metrics: tuple[MetricComparison, ...]
    differing: tuple[_DifferingSample, ...]
    left_over: Mapping[str, int]
    pairs: int
    floor: float
    score_kind: ScoreKind


def compare(
    a: TaskRun,
    b: TaskRun,
    score_kind: ScoreKind = "official",
    *,
    top: int = 0,
    labels: tuple[str, str] = ("A", "B"),
    ignored_keys: Collection[str] = (),
) -> Comparison:
    """Compare one task of two runs that were scored alike: differences are `b` minus `a`.

    Lists up to `top` differing samples. `labels` name the runs in reasons; the signatures may
    differ in `ignored_keys`.

    Raises:
        NotComparable: The runs were not scored alike.
        SettingWrong: See `require_comparable`.
    """
    ignored = require_comparable(a, b, ignored_keys)
    runs = dict(zip(labels, (a.by_id, b.by_id), strict=True))
    samples = dict(sorted({**b.by_id, **a.by_id}.items()))
    floors = (sample.signature.min_coverage for sample in samples.values())
    floor = max(floors, default=COVERAGE_FLOOR)
    metrics = [
        _compare_metric(metric, a.benchmark, tuple(samples.values()), runs, floor, score_kind)
        for metric in metrics_of(a.benchmark, a.task, [*a.records, *b.records])
    ]
    left_over = Counter[str]()
    scored = []
    for id_ in samples:
        of_both = [
            of_run[id_].verdict(score_kind) if id_ in of_run else None for of_run in runs.values()
        ]
        match of_both:
            case [Scored(points=in_a), Scored(points=in_b)]:
                scored.append(_DifferingSample(id=id_, a=in_a, b=in_b))
            case _:
                left_over[_why_left_over(*of_both)] += 1
    differing = [sample for sample in scored if abs(sample.b - sample.a) > _EQUAL]
    return Comparison(
        a=a,
        b=b,
        marks={label: paper_marks(run_) for label, run_ in zip(labels, (a, b), strict=True)},
        ignored=ignored,
        metrics=tuple(_adjusted([m for m in metrics if m is not None], a.benchmark.scale)),
        differing=tuple(sorted(differing, key=lambda s: -abs(s.b - s.a))[:top]),
        left_over=left_over,
        pairs=len(scored),
        floor=floor,
        score_kind=score_kind,
    )


def _why_left_over(in_a: Verdict | None, in_b: Verdict | None) -> str:
    """Why a sample is in no pair."""
    if in_a is None or in_b is None:
        return "only in B" if in_a is None else "only in A"
    unscored = {label: v for label, v in (("A", in_a), ("B", in_b)) if isinstance(v, Unscored)}
    if any(verdict.reason == "left_out" for verdict in unscored.values()):
        return "left out"
    return "unscored in both" if len(unscored) == 2 else f"unscored in {min(unscored)} only"


def _compare_metric(
    metric: Metric,
    benchmark: Benchmark,
    samples: Sequence[LoggedSample],
    runs: Mapping[str, Mapping[str, LoggedSample]],
    floor: float,
    score_kind: ScoreKind,
) -> tuple[MetricComparison, StratifiedMean | None] | None:
    """A metric of both runs, and its difference in points; None if no sample counts for it.

    It has no value unless each run has points for the share `floor` of the samples of either run: a
    smaller share might be a biased choice.
    """
    groups: defaultdict[str, list[LoggedSample]] = defaultdict(list)
    for sample in samples:
        if (name := metric.group_of(sample)) is not None:
            groups[name].append(sample)
    if not groups:
        return None
    verdicts: list[dict[str, list[Verdict]]] = []
    reasons = []
    for label, of_run in runs.items():
        by_group = {
            group: [
                metric.verdict(of_run[s.id], score_kind, benchmark.scale)
                if s.id in of_run
                else _ABSENT
                for s in members
            ]
            for group, members in groups.items()
        }
        verdicts.append(by_group)
        why_not = weighted_mean(by_group, metric.weights, floor, metric.by).why_not
        reasons += [f"{label}: {why_not}"] if why_not else []
    pairs = {
        group: {
            sample.id: (in_a, in_b)
            for sample, in_a, in_b in zip(members, *(v[group] for v in verdicts), strict=True)
            if isinstance(in_a, Scored) and isinstance(in_b, Scored)
        }
        for group, members in groups.items()
    }
    number = sum(map(len, pairs.values()))
    reasons += [f"{g}: no sample has a score in both runs" for g in pairs if not pairs[g]][:1]
    if reasons:
        why_not = "; ".join(reasons[:2])
        return MetricComparison(metric=metric, pairs=number, why_not=why_not), None
    a, b = (
        weighted_mean(
            {
                group: [pair[run_] for pair in of_group.values()]
                for group, of_group in pairs.items()
            },
            metric.weights,
            floor=0,
        ).value
        or 0.0
        for run_ in (0, 1)
    )
    differences = {
        id_: 0.0 if abs(in_b.points - in_a.points) <= _EQUAL else in_b.points - in_a.points
        for of_group in pairs.values()
        for id_, (in_a, in_b) in of_group.items()
    }
    estimate = estimated(samples, differences, metric, benchmark)
    comparison = MetricComparison(
        metric=metric,
        pairs=number,
        a=benchmark.scale.percent(a),
        b=benchmark.scale.percent(b),
        difference=(b - a) * 100 / benchmark.scale.full_marks,
        why_no_interval=_why_no_interval(metric, benchmark, samples, differences, estimate),
        p=estimate.p_value if estimate and any(differences.values()) else None,
        wins=sum(d > 0 for d in differences.values()),
        ties=sum(d == 0 for d in differences.values()),
        losses=sum(d < 0 for d in differences.values()),
    )
    return comparison, estimate


def _why_no_interval(
    metric: Metric,
    benchmark: Benchmark,
    samples: Sequence[LoggedSample],
    differences: Mapping[str, float],
    estimate: StratifiedMean | None,
) -> str:
    if not any(differences.values()):
        return IDENTICAL
    if estimate is None:
        return TOO_FEW[len(differences) >= MIN_SAMPLES]
    if metric.by == benchmark.strata or in_proportion(samples, benchmark):
        return ""
    return f"{plural(benchmark.strata)} not in {benchmark.title}'s proportions"


def _adjusted(
    comparisons: Sequence[tuple[MetricComparison, StratifiedMean | None]], scale: Scale
) -> Iterator[MetricComparison]:
    """Add p-values and intervals for testing all metrics of a kind; kinds in their first order."""
    percent = 100 / scale.full_marks
    for kind in dict.fromkeys(comparison.metric.kind for comparison, _ in comparisons):
        family = [pair for pair in comparisons if pair[0].metric.kind == kind]
        p_values = [comparison.p for comparison, _ in family if comparison.p is not None]
        adjusted = iter(holm(p_values))
        for comparison, estimate in family:
            if comparison.p is None or estimate is None:
                yield comparison
                continue
            p_corrected = next(adjusted)
            share = comparison.p / p_corrected if p_corrected else 1 / len(p_values)
            level = 1 - SIGNIFICANT * share
            low, high = estimate.interval(-scale.full_marks, scale.full_marks, level)
            interval = Interval(low * percent, high * percent)
            yield replace(
                comparison,
                p_corrected=p_corrected,
                interval=None if comparison.why_no_interval else interval,
            )
