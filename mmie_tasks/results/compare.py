"""The command ``mmie-tasks compare``: paired differences of two runs, and whether they are chance.

A difference is a weighted mean of the mean differences of groups; samples are resampled in pairs
within the groups. Seeds are fixed, and the order of the samples does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from mmie_tasks.core.tables import NO_VALUE, counted, percent_cell, signed_cell, table, wrapped
from mmie_tasks.record.intervals import (
    Floats,
    Interval,
    bootstrap_means,
    chunk_sizes,
    percentile_interval,
    seed_of,
)
from mmie_tasks.record.metrics import Metric
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.results.alignment import (
    PLAIN_MEAN,
    AlignedRuns,
    SignatureDifference,
    Stratum,
    difference_table,
    require_comparable,
    scored_signatures,
)
from mmie_tasks.results.commands import (
    common_tasks,
    listed_names,
    open_run,
    require_range,
    result_parser,
)
from mmie_tasks.results.render import json_text
from mmie_tasks.runs.run import Run, TaskRun
from mmie_tasks.runs.summary import marks_of

EXACT_PAIRS = 16
"""With up to this many pairs that differ, the test goes through all 2 ** 16 choices of signs."""

_MIN_PAIRS = 10  # with fewer pairs there is no interval: the bootstrap of so few is much too narrow

_EQUAL = 1e-9  # points this close are equal, as in `verdict.differ`
_LEVEL = 0.005  # percent points: prints as 0.00
_SIGNIFICANT = 0.05
_MAX_RESAMPLES = 1_000_000


def mean_difference(strata: Sequence[Stratum]) -> float:
    """The weighted mean of the mean differences."""
    return float(sum(s.weight * np.sort(s.points).mean() for s in strata))


class Resampling:
    """Intervals and p-values of many metrics; strata that metrics share are drawn once.

    The points of the strata are differences: B minus A of each pair, at least one, in any order.

    Args:
        resamples: How many, of the bootstrap and of the permutation test.
    """

    def __init__(self, resamples: int) -> None:
        self._resamples = resamples
        self._means: dict[str, Floats] = {}
        self._flipped_means: dict[str, Floats] = {}

    def interval(self, strata: Sequence[Stratum]) -> Interval | None:
        """95 % percentile bootstrap of the weighted mean difference, pairs drawn within strata.

        Returns:
            In the unit of the differences; None where a stratum has fewer than two pairs.
        """
        if any(len(stratum.points) < 2 for stratum in strata):
            return None
        for stratum in strata:
            if stratum.key not in self._means:
                means = bootstrap_means(
                    stratum.points.tolist(), self._resamples, seed_of(stratum.key)
                )
                self._means[stratum.key] = means
        return percentile_interval(self._total(strata, self._means))

    def p_value(self, strata: Sequence[Stratum]) -> float:
        """Two-sided p of the paired permutation test of the weighted mean difference.

        The sign of each difference is random: which of a pair is A and which is B. Exact up to
        `EXACT_PAIRS` pairs that differ; else ``(k + 1) / (resamples + 1)``, where k draws are at
        least as far from 0 as the actual difference (Phipson and Smyth 2010).
        """
        steps = np.concatenate([s.weight * s.points / len(s.points) for s in strata])
        steps = np.abs(steps[steps != 0])
        actual = abs(mean_difference(strata)) - _EQUAL * float(steps.sum())
        if len(steps) <= EXACT_PAIRS:
            sums = np.zeros(1)  # for every choice of signs, shape ``(2 ** steps,)``
            for step in np.sort(steps):
                sums = np.concatenate([sums - step, sums + step])
            return float((np.abs(sums) >= actual).mean())
        for stratum in strata:
            if stratum.key not in self._flipped_means:
                random = np.random.default_rng(seed_of(f"flip {stratum.key}"))
                self._flipped_means[stratum.key] = _flipped_means(
                    stratum.points, self._resamples, random
                )
        total = self._total(strata, self._flipped_means)
        return float((1 + (np.abs(total) >= actual).sum()) / (1 + self._resamples))

    def _total(self, strata: Sequence[Stratum], means: Mapping[str, Floats]) -> Floats:
        total = np.zeros(self._resamples)
        for stratum in strata:
            total += stratum.weight * means[stratum.key]
        return total


def _flipped_means(differences: Floats, resamples: int, random: np.random.Generator) -> Floats:
    """Means with random signs. Of n equal differences, the number of plus signs is binomial."""
    sizes, counts = np.unique(np.abs(differences[differences != 0]), return_counts=True)
    sums = np.zeros(resamples)
    for count in np.unique(counts):
        equally_many = sizes[counts == count]
        chunks = []
        for size in chunk_sizes(resamples, len(equally_many)):
            shape = (size, len(equally_many))
            if count == 1:  # quicker
                plus_signs = random.integers(2, size=shape, dtype=np.int8).astype(np.int64)
            else:
                plus_signs = random.binomial(count, 0.5, size=shape)
            chunks.append(2 * (plus_signs @ equally_many) - count * equally_many.sum())
        sums += np.concatenate(chunks)
    return np.divide(sums, len(differences))


def corrected(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for testing all of them: Holm's step-down bounds the chance of any false
    positive.

    >>> corrected([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    stepped = np.minimum(np.maximum.accumulate(np.asarray(p_values)[order] * factors), 1)
    return list(map(float, stepped[np.argsort(order)]))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricComparison:
    """One metric of two runs, over the samples that both have points for.

    Attributes:
        metric: The compared metric.
        a: Percent of full marks, rounded as the benchmark's own table; None where there is none.
        b: The same of B.
        difference: B - A in percent points, not rounded.
        interval: 95 %, in percent points; None where there is no value, or too few pairs.
        why_no_interval: Why there is a difference without an interval.
        p: Of the paired permutation test.
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
        ignored: Differences of the signatures that the user allows.
        metrics: The headline first, then kind by kind.
        differing: The samples on which they differ most, those first.
        left_over: Reason why samples are not compared, to their number.
        pairs: Samples that both have points for.
        floor: Of coverage, below which a metric has no value, 0 to 1.
        score_kind: Official, robust or expected.
        resamples: Of the intervals and tests.
    """

    a: TaskRun
    b: TaskRun
    ignored: tuple[SignatureDifference, ...]
    metrics: tuple[MetricComparison, ...]
    differing: tuple[_DifferingSample, ...]
    left_over: dict[str, int]
    pairs: int
    floor: float
    score_kind: ScoreKind
    resamples: int


def compare(
    a: TaskRun,
    b: TaskRun,
    score_kind: ScoreKind = "official",
    *,
    resamples: int,
    top: int = 0,
    labels: tuple[str, str] = ("A", "B"),
    ignored: tuple[SignatureDifference, ...] = (),
) -> Comparison:
    """Compare one task of two runs: differences are `b` minus `a`.

    Args:
        a: The first run.
        b: The other.
        score_kind: Official, robust or expected.
        resamples: Of the intervals and tests.
        top: How many differing samples to list.
        labels: Names of the runs in reasons.
        ignored: Differences of the signatures that the user allows.
    """
    runs = AlignedRuns([a, b], labels, score_kind)
    resampling = Resampling(resamples)
    metrics = [c for m in runs.metrics if (c := _compare_metric(runs, m, resampling)) is not None]
    of_a, of_b = runs.run_points(PLAIN_MEAN)
    in_a, in_b = np.isfinite(of_a.points), np.isfinite(of_b.points)
    in_both = of_a.present & of_b.present
    counted = in_both & of_a.counted & of_b.counted
    distance = np.where(in_a & in_b, np.abs(of_b.points - of_a.points), 0)
    order = np.argsort(-distance, kind="stable")[:top]  # equals in the order of their ids
    left_over = {
        "only in A": ~of_b.present,
        "only in B": ~of_a.present,
        "left out by the official script": in_both & ~counted,
        "unscored in A only": counted & ~in_a & in_b,
        "unscored in B only": counted & in_a & ~in_b,
        "unscored in both": counted & ~in_a & ~in_b,
    }
    return Comparison(
        a=a,
        b=b,
        ignored=ignored,
        metrics=tuple(_with_corrected_p(metrics)),
        differing=tuple(
            _DifferingSample(id=runs.ids[i], a=float(of_a.points[i]), b=float(of_b.points[i]))
            for i in order
            if distance[i] > _EQUAL
        ),
        left_over={reason: int(flags.sum()) for reason, flags in left_over.items() if flags.any()},
        pairs=int((in_a & in_b).sum()),
        floor=runs.floor,
        score_kind=score_kind,
        resamples=resamples,
    )


def _compare_metric(
    runs: AlignedRuns, metric: Metric, resampling: Resampling
) -> MetricComparison | None:
    shared = runs.shared(metric)
    if shared is None:
        return None
    scale = runs.benchmark.scale
    if shared.why_not:
        return MetricComparison(metric=metric, pairs=shared.samples, why_not=shared.why_not)
    strata = []
    for stratum in shared.strata:
        points = stratum.points[1] - stratum.points[0]
        percent = np.where(np.abs(points) <= _EQUAL, 0, points) * (100 / scale.full_marks)
        strata.append(replace(stratum, points=percent))
    differences = np.concatenate([stratum.points for stratum in strata])
    a, b = (scale.percent(float(mean)) for mean in shared.means)
    why_no_interval = _why_no_interval(strata)
    return MetricComparison(
        metric=metric,
        pairs=shared.samples,
        a=a,
        b=b,
        difference=mean_difference(strata),
        interval=None if why_no_interval else resampling.interval(strata),
        why_no_interval=why_no_interval,
        p=resampling.p_value(strata),
        wins=int((differences > 0).sum()),
        ties=int((differences == 0).sum()),
        losses=int((differences < 0).sum()),
    )


def _why_no_interval(strata: Sequence[Stratum]) -> str:
    if sum(len(stratum.points) for stratum in strata) < _MIN_PAIRS:
        return f"fewer than {_MIN_PAIRS} pairs"
    return "a group of one pair" if any(len(stratum.points) < 2 for stratum in strata) else ""


def _with_corrected_p(comparisons: Sequence[MetricComparison]) -> list[MetricComparison]:
    """Kind by kind, in the order in which the kinds come first; the kind is the family."""
    kinds = list(dict.fromkeys(c.metric.kind for c in comparisons))
    ordered = sorted(comparisons, key=lambda c: kinds.index(c.metric.kind))
    complete = []
    for _, family in groupby(ordered, key=lambda c: c.metric.kind):
        members = list(family)
        p_values = iter(corrected([c.p for c in members if c.p is not None]))
        complete += [c if c.p is None else replace(c, p_corrected=next(p_values)) for c in members]
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
    help_text = "of intervals and tests; default: %(default)s"
    parser.add_argument("--resamples", type=int, default=10_000, metavar="N", help=help_text)
    help_text = "keys of the signatures that may differ; default: none"
    parser.add_argument("--ignore", default="", metavar="KEY,...", help=help_text)
    parsed = parser.parse_args(arguments)
    require_range(
        "--resamples",
        parsed.resamples,
        1,
        _MAX_RESAMPLES,
        f"from 1 to {_MAX_RESAMPLES:,}; 10,000 is usual",
    )
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
            a.tasks[task],
            b.tasks[task],
            parsed.score_kind,
            resamples=parsed.resamples,
            top=parsed.top,
            ignored=differences,
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
    marks = [(label, mark) for label, run in (("A", a), ("B", b)) for mark in marks_of(run)]
    lines = [wrapped(f"{label}: {mark}") for label, mark in marks]
    blocks = ["\n".join([head, *_notes(a, b), *lines])]
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
    return table(header, rows, notes=reasons, wrap=True)


def _headline_sentence(metrics: Sequence[MetricComparison]) -> str:
    """The first metric in words; empty where it has no value."""
    first = metrics[0] if metrics else None
    if first is None or first.difference is None:
        return ""
    title = first.metric.title
    wins = f"B has more points in {counted(first.wins, 'pair')}"
    counts = f"{wins}, as many in {first.ties:,}, fewer in {first.losses:,}."
    if first.is_level:
        return wrapped(f"{title}: A and B are level. {counts}")
    ahead, behind = ("B", "A") if first.difference > 0 else ("A", "B")
    interval = (
        f"95 % interval of B - A: {_interval(first)}"
        if first.interval
        else f"{first.why_no_interval}: no interval"
    )
    chance = " That may well be chance." if first.may_be_chance else ""
    return wrapped(
        f"{title}: {ahead} is ahead of {behind} by {abs(first.difference):.2f} percent points "
        f"(p (Holm) {_p(first.p_corrected)}; {interval}).{chance} {counts}"
    )


def _interval(comparison: MetricComparison) -> str:
    if comparison.interval:
        return " to ".join(map(signed_cell, comparison.interval))
    return "too few pairs" if comparison.why_no_interval else NO_VALUE


def _p(value: float | None) -> str:
    if value is None:
        return NO_VALUE
    return f"{value:.4f}" if value >= 0.0001 else "<0.0001"


def _method(comparisons: Sequence[Comparison]) -> str:
    floor = " or ".join(f"{floor:.0%}" for floor in sorted({c.floor for c in comparisons}))
    draws = f"{comparisons[0].resamples:,}"
    return wrapped(
        "A and B: percent of full marks over the pairs, the samples that both have points for. "
        "B - A: percent points, before the two are rounded. 95 % interval: percentile bootstrap of "
        f"the pairs, within the groups that are averaged ({draws} resamples); none for fewer than "
        f"{_MIN_PAIRS} pairs or a group of one. p: two-sided paired permutation test with random "
        f"signs of the differences ({draws} draws; all choices of signs where {EXACT_PAIRS} pairs "
        "or fewer differ), Holm-corrected among the metrics of one table. A metric has no value "
        f"where either run has points for less than {floor} of the samples."
    )
