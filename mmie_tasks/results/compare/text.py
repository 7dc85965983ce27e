"""Tables and sentences of a comparison of two runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from mmie_tasks.core.tables import NO_VALUE, percent_cell, signed_cell
from mmie_tasks.core.wording import counted, wrapped
from mmie_tasks.record.intervals import MIN_SAMPLES
from mmie_tasks.results.comparability import difference_table
from mmie_tasks.results.compare.comparison import (
    IDENTICAL,
    SIGNIFICANT,
    TOO_FEW,
    Comparison,
    MetricComparison,
)
from mmie_tasks.results.render import Table, Value, columns, markdown
from mmie_tasks.results.run import Run, TaskRun

_NO_INTERVAL = "no interval"  # the reason is below the table


def comparison_text(a: Run, b: Run, comparisons: Sequence[Comparison]) -> str:
    """The runs, a block for each task, and how the numbers are computed."""
    warnings = [
        f"WARNING: `{comparison.a.task}` was not scored alike in A and B, and `--ignore` allows "
        "it. The difference may be due to the judge, and not to the models.\n\n"
        f"{difference_table(comparison.ignored)}"
        for comparison in comparisons
        if comparison.ignored
    ]
    runs = [
        f"{label}: {run.name} ({run.folder}, {run.started})" for label, run in (("A", a), ("B", b))
    ]
    blocks = [block for comparison in comparisons for block in _blocks(comparison)]
    return "\n\n".join(
        [*warnings, "\n".join([*runs, *_notes(a, b)]), *blocks, _method(comparisons)]
    )


def _blocks(comparison: Comparison) -> Iterator[str]:
    a, b = comparison.a, comparison.b
    left_over = [f"{count:,} {reason}" for reason, count in comparison.left_over.items()]
    counts = "; ".join([f"{comparison.pairs:,} pairs", *left_over])
    head = f"{a.task}: {a.benchmark.title}, {comparison.score_kind} score. {counts}."
    marks = [
        wrapped(f"{label} is unlike the paper: {'; '.join(of_run)}.")
        for label, of_run in comparison.marks.items()
        if of_run
    ]
    yield "\n".join([head, *_notes(a, b), *marks])
    for kind, metrics in groupby(comparison.metrics, key=lambda c: c.metric.kind):
        yield _metric_table(kind, list(metrics))
    for headline in comparison.metrics[:1]:
        if headline.difference is not None:
            yield wrapped(f"{headline.metric.title}: {_in_words(headline, headline.difference)}")
    if comparison.differing:
        rows = [[s.id, f"{s.a:g}", f"{s.b:g}", f"{s.b - s.a:+g}"] for s in comparison.differing]
        yield markdown(
            Table(
                text=f"Samples on which they differ most ({a.benchmark.scale.unit}):",
                columns=columns("sample", "A", "B", "B - A"),
                rows=rows,
            )
        )


def _notes(a: Run | TaskRun, b: Run | TaskRun) -> list[str]:
    return [f"{label}: {note}" for label, run in (("A", a), ("B", b)) for note in run.notes]


def _metric_table(kind: str, metrics: Sequence[MetricComparison]) -> str:
    rows: list[list[Value]] = [
        [
            *(c.metric.title, percent_cell(c.a), percent_cell(c.b), signed_cell(c.difference)),
            *(_interval(c), _p(c.p_corrected), c.pairs),
        ]
        for c in metrics
    ]
    reasons = [f"{c.metric.title}: n/a, {c.why_not}" for c in metrics if c.why_not]
    whys = dict.fromkeys(c.why_no_interval for c in metrics if _interval(c) == _NO_INTERVAL)
    reasons += [f"No interval: {why}." for why in whys]
    header = columns(kind, "A", "B", "B - A", "95 % interval", "p (Holm)", "pairs")
    return markdown(Table(columns=header, rows=rows, notes=reasons), wrap=True)


def _in_words(metric: MetricComparison, difference: float) -> str:
    if metric.why_no_interval == IDENTICAL:
        return f"A and B have the same points in all {metric.pairs:,} pairs."
    wins = f"B has more points in {counted(metric.wins, 'pair')}"
    counts = f"{wins}, as many in {metric.ties:,}, fewer in {metric.losses:,}."
    if metric.is_level:
        return f"A and B are level. {counts}"
    ahead, behind = ("B", "A") if difference > 0 else ("A", "B")
    statistics = [f"p (Holm) {_p(metric.p_corrected)}"] if metric.p_corrected is not None else []
    statistics.append(
        f"95 % interval of B - A: {_interval(metric)}"
        if metric.interval
        else f"{metric.why_no_interval}: no interval"
    )
    chance = " That may well be chance." if metric.may_be_chance else ""
    return (
        f"{ahead} is ahead of {behind} by {abs(difference):.2f} percentage points "
        f"({'; '.join(statistics)}).{chance} {counts}"
    )


def _interval(comparison: MetricComparison) -> str:
    if comparison.interval:
        return " to ".join(map(signed_cell, comparison.interval))
    if comparison.why_no_interval in (IDENTICAL, *TOO_FEW):
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
        f"{SIGNIFICANT}. There is none for fewer than {MIN_SAMPLES} pairs or a group of one. A "
        f"metric has no value where either run has points for less than {floor} of the samples."
    )
