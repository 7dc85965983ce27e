"""Tables and charts of a task: the metrics of all runs, differences of two, signatures, histograms,
needle retrieval.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from mmie_tasks.core.verdict import Scored, Verdict, differ
from mmie_tasks.record.intervals import LEVEL, stratified_mean
from mmie_tasks.record.metrics import Metric, Scale, mean_of
from mmie_tasks.record.sample import READER_KINDS, LoggedSample, Needle, ScoreKind
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.comparability import NotComparable
from mmie_tasks.results.compare.comparison import MetricComparison, compare
from mmie_tasks.results.page_data import Json, cut, ends
from mmie_tasks.results.report.samples import MAX_SIGNATURE, JoinedTask
from mmie_tasks.runs.run import TaskRun
from mmie_tasks.runs.values import metrics_of, value_of

METHOD = (
    f"Intervals are {LEVEL:.0%} intervals (Student's t) for the whole benchmark, of which the "
    "samples are a random draw; there is none for fewer than 10 samples."
)

NO_SCORE = "no score"  # the last bar of a histogram
_TABLE_TITLES = {"headline": "Headline", "mean": "Means of groups"}  # of other kinds: By ...
_RADAR_KINDS = ("category", "component")
_ORDERED_KINDS = ("level",)  # metrics that follow each other: lines instead of bars
_MIN_RADAR_AXES = 5  # with fewer, bars show the same in less space
_HALF_DIGIT = 0.005  # half of the last digit of a displayed percentage
_DEPTH_ROWS = 5  # of the heat map
_MAX_LENGTH_COLUMNS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """The second of two runs minus the first.

    Attributes:
        rows: Kind and name of a metric to its difference, for the page; empty unless there are two
            runs, scored alike.
        why_not: Why two runs have no differences.
    """

    rows: Mapping[tuple[str, str], Json] = field(default_factory=dict)
    why_not: str = ""


def differences_of(task: JoinedTask) -> Differences:
    """The differences of the runs of a task."""
    match [run for _, run in task.present]:
        case [a, b]:
            try:
                metrics = compare(a, b, labels=("first run", "second run")).metrics
            except NotComparable as error:
                why_not = "the difference of the runs is not shown: they were not scored alike"
                return Differences(why_not=f"{why_not}, they differ in {', '.join(error.keys)}")
            rows = {(c.metric.kind, c.metric.name): _difference(c) for c in metrics}
            return Differences(rows=rows)
    return Differences()


def metric_tables(task: JoinedTask, differences: Differences) -> list[Json]:
    """Every metric that a run has samples for, kind by kind, the headline first, for the page.

    A row is a metric, with a cell for each run; None where a run has none of its samples, and the
    difference of two runs that can be compared, else None. ``in_table`` is whether the first
    screen has it, ``has_expected`` whether a run has expected scores.
    """
    has_expected = any("expected" in run.score_kinds for _, run in task.present)
    tables: dict[str, Json] = {}
    for metric in metrics_of([run for _, run in task.present]):
        cells = [run and _cell(run, metric) for run in task.runs]
        if not any(cells):
            continue
        title = _TABLE_TITLES.get(metric.kind, f"By {metric.kind}")
        head = {"kind": metric.kind, "title": title, "has_expected": has_expected}
        rows = tables.setdefault(metric.kind, {**head, "rows": []})["rows"]
        row = {
            "name": metric.name,
            "title": metric.title,
            "in_table": metric.in_table or not rows,
            "cells": cells,
            "difference": differences.rows.get((metric.kind, metric.name)),
        }
        rows.append(row)
    return list(tables.values())


def _difference(comparison: MetricComparison) -> Json:
    return {
        "value": comparison.difference,
        **ends(comparison.interval),
        "why_no_interval": comparison.why_no_interval,
        "p": comparison.p_corrected,
        "may_be_chance": comparison.may_be_chance,
        "pairs": comparison.pairs,
        "why_not": comparison.why_not,
    }


def _cell(run: TaskRun, metric: Metric) -> Json | None:
    """One metric of one run, by score, and the number of samples whose official and robust scores
    differ.
    """
    scale = run.benchmark.scale
    cell: Json = {}
    for kind in run.score_kinds:
        stored = run.stored.get(f"{kind}_{metric.name}".removesuffix("_"))  # by the runner
        if (value := value_of(run, metric, kind)) is not None:
            if stored is not None and value.percent is not None:
                stored = None if abs(stored - value.percent) <= _HALF_DIGIT else stored
            cell[kind] = {
                "percent": value.percent,
                **ends(value.interval),
                "scored": value.scored,
                "total": value.total,
                "why_not": value.why_not,
                "stored": stored,  # only where it differs
            }
    if not cell:
        return None
    samples = (sample for sample in run.samples if metric.stratum(sample) is not None)
    verdicts = ([metric.verdict(s, kind, scale) for kind in READER_KINDS] for s in samples)
    return {**cell, "differ": sum(differ(*pair) for pair in verdicts)}


def signature_rows(signatures: Iterable[Signature]) -> list[Json]:
    """A row for each key of the signatures: its values, cut for display, and whether they differ.

    >>> signature_rows([Signature.parse("judge:a|t:0"), Signature.parse("judge:b|t:0")])[0]
    {'key': 'judge', 'values': ['a', 'b'], 'differs': True}
    """
    by_signature = [signature.fields for signature in signatures]
    keys = dict.fromkeys(key for fields in by_signature for key in fields)
    rows = {key: [fields.get(key, "") for fields in by_signature] for key in keys}
    return [
        {
            "key": cut(key, MAX_SIGNATURE),
            "values": [cut(value, MAX_SIGNATURE) for value in values],
            "differs": len(set(values)) > 1,
        }
        for key, values in rows.items()
    ]


def charts(task: JoinedTask, tables: Sequence[Json]) -> list[Json]:
    """Every chart of a task, for the page."""
    metric_charts = [chart for table in tables for chart in _table_charts(table)]
    has_panel = any(sample.members for _, run in task.present for sample in run.samples)
    has_whole_points = task.benchmark.scale.whole and not has_panel
    histograms = [_histogram(task)] if has_whole_points else []
    return [*metric_charts, *histograms, *needle_charts(task)]


def _table_charts(table: Json) -> Iterator[Json]:
    kind, rows = table["kind"], table["rows"]
    if len(rows) < 2:
        return
    title = table["title"] if kind != "headline" else "Headlines"
    titles = {"lines" if kind in _ORDERED_KINDS else "bars": title}
    if kind in _RADAR_KINDS and len(rows) >= _MIN_RADAR_AXES:
        titles["radar"] = f"{title}, radar"
    series = []
    for run, cells in enumerate(zip(*(row["cells"] for row in rows), strict=True)):
        for score_kind in READER_KINDS if any(cells) else ():
            values = [cell[score_kind] if cell else {} for cell in cells]
            percent, low, high = (
                [value.get(key) for value in values] for key in ("percent", "low", "high")
            )
            reasons = [value.get("why_not") for value in values]
            why_not = [f"no score: {reason}" if reason else "" for reason in reasons]
            series.append(_series(run, score_kind, percent, low, high, why_not))
    for shape, shape_title in titles.items():
        yield {
            "id": f"{kind}-{shape}",
            "title": shape_title,
            "type": shape,
            "unit": "percent",
            "x": [row["title"] for row in rows],
            "series": series,
        }


def _series(
    run: int,
    kind: ScoreKind,
    values: Sequence[float | None],
    low: Sequence[float | None],
    high: Sequence[float | None],
    why_not: Sequence[str] = (),
) -> Json:
    """One run's official or robust values in a chart, with the ends of their intervals, or why
    there is no value.
    """
    columns = {"values": values, "low": low, "high": high, "why_not": why_not}
    return {"run": run, "reading": kind, **columns}


def _histogram(task: JoinedTask) -> Json:
    """How many samples have how many points: for scales of whole points."""
    full_marks = int(task.benchmark.scale.full_marks)
    labels = [*map(str, range(full_marks + 1)), NO_SCORE]
    no_ends = [None] * len(labels)
    series = []
    for (index, run), kind in product(task.present, READER_KINDS):
        verdicts = [sample.verdict(kind) for sample in run.samples]
        counts = Counter(str(round(points)) for points in _points(verdicts))
        counts[NO_SCORE] = len(verdicts) - counts.total()
        series.append(_series(index, kind, [counts[label] for label in labels], no_ends, no_ends))
    return {
        "id": "points",
        "title": f"Samples by points, 0 to {full_marks}",
        "type": "histogram",
        "unit": "samples",
        "x": labels,
        "series": series,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Retrieval:
    """A sample of a run, and the needle that it asks for."""

    run: int
    needle: Needle
    sample: LoggedSample


def needle_charts(task: JoinedTask) -> list[Json]:
    """How often needles in haystacks are retrieved, by their depth and the haystack's length.

    A heat map for each run where depths are known, and lines where only lengths are.
    """
    retrievals = [
        _Retrieval(run=index, needle=sample.needle, sample=sample)
        for index, run in task.present
        for sample in run.samples
        if sample.needle is not None
    ]
    with_depth = [one for one in retrievals if one.needle.depth is not None]
    without_depth = [one for one in retrievals if one.needle.depth is None]
    scale = task.benchmark.scale
    maps = [_heat_map(run, with_depth, scale) for run in sorted({one.run for one in with_depth})]
    return [*maps, _length_chart(without_depth, scale)] if without_depth else maps


def _length_bins(retrievals: Iterable[_Retrieval]) -> dict[float, str]:
    """The greatest length of each bin, ascending, to its label; about as many needles in each."""
    lengths = sorted(one.needle.length for one in retrievals)
    tops = sorted(set(lengths))
    if len(tops) > _MAX_LENGTH_COLUMNS:
        parts = range(1, _MAX_LENGTH_COLUMNS + 1)
        tops = sorted({lengths[len(lengths) * n // _MAX_LENGTH_COLUMNS - 1] for n in parts})
    bottoms = [min(n for n in lengths if n > below) for below in (-math.inf, *tops[:-1])]
    return {
        top: f"{bottom:g}" if bottom == top else f"{bottom:g} to {top:g}"
        for bottom, top in zip(bottoms, tops, strict=True)
    }


def _heat_map(run: int, retrievals: Sequence[_Retrieval], scale: Scale) -> Json:
    bins = _length_bins(retrievals)  # of all runs, so that their maps have the same columns
    cells: list[list[list[Verdict]]] = [[[] for _ in bins] for _ in range(_DEPTH_ROWS)]
    for one in retrievals:
        if one.run == run and one.needle.depth is not None:
            depth = min(_DEPTH_ROWS - 1, max(0, int(one.needle.depth * _DEPTH_ROWS)))
            cells[depth][bisect_left(list(bins), one.needle.length)].append(one.sample.official)
    step = 100 // _DEPTH_ROWS
    return {
        "id": f"needles-heat-{run}",
        "title": "Needles retrieved, by depth and length of the haystack (official score)",
        "type": "heat",
        "unit": "percent",
        "run": run,
        "x": list(bins.values()),
        "y": [f"{depth * step} to {(depth + 1) * step} %" for depth in range(_DEPTH_ROWS)],
        "z": [[_mean_percent(cell, scale) for cell in row] for row in cells],
        "counts": [[len(_points(cell)) for cell in row] for row in cells],
    }


def _length_chart(retrievals: Sequence[_Retrieval], scale: Scale) -> Json:
    bins, full_marks, series = _length_bins(retrievals), scale.full_marks, []
    for run, kind in product(sorted({one.run for one in retrievals}), READER_KINDS):
        cells: list[list[Verdict]] = [[] for _ in bins]
        for one in retrievals:
            if one.run == run:
                at = bisect_left(list(bins), one.needle.length)
                cells[at].append(one.sample.verdict(kind))
        estimates = [stratified_mean([_points(cell)], [1], full_marks) for cell in cells]
        intervals = [e.interval(0, full_marks) if e else None for e in estimates]
        low, high = ([i and i[end] * 100 / full_marks for i in intervals] for end in (0, 1))
        series.append(_series(run, kind, [_mean_percent(c, scale) for c in cells], low, high))
    return {
        "id": "needles-lines",
        "title": "Needles retrieved, by length of the haystack",
        "type": "lines",
        "unit": "percent",
        "x": list(bins.values()),
        "series": series,
    }


def _points(verdicts: Iterable[Verdict]) -> list[float]:
    return [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]


def _mean_percent(verdicts: Iterable[Verdict], scale: Scale) -> float | None:
    mean = mean_of(verdicts, floor=0).value
    return None if mean is None else scale.percent(mean)
