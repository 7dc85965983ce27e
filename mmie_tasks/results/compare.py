"""The command ``mmie-tasks compare``: paired differences of two runs, and whether they are chance.

The samples that both runs have points for are a draw of the benchmark's, as for every interval of
the package: one Student's t gives the interval of a difference and its p-value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.core.tables import (
    NO_VALUE,
    counted,
    percent_cell,
    plural,
    signed_cell,
    table,
    wrapped,
)
from mmie_tasks.core.verdict import COVERAGE_FLOOR, Scored, Unscored, Verdict
from mmie_tasks.record.intervals import MIN_SAMPLES, Interval, StratifiedMean, holm
from mmie_tasks.record.metric_values import estimated, floor_of, in_proportion, samples_by_stratum
from mmie_tasks.record.metrics import Metric, Scale, weighted_mean
from mmie_tasks.record.sample import LoggedSample, ScoreKind
from mmie_tasks.results.commands import (
    common_tasks,
    listed_names,
    open_run,
    require_kind,
    require_range,
    result_parser,
)
from mmie_tasks.results.render import json_text
from mmie_tasks.results.signatures import (
    SignatureDifference,
    difference_table,
    require_comparable,
    scored_signatures,
)
from mmie_tasks.runs.run import Run, TaskRun
from mmie_tasks.runs.summary import marks_of, metrics_of

IDENTICAL = "identical"
"""In place of an interval: both runs have the same points in every pair."""

_TOO_FEW = (f"fewer than {MIN_SAMPLES} pairs", "a group of one pair")
_NO_INTERVAL = "no interval"  # the reason is below the table
_EQUAL = 1e-9  # points this close are equal, as in `verdict.differ`
_LEVEL = 0.005  # percentage points: prints as 0.00
_SIGNIFICANT = 0.05
_ABSENT = Unscored("no_answer", "not in this run")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparison:
    """One metric of two runs, over the samples that both have points for.

    Attributes:
        metric: The compared metric.
        a: Percent of full marks, rounded as the benchmark's own table; None where there is none.
        b: The same of B.
        difference: B - A in percentage points, not rounded.
        interval: In percentage points. It is adjusted for the number of metrics as the p-value is:
            it excludes 0 exactly where `p_corrected` is below 0.05.
        why_no_interval: Why there is a difference without an interval.
        p: Two-sided, of the hypothesis that the benchmark's mean difference is 0.
        p_corrected: Among the metrics of its kind.
        wins: Pairs with more points in B.
        ties: Pairs with the same points.
        losses: Pairs with fewer points in B.
        pairs: All of them.
        why_not: Why there is no value.
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
        """Whether there is a difference, and its corrected p-value leaves chance as an
        explanation.
        """
        return (
            self.p_corrected is not None and self.p_corrected >= _SIGNIFICANT and not self.is_level
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _DifferingSample:
    """A sample on which the runs differ; points on the benchmark's own scale."""

    id: str
    a: float
    b: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One task of two runs.

    Attributes:
        a: The run that differences are counted from.
        b: The other.
        marks: What makes the scores of A, and of B, incomparable with the published ones.
        ignored: Differences of the signatures that the user allows.
        metrics: The headline first, then kind by kind.
        differing: The samples on which they differ most, those first.
        left_over: Reason why samples are not compared, to their number.
        pairs: Samples that both have points for.
        floor: Of coverage, below which a metric has no value, 0 to 1.
        score_kind: Official, robust or expected.
    """

    a: TaskRun
    b: TaskRun
    marks: Mapping[str, tuple[str, ...]]
    ignored: tuple[SignatureDifference, ...]
    metrics: tuple[MetricComparison, ...]
    differing: tuple[_DifferingSample, ...]
    left_over: dict[str, int]
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
    ignored: tuple[SignatureDifference, ...] = (),
) -> Comparison:
    """Compare one task of two runs: differences are `b` minus `a`.

    Args:
        a: The first run.
        b: The other.
        score_kind: Official, robust or expected.
        top: How many differing samples to list.
        labels: Names of the runs in reasons.
        ignored: Differences of the signatures that the user allows.

    Raises:
        SettingWrong: A run has no scores of this kind.
    """
    for run_, label in zip((a, b), labels, strict=True):
        require_kind(run_, label, score_kind)
    of_a, of_b = a.by_id, b.by_id
    samples = dict(sorted({**of_b, **of_a}.items()))
    pairs = _Pairs(
        benchmark=a.benchmark,
        by_id=(of_a, of_b),
        labels=labels,
        samples=tuple(samples.values()),
        floor=max(map(floor_of, samples.values()), default=COVERAGE_FLOOR),
        score_kind=score_kind,
    )
    metrics = [m for m in map(pairs.compare, metrics_of([a, b])) if m is not None]
    left_over: dict[str, int] = {}
    points: dict[str, tuple[float, float]] = {}
    for id_ in samples:
        verdicts = [run_[id_].verdict(score_kind) if id_ in run_ else None for run_ in (of_a, of_b)]
        match verdicts:
            case [Scored(points=in_a), Scored(points=in_b)]:
                points[id_] = in_a, in_b
            case _:
                reason = _why_left_over(*verdicts)
                left_over[reason] = left_over.get(reason, 0) + 1
    differing = [
        _DifferingSample(id=id_, a=in_a, b=in_b)
        for id_, (in_a, in_b) in points.items()
        if abs(in_b - in_a) > _EQUAL
    ]
    return Comparison(
        a=a,
        b=b,
        marks={label: marks_of(run_) for label, run_ in zip(labels, (a, b), strict=True)},
        ignored=ignored,
        metrics=tuple(_adjusted(metrics, a.benchmark.scale)),
        differing=tuple(sorted(differing, key=lambda s: -abs(s.b - s.a))[:top]),
        left_over=left_over,
        pairs=len(points),
        floor=pairs.floor,
        score_kind=score_kind,
    )


def _why_left_over(in_a: Verdict | None, in_b: Verdict | None) -> str:
    """Why a sample is in no pair."""
    match in_a, in_b:
        case _, None:
            return "only in A"
        case None, _:
            return "only in B"
        case (Unscored(reason="left_out"), _) | (_, Unscored(reason="left_out")):
            return "left out by the official script"
        case Unscored(), Unscored():
            return "unscored in both"
    return "unscored in A only" if isinstance(in_a, Unscored) else "unscored in B only"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairs:
    """Two runs of a task, aligned by sample.

    Attributes:
        benchmark: Of the task.
        by_id: The samples of A and of B.
        labels: Names of the runs in reasons.
        samples: Every sample that a run has, in the order of the ids.
        floor: Of coverage, below which a metric has no value, 0 to 1.
        score_kind: Official, robust or expected.
    """

    benchmark: Benchmark
    by_id: tuple[Mapping[str, LoggedSample], Mapping[str, LoggedSample]]
    labels: tuple[str, str]
    samples: tuple[LoggedSample, ...]
    floor: float
    score_kind: ScoreKind

    def compare(self, metric: Metric) -> tuple[MetricComparison, StratifiedMean | None] | None:
        """A metric of both runs, and its difference as an estimate in points; None where no sample
        counts for it.

        It has no value where a run has points for a smaller share than `floor` of the samples that
        any run has: the scored samples might then be a biased choice.
        """
        groups = samples_by_stratum(self.samples, metric)
        if not groups:
            return None
        scale = self.benchmark.scale
        verdicts = []
        reasons = []
        for label, by_id in zip(self.labels, self.by_id, strict=True):
            of_run = {
                group: [
                    metric.verdict(by_id[s.id], self.score_kind, scale)
                    if s.id in by_id
                    else _ABSENT
                    for s in members
                ]
                for group, members in groups.items()
            }
            verdicts.append(of_run)
            why_not = weighted_mean(of_run, metric.weights, self.floor, metric.by).why_not
            reasons += [f"{label}: {why_not}"] if why_not else []
        points = {
            group: {
                sample.id: (in_a.points, in_b.points)
                for sample, in_a, in_b in zip(
                    members, verdicts[0][group], verdicts[1][group], strict=True
                )
                if isinstance(in_a, Scored) and isinstance(in_b, Scored)
            }
            for group, members in groups.items()
        }
        number = sum(map(len, points.values()))
        if empty := [group for group, of_group in points.items() if not of_group]:
            reasons.append(f"{empty[0]}: no sample has a score in both runs")
        if reasons:
            why_not = "; ".join(reasons[:2])
            return MetricComparison(metric=metric, pairs=number, why_not=why_not), None
        means = [
            sum(
                weight
                * math.fsum(pair[index] for pair in points[group].values())
                / len(points[group])
                for group, weight in metric.weights.items()
            )
            for index in (0, 1)
        ]
        differences = {
            id_: 0.0 if abs(in_b - in_a) <= _EQUAL else in_b - in_a
            for of_group in points.values()
            for id_, (in_a, in_b) in of_group.items()
        }
        strata = self.benchmark.strata
        estimate = estimated(self.samples, differences, metric, scale, strata)
        comparison = MetricComparison(
            metric=metric,
            pairs=number,
            a=scale.percent(means[0]),
            b=scale.percent(means[1]),
            difference=(means[1] - means[0]) * 100 / scale.full_marks,
            why_no_interval=self._why_no_interval(metric, differences, estimate),
            p=estimate.p_value if estimate and any(differences.values()) else None,
            wins=sum(d > 0 for d in differences.values()),
            ties=sum(d == 0 for d in differences.values()),
            losses=sum(d < 0 for d in differences.values()),
        )
        return comparison, estimate

    def _why_no_interval(
        self, metric: Metric, differences: Mapping[str, float], estimate: StratifiedMean | None
    ) -> str:
        benchmark = self.benchmark
        if not any(differences.values()):
            return IDENTICAL
        if estimate is None:
            return _TOO_FEW[len(differences) >= MIN_SAMPLES]
        if metric.by == benchmark.strata or in_proportion(
            self.samples, benchmark.strata, benchmark.stratum_sizes
        ):
            return ""
        return f"{plural(benchmark.strata)} not in {benchmark.title}'s proportions"


def _adjusted(
    comparisons: Sequence[tuple[MetricComparison, StratifiedMean | None]], scale: Scale
) -> list[MetricComparison]:
    """With p-values and intervals for testing all metrics of a kind; the kinds in the order in
    which they come first.
    """
    kinds = list(dict.fromkeys(c.metric.kind for c, _ in comparisons))
    ordered = sorted(comparisons, key=lambda pair: kinds.index(pair[0].metric.kind))
    complete = []
    for _, family in groupby(ordered, key=lambda pair: pair[0].metric.kind):
        members = list(family)
        p_values = [c.p for c, _ in members if c.p is not None]
        adjusted = iter(holm(p_values))
        for comparison, estimate in members:
            if comparison.p is None or estimate is None:
                complete.append(comparison)
                continue
            p_corrected = next(adjusted)
            share = comparison.p / p_corrected if p_corrected else 1 / len(p_values)
            low, high = estimate.interval(
                -scale.full_marks, scale.full_marks, 1 - _SIGNIFICANT * share
            )
            percent = 100 / scale.full_marks
            complete.append(
                replace(
                    comparison,
                    p_corrected=p_corrected,
                    interval=None
                    if comparison.why_no_interval
                    else Interval(low * percent, high * percent),
                )
            )
    return complete


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:  # noqa: ARG001 - all commands take it
    """Compare two runs; returns tables, or JSON.

    Raises:
        AnswersUnusable: A run cannot be read, or they have no task in common.
        SettingWrong: An option is out of range, or the runs were not scored alike.
    """
    parser = result_parser(
        "compare",
        "Compare two tested models over the same samples: paired differences, their intervals, and "
        "whether they could be chance. Runs that were not scored alike (another judge, prompt, "
        "task version or data) are refused.",
        runs=("a", "b"),
        top=10,
    )
    help_text = "keys of the signatures that may differ; default: none"
    parser.add_argument("--ignore", default="", metavar="KEY,...", help=help_text)
    parsed = parser.parse_args(arguments)
    require_range("--top", parsed.top, 0, None, hint="0 lists no sample")
    tasks = listed_names(parsed.tasks)
    a, b = open_run(parsed.a, tasks), open_run(parsed.b, tasks)
    ignored_keys = listed_names(parsed.ignore)
    ignored = {
        task: require_comparable(
            scored_signatures(a.tasks[task]), scored_signatures(b.tasks[task]), ignored_keys, task
        )
        for task in common_tasks({"A": a, "B": b})
    }
    comparisons = [
        compare(
            a.tasks[task], b.tasks[task], parsed.score_kind, top=parsed.top, ignored=differences
        )
        for task, differences in ignored.items()
    ]
    if parsed.json:
        return json_text({"a": a, "b": b, "tasks": comparisons})
    return _as_text(a, b, comparisons)


def _as_text(a: Run, b: Run, comparisons: Sequence[Comparison]) -> str:
    runs = [
        f"{label}: {run.name} ({run.folder}, {run.started})" for label, run in (("A", a), ("B", b))
    ]
    blocks = [
        f"WARNING: `{comparison.a.task}` was not scored alike in A and B, and `--ignore` allows "
        "it. The difference may be due to the judge, and not to the models.\n\n"
        f"{difference_table(comparison.ignored)}"
        for comparison in comparisons
        if comparison.ignored
    ]
    blocks.append("\n".join([*runs, *_notes(a, b)]))
    for comparison in comparisons:
        blocks += _blocks(comparison)
    return "\n\n".join([*blocks, _method(comparisons)])


def _blocks(comparison: Comparison) -> list[str]:
    a, b = comparison.a, comparison.b
    left_over = [f"{count:,} {reason}" for reason, count in comparison.left_over.items()]
    counts = "; ".join([f"{comparison.pairs:,} pairs", *left_over])
    head = f"{a.task}: {a.benchmark.title}, {comparison.score_kind} score. {counts}."
    marks = [
        wrapped(f"{label} is unlike the paper: {'; '.join(of_run)}.")
        for label, of_run in comparison.marks.items()
        if of_run
    ]
    blocks = ["\n".join([head, *_notes(a, b), *marks])]
    for kind, metrics in groupby(comparison.metrics, key=lambda c: c.metric.kind):
        blocks.append(_metric_table(kind, list(metrics)))
    if sentence := _headline_sentence(comparison.metrics):
        blocks.append(sentence)
    if comparison.differing:
        rows = [[s.id, f"{s.a:g}", f"{s.b:g}", f"{s.b - s.a:+g}"] for s in comparison.differing]
        blocks.append(f"Samples on which they differ most ({a.benchmark.scale.unit}):")
        blocks.append(table(["sample", "A", "B", "B - A"], rows))
    return blocks


def _notes(a: Run | TaskRun, b: Run | TaskRun) -> list[str]:
    return [f"{label}: {note}" for label, run in (("A", a), ("B", b)) for note in run.notes]


def _metric_table(kind: str, metrics: Sequence[MetricComparison]) -> str:
    header = [kind, "A", "B", "B - A", "95 % interval", "p (Holm)", "pairs"]
    rows = [
        [
            *(c.metric.title, percent_cell(c.a), percent_cell(c.b), signed_cell(c.difference)),
            *(_interval(c), _p(c.p_corrected), f"{c.pairs:,}"),
        ]
        for c in metrics
    ]
    reasons = [f"{c.metric.title}: n/a, {c.why_not}" for c in metrics if c.why_not]
    whys = dict.fromkeys(c.why_no_interval for c in metrics if _interval(c) == _NO_INTERVAL)
    reasons += [f"No interval: {why}." for why in whys]
    return table(header, rows, notes=reasons, wrap=True)


def _headline_sentence(metrics: Sequence[MetricComparison]) -> str:
    """The first metric in words; empty where it has no value."""
    first = metrics[0] if metrics else None
    if first is None or first.difference is None:
        return ""
    title = first.metric.title
    if first.why_no_interval == IDENTICAL:
        return wrapped(f"{title}: A and B have the same points in all {first.pairs:,} pairs.")
    wins = f"B has more points in {counted(first.wins, 'pair')}"
    counts = f"{wins}, as many in {first.ties:,}, fewer in {first.losses:,}."
    if first.is_level:
        return wrapped(f"{title}: A and B are level. {counts}")
    ahead, behind = ("B", "A") if first.difference > 0 else ("A", "B")
    facts = [f"p (Holm) {_p(first.p_corrected)}"] if first.p_corrected is not None else []
    facts.append(
        f"95 % interval of B - A: {_interval(first)}"
        if first.interval
        else f"{first.why_no_interval}: no interval"
    )
    chance = " That may well be chance." if first.may_be_chance else ""
    return wrapped(
        f"{title}: {ahead} is ahead of {behind} by {abs(first.difference):.2f} percentage points "
        f"({'; '.join(facts)}).{chance} {counts}"
    )


def _interval(comparison: MetricComparison) -> str:
    if comparison.interval:
        return " to ".join(map(signed_cell, comparison.interval))
    if comparison.why_no_interval in (IDENTICAL, *_TOO_FEW):
        return IDENTICAL if comparison.why_no_interval == IDENTICAL else "too few pairs"
    return _NO_INTERVAL if comparison.why_no_interval else NO_VALUE


def _p(value: float | None) -> str:
    if value is None:
        return NO_VALUE
    return f"{value:.4f}" if value >= 0.0001 else "<0.0001"


def _method(comparisons: Sequence[Comparison]) -> str:
    floor = " or ".join(f"{floor:.0%}" for floor in sorted({c.floor for c in comparisons}))
    return wrapped(
        "A and B: percent of full marks over the pairs, the samples that both have points for. "
        "B - A: percentage points, before the two are rounded. 95 % interval and p: paired "
        "Student's t, two-sided, within the groups that are averaged; the pairs are a draw of the "
        "benchmark's samples, and the judge's own errors are not in it. Both are adjusted by Holm "
        "for the number of metrics in a table: an interval excludes 0 exactly where p is below "
        f"{_SIGNIFICANT}. There is none for fewer than {MIN_SAMPLES} pairs or a group of one. A "
        f"metric has no value where either run has points for less than {floor} of the samples."
    )
