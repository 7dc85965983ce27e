"""Tables and charts of a task: the metrics of all runs, histograms, and needle retrieval."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from mmie_tasks.core.bootstrap import LEVEL, Interval, bootstrap_interval
from mmie_tasks.core.verdict import Scored, Verdict, differ, tally
from mmie_tasks.results.report.page import Json, finite
from mmie_tasks.results.report.samples import JoinedTask
from mmie_tasks.runs.benchmark import SCORE_KINDS, LoggedSample, Metric, Scale, ScoreKind
from mmie_tasks.runs.log_files import TaskRun
from mmie_tasks.runs.log_line import number
from mmie_tasks.runs.metric_values import (
    RESAMPLES,
    MetricValue,
    metric_value,
    metrics_of,
)

METHOD = (
    f"Intervals are {LEVEL:.0%} percentile bootstrap intervals over samples, "
    f"{RESAMPLES:,} resamples, fixed seed; within groups where a score is a mean of groups."
)

NEEDLE_LENGTH = "needle_length"
"""The fact of a sample that holds the length of the haystack (such as images); 0 or more."""

NEEDLE_DEPTH = "needle_depth"
"""The fact of a sample that holds the depth of the needle, if known; 0 is the beginning, 1 the
end."""

NO_SCORE = "no score"
"""The last bar of a histogram."""

_RADAR_KINDS = ("category", "component")
_ORDERED_KINDS = ("level",)  # metrics that follow each other: lines instead of bars
_HALF_DIGIT = 0.005  # half of the last digit of a displayed percentage
_DEPTH_ROWS = 5  # of the heat map
_MAX_LENGTH_COLUMNS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One metric of one run.

    Attributes:
        values: By official and by robust score.
        differ: Samples whose two scores differ.
        stored: The value in the results file, by score, where it is another.
    """

    values: dict[ScoreKind, MetricValue]
    differ: int
    stored: dict[ScoreKind, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A metric, and its cell in each run; None where a run has none of its samples."""

    metric: Metric
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The metrics of one kind, in the order of the benchmark."""

    kind: str
    rows: tuple[TableRow, ...]

    @property
    def title(self) -> str:
        """The heading of the table."""
        titles = {"headline": "Headline", "mean": "Means of groups"}
        return titles.get(self.kind, f"By {self.kind}")


def metric_tables(task: JoinedTask) -> list[Table]:
    """Every metric that a run has samples for, kind by kind; the headline first."""
    rows = [
        TableRow(metric=metric, cells=tuple(_cell(run, metric) for run in task.runs))
        for metric in metrics_of([run for _, run in task.present])
    ]
    with_cells = [row for row in rows if any(row.cells)]
    kinds = dict.fromkeys(row.metric.kind for row in with_cells)
    return [
        Table(kind=kind, rows=tuple(row for row in with_cells if row.metric.kind == kind))
        for kind in kinds
    ]


def _cell(run: TaskRun | None, metric: Metric) -> Cell | None:
    if run is None:
        return None
    scale = run.benchmark.scale
    samples = [sample for sample in run.samples if metric.stratum(sample) is not None]
    values: dict[ScoreKind, MetricValue] = {
        kind: value
        for kind in SCORE_KINDS
        if (value := metric_value(samples, metric, kind, scale)) is not None
    }
    if not values:
        return None
    verdicts = ([metric.verdict(s, kind, scale) for kind in SCORE_KINDS] for s in samples)
    differing = sum(differ(*pair) for pair in verdicts)
    return Cell(values=values, differ=differing, stored=_stored(run, metric, values))


def _stored(
    run: TaskRun, metric: Metric, values: Mapping[ScoreKind, MetricValue]
) -> dict[ScoreKind, float]:
    """What the runner saved, in percent, where it differs from the value of the samples."""
    stored: dict[ScoreKind, float] = {}
    for kind, value in values.items():
        name = f"{kind}_{metric.name}" if metric.name else kind
        if name not in run.stored:
            continue
        percent = run.stored[name] * 100 / run.benchmark.scale.tabled
        if value.percent is None or abs(percent - value.percent) > _HALF_DIGIT:
            stored[kind] = percent
    return stored


def tables_json(tables: Iterable[Table]) -> list[Json]:
    """The tables for the page."""
    return [
        {
            "kind": table.kind,
            "title": table.title,
            "rows": [
                {
                    "name": row.metric.name,
                    "title": row.metric.title,
                    "cells": [cell and _cell_json(cell) for cell in row.cells],
                }
                for row in table.rows
            ],
        }
        for table in tables
    ]


def _cell_json(cell: Cell) -> Json:
    values: Json = {
        kind: {
            "percent": finite(value.percent),
            "low": finite(value.interval.low) if value.interval else None,
            "high": finite(value.interval.high) if value.interval else None,
            "scored": value.scored,
            "total": value.total,
            "why_not": value.why_not,
            "stored": finite(cell.stored.get(kind)),
        }
        for kind, value in cell.values.items()
    }
    return {**values, "differ": cell.differ}


def charts(task: JoinedTask, tables: Sequence[Table]) -> list[Json]:
    """Every chart of a task, for the page."""
    charts = [chart for table in tables for chart in _table_charts(table)]
    if task.benchmark.scale.whole:
        charts.append(_histogram(task))
    return [*charts, *needle_charts(task)]


def _table_charts(table: Table) -> Iterator[Json]:
    if len(table.rows) < 2:
        return
    title = table.title if table.kind != "headline" else "Headlines"
    titles = {"lines" if table.kind in _ORDERED_KINDS else "bars": title}
    if table.kind in _RADAR_KINDS and len(table.rows) > 2:
        titles["radar"] = f"{title}, radar"
    for shape, shape_title in titles.items():
        yield {
            "id": f"{table.kind}-{shape}",
            "title": shape_title,
            "type": shape,
            "unit": "percent",
            "x": [row.metric.title for row in table.rows],
            "series": list(_metric_series(table)),
        }


def _metric_series(table: Table) -> Iterator[Json]:
    for run in range(len(table.rows[0].cells)):
        cells = [row.cells[run] for row in table.rows]
        for kind in SCORE_KINDS if any(cells) else ():
            values = [cell.values[kind] if cell else None for cell in cells]
            percents = [value.percent if value else None for value in values]
            intervals = [value.interval if value else None for value in values]
            yield _series(run, kind, percents, intervals)


def _series(
    run: int,
    kind: ScoreKind,
    values: Iterable[float | None],
    intervals: Sequence[Interval | None],
) -> Json:
    """One run's official or robust values in a chart, with the ends of their intervals."""
    return {
        "run": run,
        "reading": kind,
        "values": list(map(finite, values)),
        "low": [finite(interval.low) if interval else None for interval in intervals],
        "high": [finite(interval.high) if interval else None for interval in intervals],
    }


def _histogram(task: JoinedTask) -> Json:
    """How many samples have how many points: for scales of whole points."""
    full_marks = int(task.benchmark.scale.full_marks)
    labels = [*map(str, range(full_marks + 1)), NO_SCORE]
    series = []
    for (index, run), kind in product(task.present, SCORE_KINDS):
        verdicts = [sample.verdict(kind) for sample in run.samples]
        counts = Counter(str(round(v.points)) for v in verdicts if isinstance(v, Scored))
        counts[NO_SCORE] = len(verdicts) - counts.total()
        series.append(
            _series(index, kind, [counts[label] for label in labels], [None] * len(labels))
        )
    return {
        "id": "points",
        "title": f"Samples by points, 0 to {full_marks}",
        "type": "histogram",
        "unit": "samples",
        "x": labels,
        "series": series,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Needle:
    """A sample with a needle."""

    run: int
    length: float
    depth: float | None
    sample: LoggedSample


def needle_charts(task: JoinedTask) -> list[Json]:
    """How often needles in haystacks are retrieved, by their depth and the haystack's length.

    A heat map for each run where depths are known, and lines where only lengths are. A benchmark
    states them as the facts `NEEDLE_LENGTH` and `NEEDLE_DEPTH` of a sample.
    """
    needles = []
    for index, run in task.present:
        for sample in run.samples:
            length, depth = (number(sample.facts.get(n)) for n in (NEEDLE_LENGTH, NEEDLE_DEPTH))
            if length is not None:
                needles.append(_Needle(run=index, length=length, depth=depth, sample=sample))
    with_depth = [needle for needle in needles if needle.depth is not None]
    without_depth = [needle for needle in needles if needle.depth is None]
    scale = task.benchmark.scale
    maps = [_heat_map(run, with_depth, scale) for run in sorted({n.run for n in with_depth})]
    return [*maps, _length_chart(without_depth, scale)] if without_depth else maps


def _length_bins(needles: Iterable[_Needle]) -> dict[float, str]:
    """The greatest length of each bin, ascending, to its label; about as many needles in each."""
    lengths = sorted(needle.length for needle in needles)
    tops = sorted(set(lengths))
    if len(tops) > _MAX_LENGTH_COLUMNS:
        parts = range(1, _MAX_LENGTH_COLUMNS + 1)
        tops = sorted({lengths[len(lengths) * n // _MAX_LENGTH_COLUMNS - 1] for n in parts})
    bottoms = [min(n for n in lengths if n > below) for below in (-math.inf, *tops[:-1])]
    return {
        top: f"{bottom:g}" if bottom == top else f"{bottom:g} to {top:g}"
        for bottom, top in zip(bottoms, tops, strict=True)
    }


def _heat_map(run: int, needles: Sequence[_Needle], scale: Scale) -> Json:
    bins = _length_bins(needles)  # of all runs, so that their maps have the same columns
    verdicts: defaultdict[tuple[int, int], list[Verdict]] = defaultdict(list)
    for needle in needles:
        if needle.run == run and needle.depth is not None:
            depth = min(_DEPTH_ROWS - 1, max(0, int(needle.depth * _DEPTH_ROWS)))
            length = bisect_left(list(bins), needle.length)
            verdicts[depth, length].append(needle.sample.official)
    step = 100 // _DEPTH_ROWS
    cells = [
        [verdicts.get((depth, length), []) for length in range(len(bins))]
        for depth in range(_DEPTH_ROWS)
    ]
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


def _length_chart(needles: Sequence[_Needle], scale: Scale) -> Json:
    bins, percent, series = _length_bins(needles), 100 / scale.full_marks, []
    for run, kind in product(sorted({needle.run for needle in needles}), SCORE_KINDS):
        cells: list[list[Verdict]] = [[] for _ in bins]
        for needle in needles:
            if needle.run == run:
                cells[bisect_left(list(bins), needle.length)].append(needle.sample.verdict(kind))
        intervals = [bootstrap_interval(_points(cell)) for cell in cells]
        in_percent = [i and Interval(i.low * percent, i.high * percent) for i in intervals]
        series.append(
            _series(run, kind, (_mean_percent(cell, scale) for cell in cells), in_percent)
        )
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
    mean = tally(verdicts).mean
    return None if mean is None else finite(scale.percent(mean))
