"""The runner's table: each sample's rows, and the scores in percent computed from them.

A sample has a row for every metric of its task, empty if it does not count for the metric.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mmie_tasks.core.verdict import Scored, ScoreKind, Unscored, Verdict
from mmie_tasks.record.metrics import Metric, Scale, weighted_mean
from mmie_tasks.record.record import ALL, RECORD_KEY, Record
from mmie_tasks.record.signature import COVERAGE_FLOOR

Row: TypeAlias = dict[str, object]
Aggregation: TypeAlias = Callable[[Sequence[Mapping[str, object]]], float]

COVERAGE = "coverage"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerTable:
    """The lines of a task in the runner's table, including ``coverage``.

    Attributes:
        metrics: The headline, with the lines ``official`` and ``robust``, then the metrics with a
            line ``official_<name>``.
        scale: The scale of the verdicts.
    """

    metrics: tuple[Metric, ...]
    scale: Scale

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the lines, as a task file lists them."""
        return (COVERAGE, *self._metric_of)

    @property
    def _metric_of(self) -> dict[str, tuple[Metric, ScoreKind]]:
        headline = self.metrics[0]
        lines: dict[str, tuple[Metric, ScoreKind]] = {
            "official": (headline, "official"),
            "robust": (headline, "robust"),
        }
        return lines | {
            f"official_{metric.name}": (metric, "official")
            for metric in self.metrics
            if metric.name
        }

    def rows(self, record: Record, **fields: object) -> dict[str, Row]:
        """The row of one sample in each line, and its record; `fields` are added to the rows."""
        if (floor := record.signature.min_coverage) != COVERAGE_FLOOR:
            fields["min_coverage"] = floor
        rows: dict[str, Row] = {RECORD_KEY: record.logged, COVERAGE: _coverage_row(record.official)}
        for name, (metric, kind) in self._metric_of.items():
            group = metric.group_of(record)
            rows[name] = (
                {}
                if group is None
                else {"id": record.id, **fields, **self._row(record, metric, kind, group)}
            )
        return rows

    def _row(self, record: Record, metric: Metric, kind: ScoreKind, group: str) -> Row:
        # A mean of means has no ``score``: the runner's standard error of it would pool the groups.
        verdict = metric.verdict(record, kind, self.scale)
        if isinstance(verdict, Unscored):
            row: Row = {"unscored": verdict.reason}
        else:
            row = {"points": verdict.points}
            if len(metric.weights) == 1:
                row["score"] = 100 * verdict.points / self.scale.full_marks
        return row if len(metric.weights) == 1 else {"group": group, **row}


def aggregation(scale: Scale, weights: Mapping[str, float] | None = None) -> Aggregation:
    """A function for task files that computes a line's score in percent from its rows.

    It returns NaN below the floor of coverage, or if a group has no samples.

    Args:
        scale: The scale of the points.
        weights: Group to weight, for a mean of means; None for a mean over samples.
    """

    def score(rows: Sequence[Mapping[str, object]]) -> float:
        groups: defaultdict[str, list[Verdict]] = defaultdict(list)
        floor = COVERAGE_FLOOR
        for row in filter(None, rows):
            floor = float(str(row.get("min_coverage", floor)))
            groups[ALL if weights is None else str(row["group"])].append(_verdict(row))
        mean = weighted_mean(groups, weights or {ALL: 1}, floor)
        return math.nan if mean.value is None else scale.percent(mean.value)

    return score


def _verdict(row: Mapping[str, object]) -> Verdict:
    points = row.get("points")
    return Scored(float(points)) if isinstance(points, (int, float)) else Unscored(row["unscored"])  # type: ignore[arg-type]  # ours


def coverage(rows: Sequence[Mapping[str, object]]) -> float:
    """Percent of samples with an official score, without those that the official script leaves out;
    NaN without samples.
    """
    scored = [row["scored"] for row in rows if row]
    return 100 * scored.count(True) / len(scored) if scored else math.nan


def _coverage_row(official: Verdict) -> Row:
    is_left_out = isinstance(official, Unscored) and official.reason == "left_out"
    return {} if is_left_out else {"scored": isinstance(official, Scored)}


def logged_value(row: Row, scale: Scale) -> float | None:
    """A row as a number in the log: the share of full marks, 0 to 1; for ``coverage``, 0 or 1."""
    match row:
        case {"points": float(points) | int(points)}:
            return points / scale.full_marks
        case {"scored": bool(scored)}:
            return float(scored)
    return None
