"""The command ``mmie-tasks compare``: whether one tested model is better than another.

The samples that both runs have points for are taken as drawn from the benchmark's, as for every
interval of the package: one paired Student's t gives the interval of a difference and its p-value.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.core.tables import NO_VALUE, signed_cell
from mmie_tasks.core.verdict import Scored, ScoreKind, Unscored, Verdict
from mmie_tasks.core.wording import counted, plural, wrapped
from mmie_tasks.record.intervals import MIN_SAMPLES, Interval, StratifiedMean, holm
from mmie_tasks.record.metrics import Metric, weighted_mean
from mmie_tasks.record.record import Record
from mmie_tasks.results.comparability import SignatureDifference, require_comparable
from mmie_tasks.results.marks import paper_marks
from mmie_tasks.results.render import Cell, Table, Value, json_text, rendered
from mmie_tasks.results.run import Run, TaskRun, load_run
from mmie_tasks.results.scores import estimated, in_proportion, metrics_of

SIGNIFICANT = 0.05
"""Differences with a lower p-value, corrected for all metrics of a kind, are not chance."""

IDENTICAL = "identical"
"""Why there is no interval if both runs have the same points in every pair."""

_EQUAL = 1e-9  # points this close are equal, as in `verdict.differ`
_LEVEL = 0.005  # percentage points: prints as 0.00
_TOO_FEW = f"fewer than {MIN_SAMPLES} pairs, or a group of one"
_ABSENT = Unscored("no_answer", "not in this run")
_METHOD = (
    "A and B: percent of full marks over the pairs, the samples that both have points for. "
    "B - A: percentage points, before the two are rounded. 95 % interval and p: paired Student's "
    "t, two-sided, within the groups that are averaged; the pairs are a draw of the benchmark's "
    "samples, and the judge's own errors are not in it. Both are adjusted by Holm for the number "
    "of metrics in a table: an interval excludes 0 exactly where p is below "
    f"{SIGNIFICANT}. A metric has no value where either run has points for too few of the samples."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One metric of two runs, over the samples that both have points for.

    `a` and `b` are in percent of full marks, rounded as in the benchmark's own table; `difference`
    is B - A in percentage points, not rounded; if they are None, `why_not` says why. `p` is
    two-sided, for the hypothesis that the benchmark's mean difference is 0. `interval`, in
    percentage points, is adjusted for the metrics of this kind like `p_corrected`: it excludes 0
    exactly if `p_corrected` is below 0.05. `wins` are pairs with more points in B.
    """

    metric: Metric
    pairs: int
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
    why_not: str = ""

    @property
    def title(self) -> str:
        """The title of the metric."""
        return self.metric.title

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
class DifferingSample:
    """A sample on which two runs differ; points on the benchmark's own scale."""

    id: str
    a: float
    b: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One task of two runs; differences are B minus A.

    Attributes:
        task: The task's name in lmms-eval.
        kind: Official or robust scores.
        ignored: Differences of the signatures that the user allows.
        metrics: The headline first, then kind by kind.
        pairs: The number of samples that both have points for.
        left_over: The number of samples that are not compared, by reason.
        differing: The samples on which the runs differ, the largest difference first.
    """

    task: str
    kind: ScoreKind
    ignored: tuple[SignatureDifference, ...]
    metrics: tuple[Difference, ...]
    pairs: int
    left_over: Mapping[str, int]
    differing: tuple[DifferingSample, ...]


def run(options: argparse.Namespace) -> str:
    """Compare the two runs of a command line; returns tables, or JSON."""
    a, b = (load_run(source, options.tasks) for source in (options.a, options.b))
    comparisons = [
        compare(a.tasks[task], b.tasks[task], options.score_kind, options.ignore)
        for task in common_tasks({"A": a, "B": b})
    ]
    if options.json:
        tasks = [replace(c, differing=c.differing[: options.top]) for c in comparisons]
        runs = {label: {"name": r.name, "folder": r.folder} for label, r in (("a", a), ("b", b))}
        return json_text({**runs, "notes": [*a.all_notes, *b.all_notes], "tasks": tasks})
    blocks = [block for c in comparisons for block in _blocks(a, b, c, options.top)]
    return "\n\n".join([*_head(a, b, comparisons), *blocks, wrapped(_METHOD)])


def common_tasks(runs: Mapping[str, Run]) -> list[str]:
    """The tasks that all runs have, in the order of the first; the keys name the runs in messages.

    Raises `AnswersUnusable` if there is none.
    """
    first, *rest = runs.values()
    common = [task for task in first.tasks if all(task in run.tasks for run in rest)]
    if not common:
        tasks = "; ".join(f"{label} has {', '.join(run.tasks)}" for label, run in runs.items())
        raise AnswersUnusable(
            f"The runs have no task in common: {tasks}.",
            hint="run the same task with all models, or name one run at a time",
        )
    return common


def compare(
    a: TaskRun, b: TaskRun, kind: ScoreKind = "official", ignored_keys: Collection[str] = ()
) -> Comparison:
    """Compare one task of two runs that were scored alike: differences are `b` minus `a`.

    The signatures may differ in `ignored_keys`.

    Raises:
        NotComparable: The runs were not scored alike.
        SettingWrong: See `require_comparable`.
    """
    ignored = require_comparable(a, b, ignored_keys)
    by_id = (a.by_id, b.by_id)
    records = tuple(dict(sorted({**by_id[1], **by_id[0]}.items())).values())
    floor = max(a.min_coverage, b.min_coverage)
    metrics = metrics_of(a.benchmark, a.task, records)
    titles = {(m.by, name): m.title for m in metrics if len(m.weights) == 1 for name in m.weights}
    found = (
        _difference(metric, a.benchmark, records, by_id, floor, kind, titles) for metric in metrics
    )
    left_over = Counter[str]()
    scored = []
    for id_ in (record.id for record in records):
        of_both = [of_run[id_].verdict(kind) if id_ in of_run else None for of_run in by_id]
        match of_both:
            case [Scored(points=in_a), Scored(points=in_b)]:
                scored.append(DifferingSample(id=id_, a=in_a, b=in_b))
            case _:
                left_over[_why_left_over(*of_both)] += 1
    differing = [sample for sample in scored if abs(sample.b - sample.a) > _EQUAL]
    return Comparison(
        task=a.task,
        kind=kind,
        ignored=ignored,
        metrics=tuple(_adjusted([d for d in found if d], a.benchmark.scale.full_marks)),
        pairs=len(scored),
        left_over=left_over,
        differing=tuple(sorted(differing, key=lambda s: -abs(s.b - s.a))),
    )


def _why_left_over(in_a: Verdict | None, in_b: Verdict | None) -> str:
    """Why a sample is in no pair."""
    if in_a is None or in_b is None:
        return "only in B" if in_a is None else "only in A"
    unscored = {label: v for label, v in (("A", in_a), ("B", in_b)) if isinstance(v, Unscored)}
    if any(verdict.reason == "left_out" for verdict in unscored.values()):
        return "left out"
    return "unscored in both" if len(unscored) == 2 else f"unscored in {min(unscored)} only"


def _difference(
    metric: Metric,
    benchmark: Benchmark,
    records: Sequence[Record],
    by_id: Sequence[Mapping[str, Record]],
    floor: float,
    kind: ScoreKind,
    titles: Mapping[tuple[str, str], str],
) -> tuple[Difference, StratifiedMean | None] | None:
    """A metric of both runs, and its difference in points; None if no sample counts for it.
    `titles` are those of groups, by their kind and name.

    It has no value unless each run has points for the share `floor` of the samples of either run: a
    smaller share might be a biased choice.
    """
    scale = benchmark.scale
    groups = {r.id: group for r in records if (group := metric.group_of(r)) is not None}
    if not groups:
        return None
    verdicts = [
        {
            id_: metric.verdict(of_run[id_], kind, scale) if id_ in of_run else _ABSENT
            for id_ in groups
        }
        for of_run in by_id
    ]
    reasons = []
    for label, of_run in zip("AB", verdicts, strict=True):
        mean = weighted_mean(_grouped(of_run, groups), metric.weights, floor, metric.by)
        reasons += [f"{label}: {mean.why_not}"] if mean.why_not else []
    pairs = [
        {id_: v for id_, v in of_run.items() if _are_scored(of_run[id_] for of_run in verdicts)}
        for of_run in verdicts
    ]
    without = [
        name for name in dict.fromkeys(groups.values()) if name not in _grouped(pairs[0], groups)
    ]
    of_first = [titles.get((metric.by, name), name) for name in without[:1]]
    reasons += [f"{title}: no sample has a score in both runs" for title in of_first]
    if reasons:
        why_not = "; ".join(reasons[:2])
        return Difference(metric=metric, pairs=len(pairs[0]), why_not=why_not), None
    a, b = (weighted_mean(_grouped(p, groups), metric.weights, 0).value or 0.0 for p in pairs)
    differences = {id_: _points(pairs[1][id_]) - _points(pairs[0][id_]) for id_ in pairs[0]}
    differences = {id_: 0.0 if abs(d) <= _EQUAL else d for id_, d in differences.items()}
    estimate = estimated(records, differences, metric, benchmark)
    difference = Difference(
        metric=metric,
        pairs=len(differences),
        a=scale.percent(a),
        b=scale.percent(b),
        difference=(b - a) * 100 / scale.full_marks,
        why_no_interval=_why_no_interval(metric, benchmark, records, differences, estimate),
        p=estimate.p_value if estimate and any(differences.values()) else None,
        wins=sum(d > 0 for d in differences.values()),
        ties=sum(d == 0 for d in differences.values()),
        losses=sum(d < 0 for d in differences.values()),
    )
    return difference, estimate


def _are_scored(verdicts: Iterator[Verdict]) -> bool:
    return all(isinstance(verdict, Scored) for verdict in verdicts)


def _points(verdict: Verdict) -> float:
    return verdict.points if isinstance(verdict, Scored) else 0.0


def _grouped(
    verdicts: Mapping[str, Verdict], groups: Mapping[str, str]
) -> Mapping[str, list[Verdict]]:
    by_group: defaultdict[str, list[Verdict]] = defaultdict(list)
    for id_, verdict in verdicts.items():
        by_group[groups[id_]].append(verdict)
    return by_group


def _why_no_interval(
    metric: Metric,
    benchmark: Benchmark,
    records: Sequence[Record],
    differences: Mapping[str, float],
    estimate: StratifiedMean | None,
) -> str:
    if not any(differences.values()):
        return IDENTICAL
    if estimate is None:
        return _TOO_FEW
    if metric.by == benchmark.strata or in_proportion(records, benchmark):
        return ""
    return f"{plural(benchmark.strata)} not in {benchmark.title}'s proportions"


def _adjusted(
    found: Sequence[tuple[Difference, StratifiedMean | None]], full_marks: float
) -> Iterator[Difference]:
    """Add p-values and intervals for testing all metrics of a kind; kinds in their first order."""
    for kind in dict.fromkeys(difference.metric.kind for difference, _ in found):
        family = [pair for pair in found if pair[0].metric.kind == kind]
        p_values = [difference.p for difference, _ in family if difference.p is not None]
        adjusted = iter(holm(p_values))
        for difference, estimate in family:
            if difference.p is None or estimate is None:
                yield difference
                continue
            p_corrected = next(adjusted)
            share = difference.p / p_corrected if p_corrected else 1 / len(p_values)
            ends = estimate.interval(-full_marks, full_marks, 1 - SIGNIFICANT * share)
            yield replace(
                difference,
                p_corrected=p_corrected,
                interval=None if difference.why_no_interval else ends.times(100 / full_marks),
            )


def _head(a: Run, b: Run, comparisons: Sequence[Comparison]) -> Iterator[str]:
    for comparison in comparisons:
        if comparison.ignored:
            differences = "; ".join(map(str, comparison.ignored))
            yield wrapped(
                f"WARNING: `{comparison.task}` was not scored alike in A and B, and `--ignore` "
                f"allows it ({differences}). The difference may be due to the judge, and not to "
                "the models."
            )
    runs = [f"{label}: {r.name} ({r.folder}, {r.started})" for label, r in (("A", a), ("B", b))]
    notes = [f"{label}: {note}" for label, r in (("A", a), ("B", b)) for note in r.notes]
    yield "\n".join([*runs, *notes])


def _blocks(a: Run, b: Run, comparison: Comparison, top: int) -> Iterator[str]:
    """What is printed of a task."""
    runs = {"A": a.tasks[comparison.task], "B": b.tasks[comparison.task]}
    benchmark = runs["A"].benchmark
    left_over = [f"{count:,} {reason}" for reason, count in comparison.left_over.items()]
    counts = "; ".join([f"{comparison.pairs:,} pairs", *left_over])
    lines = [f"{comparison.task}: {benchmark.title}, {comparison.kind} score. {counts}."]
    lines += [f"{label}: {note}" for label, task_run in runs.items() for note in task_run.notes]
    for label, task_run in runs.items():
        if marks := paper_marks(task_run):
            lines.append(wrapped(f"{label} is unlike the paper: {'; '.join(marks)}."))
    yield "\n".join(lines)
    for kind, metrics in groupby(comparison.metrics, key=lambda m: m.metric.kind):
        yield rendered(_table(kind, list(metrics)))
    for headline in comparison.metrics[:1]:
        if headline.difference is not None:
            yield wrapped(f"{headline.title}: {_in_words(headline, headline.difference)}")
    if differing := comparison.differing[:top]:
        text = f"Samples on which they differ most ({benchmark.scale.unit}):"
        rows = [[s.id, f"{s.a:g}", f"{s.b:g}", f"{s.b - s.a:+g}"] for s in differing]
        yield rendered(Table(text=text, header=("sample", "A", "B", "B - A"), rows=rows))


def _table(kind: str, metrics: Sequence[Difference]) -> Table:
    """The metrics of a kind; below it, why a value or an interval is missing."""
    rows: list[list[Value]] = [
        [
            *(m.title, Cell(percent=m.a), Cell(percent=m.b), signed_cell(m.difference)),
            *(_interval(m), p_text(m.p_corrected), m.pairs),
        ]
        for m in metrics
    ]
    notes = [f"{m.title}: n/a, {m.why_not}" for m in metrics if m.why_not]
    reasons = dict.fromkeys(m.why_no_interval for m in metrics if m.why_no_interval)
    reasons.pop(IDENTICAL, None)
    notes += [f"No interval: {reason}." for reason in reasons]
    header = (kind, "A", "B", "B - A", "95 % interval", "p (Holm)", "pairs")
    return Table(header=header, rows=rows, notes=notes)


def _interval(metric: Difference) -> str:
    if metric.interval:
        return " to ".join(map(signed_cell, metric.interval))
    return IDENTICAL if metric.why_no_interval == IDENTICAL else NO_VALUE


def _in_words(metric: Difference, difference: float) -> str:
    if metric.why_no_interval == IDENTICAL:
        return f"A and B have the same points in all {metric.pairs:,} pairs."
    wins = f"B has more points in {counted(metric.wins, 'pair')}"
    counts = f"{wins}, as many in {metric.ties:,}, fewer in {metric.losses:,}."
    if metric.is_level:
        return f"A and B are level. {counts}"
    ahead, behind = ("B", "A") if difference > 0 else ("A", "B")
    statistics = (
        [f"p (Holm) {p_text(metric.p_corrected)}"] if metric.p_corrected is not None else []
    )
    statistics.append(
        f"95 % interval of B - A: {_interval(metric)}"
        if metric.interval
        else f"no interval: {metric.why_no_interval}"
    )
    chance = " That may well be chance." if metric.may_be_chance else ""
    return (
        f"{ahead} is ahead of {behind} by {abs(difference):.2f} percentage points "
        f"({'; '.join(statistics)}).{chance} {counts}"
    )


def p_text(value: float | None) -> str:
    """A p-value with four decimals."""
    if value is None:
        return NO_VALUE
    return f"{value:.4f}" if value >= 0.0001 else "<0.0001"
