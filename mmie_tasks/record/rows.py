"""The runner's table: the rows that a sample adds to each metric, and the score of the rows.

Every sample has a row for every metric of its task; the row is empty if the sample does not count
for the metric. So the table of a task has the same lines in every run. All scores are in percent.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mmie_tasks.core.settings import coverage_floor
from mmie_tasks.core.verdict import Scored, Unscored, Verdict
from mmie_tasks.record.metrics import Metric, Scale, weighted_mean
from mmie_tasks.record.record import RECORD_KEY, Record
from mmie_tasks.record.sample import ALL, LoggedSample, ScoreKind

Row: TypeAlias = dict[str, object]
Aggregation: TypeAlias = Callable[[Sequence[Mapping[str, object]]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerTable:
    """The lines of a task in the runner's table: ``official``, ``robust``, ``coverage``, and parts
    of ``official``.

    Attributes:
        metrics: The headline, whose lines are ``official`` and ``robust``, then the metrics with a
            line ``official_<name>``.
        scale: Of the verdicts.
    """

    metrics: tuple[Metric, ...]
    scale: Scale

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the lines, as a task file lists them."""
        return (RECORD_KEY, *self._metric_of)

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
        """The row of one sample in each line.

        Args:
            record: Everything that is needed to score it again; the row of `RECORD_KEY`.
            fields: Further fields of every other row.
        """
        sample = record.sample({})
        rows: dict[str, Row] = {RECORD_KEY: record.model_dump()}
        for name, (metric, kind) in self._metric_of.items():
            group = metric.stratum(sample)
            rows[name] = (
                {}
                if group is None
                else {"id": sample.id, **fields, **self._row(sample, metric, kind, group)}
            )
        return rows

    def _row(self, sample: LoggedSample, metric: Metric, kind: ScoreKind, group: str) -> Row:
        """The row of a sample that counts for the metric.

        It has the points under ``score`` too, in percent, unless the metric is a mean of means: the
        runner computes the standard error of ``score``, which would pool the groups.
        """
        verdict = metric.verdict(sample, kind, self.scale)
        if isinstance(verdict, Unscored):
            row: Row = {"unscored": verdict.reason}
        else:
            row = {"points": verdict.points}
            if len(metric.weights) == 1:
                row["score"] = 100 * verdict.points / self.scale.full_marks
        return row if len(metric.weights) == 1 else {"group": group, **row}


def aggregation(scale: Scale, weights: Mapping[str, float] | None = None) -> Aggregation:
    """The function of a task file that computes a score, in percent, from the rows of a line.

    It gives NaN without a mean: below the floor of coverage, or if a group has no samples.

    Args:
        scale: Of the points.
        weights: Group to its weight, for a mean of means; None for a mean over samples.
    """

    def score(rows: Sequence[Mapping[str, object]]) -> float:
        groups: defaultdict[str, list[Verdict]] = defaultdict(list)
        for row in filter(None, rows):
            groups[ALL if weights is None else group_of(row)].append(_verdict(row))
        mean = weighted_mean(groups, weights or {ALL: 1}, coverage_floor(os.environ))
        return math.nan if mean.value is None else scale.percent(mean.value)

    return score


def group_of(row: Mapping[str, object]) -> str:
    """The group of a sample that counts for a mean of means, from its row."""
    return str(row["group"])


def _verdict(row: Mapping[str, object]) -> Verdict:
    points = row.get("points")
    return Scored(float(points)) if isinstance(points, (int, float)) else Unscored(row["unscored"])  # type: ignore[arg-type]  # ours


def coverage(records: Sequence[Mapping[str, object]]) -> float:
    """Samples with an official score, in percent of those that the official script does not leave
    out; NaN if none.
    """
    official = [record["official"] for record in records]
    reasons = [verdict.get("reason") for verdict in official if isinstance(verdict, Mapping)]
    counted = [reason for reason in reasons if reason != "left_out"]
    return 100 * counted.count(None) / len(counted) if counted else math.nan


def plain_score(rows: Mapping[str, Row]) -> Mapping[str, object]:
    """The official score as a number from 0 to 1, for the runner's ``--baseline``; empty if
    unscored.
    """
    score = rows["official"].get("score")
    return {"score": score / 100} if isinstance(score, (int, float)) else {}
