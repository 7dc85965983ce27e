"""What is drawn of a task: the numbers of its tables, and how its points spread."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mmie_tasks.core.bootstrap import bootstrap_interval
from mmie_tasks.core.verdict import Scored, Verdict
from mmie_tasks.results.report.command import Joined
from mmie_tasks.results.report.page import Json, finite
from mmie_tasks.results.report.tables import Table
from mmie_tasks.runs.benchmark import SCORE_KINDS, LoggedSample, Scale, ScoreKind
from mmie_tasks.runs.log_files import TaskRun
from mmie_tasks.runs.metric_values import MetricValue

# Needles in haystacks: how often one is found, by where it lies and how long the haystack is.
#
# A room says of a sample `LENGTH` (a count, such as images) and, where it is known, `DEPTH`.

LENGTH = "needle_length"
"""The fact of how long the haystack is; 0 or more."""

DEPTH = "needle_depth"
"""The fact of how deep the needle lies; 0 is the beginning, 1 the end."""

_DEPTHS = 5  # rows of the heat map
_LENGTHS = 12  # columns at most


@dataclass(frozen=True, slots=True, kw_only=True)
class _Needle:
    """A sample with a needle."""

    run: int
    length: float
    depth: float | None
    sample: LoggedSample


def needle_charts(task: Joined) -> list[Json]:
    """A heat map for each run where depths are known, and a line where only lengths are."""
    found = [
        needle
        for index, run in task.present
        for sample in run.samples
        if (needle := _needle(index, sample)) is not None
    ]
    deep = [needle for needle in found if needle.depth is not None]
    flat = [needle for needle in found if needle.depth is None]
    scale = task.benchmark.scale
    maps = [_heat(run, deep, scale) for run in sorted({needle.run for needle in deep})]
    return [*maps, _line(flat, scale)] if flat else maps


def _needle(run: int, sample: LoggedSample) -> _Needle | None:
    length, depth = (_number(sample.facts.get(name)) for name in (LENGTH, DEPTH))
    if length is None:
        return None
    return _Needle(run=run, length=length, depth=depth, sample=sample)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


@dataclass(frozen=True, slots=True)
class _Bins:
    """Lengths in groups of about as many needles each.

    Attributes:
        tops: The greatest length of each group, ascending.
        labels: Of each group.
    """

    tops: tuple[float, ...]
    labels: tuple[str, ...]

    def place(self, length: float) -> int:
        """The group of a length that is among those the groups were made of."""
        return next(place for place, top in enumerate(self.tops) if length <= top)


def _bins(needles: Iterable[_Needle]) -> _Bins:
    lengths = sorted(needle.length for needle in needles)
    tops = sorted(set(lengths))
    if len(tops) > _LENGTHS:
        at = [len(lengths) * part // _LENGTHS - 1 for part in range(1, _LENGTHS + 1)]
        tops = sorted({lengths[each] for each in at})
    bottoms = [min(each for each in lengths if each > below) for below in (-math.inf, *tops[:-1])]
    labels = [
        f"{low:g}" if low == top else f"{low:g} to {top:g}"
        for low, top in zip(bottoms, tops, strict=True)
    ]
    return _Bins(tuple(tops), tuple(labels))


def _heat(run: int, needles: Sequence[_Needle], scale: Scale) -> Json:
    bins = _bins(needles)  # of all runs, so that their maps have the same columns
    cells: Mapping[tuple[int, int], list[Verdict]] = defaultdict(list)
    for each in needles:
        if each.run == run and each.depth is not None:
            depth = min(_DEPTHS - 1, max(0, int(each.depth * _DEPTHS)))
            cells[depth, bins.place(each.length)].append(each.sample.official)
    step = 100 // _DEPTHS
    rows = [
        [cells.get((depth, length), []) for length in range(len(bins.tops))]
        for depth in range(_DEPTHS)
    ]
    return {
        "id": f"needles-heat-{run}",
        "title": "Needles found, by depth and length of the haystack (official)",
        "type": "heat",
        "unit": "percent",
        "run": run,
        "x": list(bins.labels),
        "y": [f"{depth * step} to {(depth + 1) * step} %" for depth in range(_DEPTHS)],
        "z": [[_mean(cell, scale) for cell in row] for row in rows],
        "counts": [[len(_points(cell)) for cell in row] for row in rows],
    }


def _line(needles: Sequence[_Needle], scale: Scale) -> Json:
    bins = _bins(needles)
    return {
        "id": "needles-lines",
        "title": "Needles found, by length of the haystack",
        "type": "lines",
        "unit": "percent",
        "x": list(bins.labels),
        "series": list(_series_needles(needles, bins, scale)),
    }


def _series_needles(needles: Sequence[_Needle], bins: _Bins, scale: Scale) -> Iterator[Json]:
    for run in sorted({needle.run for needle in needles}):
        for reading in SCORE_KINDS:
            cells: list[list[Verdict]] = [[] for _ in bins.tops]
            for each in needles:
                if each.run == run:
                    cells[bins.place(each.length)].append(each.sample.verdict(reading))
            ends = [bootstrap_interval(_points(cell)) for cell in cells]
            full = 100 / scale.full_marks
            yield {
                "run": run,
                "reading": reading,
                "values": [_mean(cell, scale) for cell in cells],
                "low": [finite(each.low * full) if each else None for each in ends],
                "high": [finite(each.high * full) if each else None for each in ends],
            }


def _points(verdicts: Iterable[Verdict]) -> list[float]:
    return [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]


def _mean(verdicts: Iterable[Verdict], scale: Scale) -> float | None:
    points = _points(verdicts)
    return finite(scale.percent(sum(points) / len(points))) if points else None


_ROUND = ("category", "component")  # kinds that a radar shows well
_ORDERED = ("level",)  # kinds whose numbers follow each other

NO_SCORE = "no score"
"""The last bar of a histogram."""


def charts(task: Joined, tables: Sequence[Table]) -> list[Json]:
    """Every chart of a task, as the page reads it."""
    drawn = [chart for table in tables for chart in _of_table(table)]
    if task.benchmark.scale.whole:
        drawn.append(_histogram(task))
    return [*drawn, *needle_charts(task)]


def _of_table(table: Table) -> Iterator[Json]:
    if len(table.lines) < 2:
        return
    name = table.title if table.kind != "headline" else "Headlines"
    main: Literal["bars", "lines"] = "lines" if table.kind in _ORDERED else "bars"
    shapes: list[str] = [main]
    if table.kind in _ROUND and len(table.lines) > 2:
        shapes.append("radar")
    for shape in shapes:
        yield {
            "id": f"{table.kind}-{shape}",
            "title": f"{name}, radar" if shape == "radar" else name,
            "type": shape,
            "unit": "percent",
            "x": [line.number.title for line in table.lines],
            "series": list(_series(table)),
        }


def _series(table: Table) -> Iterator[Json]:
    for run in range(len(table.lines[0].cells)):
        cells = [line.cells[run] for line in table.lines]
        for reading in SCORE_KINDS if any(cells) else ():
            figures = [None if cell is None else cell.metric_value(reading) for cell in cells]
            yield {
                "run": run,
                "reading": reading,
                "values": [None if each is None else finite(each.percent) for each in figures],
                "low": [_end(each, 0) for each in figures],
                "high": [_end(each, 1) for each in figures],
            }


def _end(found: MetricValue | None, which: int) -> float | None:
    return finite(found.interval[which]) if found is not None and found.interval else None


def _histogram(task: Joined) -> Json:
    """How many samples have how many points: for scales of whole points."""
    full = int(task.benchmark.scale.full_marks)
    labels = [*map(str, range(full + 1)), NO_SCORE]
    counted = [
        (index, reading, _counts(run, reading, labels))
        for index, run in task.present
        for reading in SCORE_KINDS
    ]
    return {
        "id": "points",
        "title": f"Samples by points, 0 to {full}",
        "type": "histogram",
        "unit": "samples",
        "x": labels,
        "series": [
            {
                "run": index,
                "reading": reading,
                "values": counts,
                "low": [None] * len(counts),
                "high": [None] * len(counts),
            }
            for index, reading, counts in counted
        ],
    }


def _counts(run: TaskRun, reading: ScoreKind, labels: Sequence[str]) -> list[int]:
    verdicts = (sample.verdict(reading) for sample in run.samples)
    found = Counter(str(round(v.points)) if isinstance(v, Scored) else NO_SCORE for v in verdicts)
    return [found[label] for label in labels]
