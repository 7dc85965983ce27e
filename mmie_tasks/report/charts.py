"""What is drawn of a task: the numbers of its tables, and how its points spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from mmie_tasks.figures import Figure
from mmie_tasks.report.joined import Joined
from mmie_tasks.report.needles import needle_charts
from mmie_tasks.report.plain import Json, finite
from mmie_tasks.report.tables import Table
from mmie_tasks.review import READINGS, ReadingName
from mmie_tasks.runs.run import TaskRun
from mmie_tasks.verdict import Scored

_ROUND = ("category", "component")  # kinds that a radar shows well
_ORDERED = ("level",)  # kinds whose numbers follow each other

NO_SCORE = "no score"
"""The last bar of a histogram."""


def charts(task: Joined, tables: Sequence[Table]) -> list[Json]:
    """Every chart of a task, as the page reads it."""
    drawn = [chart for table in tables for chart in _of_table(table)]
    if task.review.scale.whole:
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
        for reading in READINGS if any(cells) else ():
            figures = [None if cell is None else cell.figure(reading) for cell in cells]
            yield {
                "run": run,
                "reading": reading,
                "values": [None if each is None else finite(each.percent) for each in figures],
                "low": [_end(each, 0) for each in figures],
                "high": [_end(each, 1) for each in figures],
            }


def _end(found: Figure | None, which: int) -> float | None:
    return finite(found.interval[which]) if found is not None and found.interval else None


def _histogram(task: Joined) -> Json:
    """How many samples have how many points: for scales of whole points."""
    full = int(task.review.scale.full_marks)
    labels = [*map(str, range(full + 1)), NO_SCORE]
    counted = [
        (index, reading, _counts(run, reading, labels))
        for index, run in task.present
        for reading in READINGS
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


def _counts(run: TaskRun, reading: ReadingName, labels: Sequence[str]) -> list[int]:
    verdicts = (sample.verdict(reading) for sample in run.samples)
    found = Counter(str(round(v.points)) if isinstance(v, Scored) else NO_SCORE for v in verdicts)
    return [found[label] for label in labels]
