"""The numbers of a task, of every run beside each other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mmie_tasks.core.verdict import differ
from mmie_tasks.results.report.command import Joined
from mmie_tasks.results.report.page import Json, finite
from mmie_tasks.runs.benchmark import Metric, ScoreKind
from mmie_tasks.runs.log_files import TaskRun
from mmie_tasks.runs.metric_values import (
    LEVEL,
    RESAMPLES,
    MetricValue,
    metric_value,
    metrics_of,
    samples_by_stratum,
)

METHOD = (
    f"Intervals are {LEVEL:.0%} percentile bootstrap intervals over samples, "
    f"{RESAMPLES:,} resamples, fixed seed; within groups where a number is a mean of groups."
)

_SHOWN = 0.005  # half of the last digit that is shown of a percentage


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One number of one run.

    Attributes:
        official: By the official reading.
        robust: By the robust reading.
        differ: Samples on which the readings differ.
        stored: What the results file says of each reading where it says anything else.
    """

    official: MetricValue
    robust: MetricValue
    differ: int
    stored: dict[ScoreKind, float]

    def metric_value(self, reading: ScoreKind) -> MetricValue:
        """By one of the readings."""
        return self.official if reading == "official" else self.robust


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A number, and its cell in each run; None where a run has none of its samples."""

    number: Metric
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The numbers of one kind, in the order of the benchmark."""

    kind: str
    lines: tuple[Line, ...]

    @property
    def title(self) -> str:
        """For people."""
        known = {"headline": "Headline", "mean": "Means of groups"}
        return known.get(self.kind, f"By {self.kind}")


def tables(task: Joined) -> list[Table]:
    """Every number that a run has samples for, kind by kind; the headline first."""
    lines = [
        Line(number=number, cells=tuple(_cell(run, number) for run in task.runs))
        for number in metrics_of([run for _, run in task.present])
    ]
    shown = [line for line in lines if any(line.cells)]
    kinds = dict.fromkeys(line.number.kind for line in shown)
    return [
        Table(kind=kind, lines=tuple(line for line in shown if line.number.kind == kind))
        for kind in kinds
    ]


def _cell(run: TaskRun | None, number: Metric) -> Cell | None:
    if run is None:
        return None
    scale = run.benchmark.scale
    official = metric_value(run.samples, number, "official", scale)
    robust = metric_value(run.samples, number, "robust", scale)
    if official is None or robust is None:
        return None
    both = (
        (number.verdict(sample, "official", scale), number.verdict(sample, "robust", scale))
        for members in samples_by_stratum(run.samples, number).values()
        for sample in members
    )
    return Cell(
        official=official,
        robust=robust,
        differ=sum(differ(one, other) for one, other in both),
        stored=_stored(run, number, {"official": official, "robust": robust}),
    )


def _stored(
    run: TaskRun, number: Metric, found: dict[ScoreKind, MetricValue]
) -> dict[ScoreKind, float]:
    """What the runner saved, in percent, where it is another number than the one computed now."""
    other: dict[ScoreKind, float] = {}
    for reading, now in found.items():
        metric = f"{reading}_{number.name}" if number.name else reading
        if metric not in run.stored:
            continue
        saved = run.stored[metric] * 100 / run.benchmark.scale.tabled
        if now.percent is None or abs(saved - now.percent) > _SHOWN:
            other[reading] = saved
    return other


def as_json(found: Iterable[Table]) -> list[Json]:
    """The tables as the page reads them."""
    return [
        {
            "kind": table.kind,
            "title": table.title,
            "rows": [
                {
                    "name": line.number.name,
                    "title": line.number.title,
                    "cells": [None if cell is None else _cell_json(cell) for cell in line.cells],
                }
                for line in table.lines
            ],
        }
        for table in found
    ]


def _cell_json(cell: Cell) -> Json:
    return {
        "official": _figure_json(cell.official, cell.stored.get("official")),
        "robust": _figure_json(cell.robust, cell.stored.get("robust")),
        "differ": cell.differ,
    }


def _figure_json(found: MetricValue, stored: float | None) -> Json:
    return {
        "percent": finite(found.percent),
        "low": finite(found.interval.low) if found.interval else None,
        "high": finite(found.interval.high) if found.interval else None,
        "scored": found.scored,
        "total": found.total,
        "why_not": found.why_not,
        "stored": finite(stored),
    }
