"""Metrics of a benchmark: what is averaged, with which weights, and from which coverage on."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mmie_tasks.core.verdict import Scored, ScoreKind, Unscored, Verdict
from mmie_tasks.core.wording import counted
from mmie_tasks.record.record import ALL, Record


def slug(title: str) -> str:
    """A title as the name of a metric or task.

    >>> slug("Image-based 3D Reasoning"), slug(" EECS ")
    ('image_based_3d_reasoning', 'eecs')
    """
    return re.sub(r"\W+", "_", title.strip()).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A benchmark's own scale of points: 0 to `full_marks`.

    Attributes:
        full_marks: The maximum: 6, 1 or 100.
        unit: The unit for headings: ``points, 0 to 6``.
        whole: Whether points are whole numbers, so that a histogram can count them.
        open_ended: Whether points outside the scale count, because the official script does not
            check them.
        percent: Converts mean points to percent, rounded as in the benchmark's official table.
    """

    full_marks: float
    unit: str
    whole: bool = False
    open_ended: bool = False
    percent: Callable[[float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A mean over samples, or a weighted mean of group means.

    Attributes:
        name: Suffix after ``official_`` and ``robust_`` in the runner's table and the results file;
            empty for a headline.
        title: The title for display: ``Situational analysis``.
        kind: Metrics of one kind are shown together: ``headline``, ``category``, ``field``, ...
        by: The kind of group whose means are averaged.
        weights: Group to weight; weights add up to 1. The metric has no value if a group has no
            samples.
        in_table: Whether the paper's table has such a column: the report shows it, with an
            interval.
        component: Component whose share of full marks is averaged; empty for the sample's points.
    """

    name: str
    title: str
    kind: str
    by: str = ALL
    weights: Mapping[str, float] = field(default_factory=lambda: {ALL: 1.0})
    in_table: bool = False
    component: str = ""

    @classmethod
    def of_group(
        cls, kind: str, name: str, title: str, *, in_table: bool = True, component: str = ""
    ) -> Metric:
        """The mean over the samples of one group."""
        return cls(
            name=name,
            title=title,
            kind=kind,
            by=kind,
            weights={name: 1},
            in_table=in_table,
            component=component,
        )

    def group_of(self, record: Record) -> str | None:
        """The group in `weights` that contains the sample; None if it does not count."""
        for name in record.names(self.by):
            if name in self.weights:
                return name
        return None

    def verdict(self, record: Record, kind: ScoreKind, scale: Scale) -> Verdict:
        """The sample's verdict, or its component's share of full marks as points."""
        whole = record.verdict(kind)
        if not self.component or isinstance(whole, Unscored):
            return whole
        share = record.verdicts.shares.get(kind, {}).get(self.component)
        if share is None:
            return Unscored("unparsed", "no mark for this component")
        return Scored(share * scale.full_marks)


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean in points, or None and the reason."""

    value: float | None
    why_not: str = ""


def weighted_mean(
    groups: Mapping[str, Sequence[Verdict]],
    weights: Mapping[str, float],
    floor: float,
    by: str = "group",
) -> Mean:
    """The weighted mean of group means, in points, or the reason there is none.

    Samples that the official script leaves out do not count for the mean or the coverage.

    Args:
        groups: Group to verdicts.
        weights: Group to weight; weights add up to 1.
        floor: Coverage below which a group has no mean, 0 to 1.
        by: The word for a group in the reason.

    >>> weighted_mean({"a": [Scored(1), Unscored("left_out")]}, {"a": 0.5, "b": 0.5}, 0.9).why_not
    '1 of 2 groups not in this run: b'
    """
    if absent := [name for name in weights if not groups.get(name)]:
        if len(weights) == 1:
            return Mean(None, "no samples in this run")
        more = ", ..." if len(absent) > 1 else ""
        count = counted(len(weights), by)
        return Mean(None, f"{len(absent)} of {count} not in this run: {absent[0]}{more}")
    total, reasons = 0.0, []
    for name, weight in weights.items():
        verdicts = [verdict for verdict in groups[name] if not is_left_out(verdict)]
        points = [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]
        label = f"{name}: " if len(weights) > 1 else ""
        if not points:
            reasons.append(f"{label}no sample has a score")
        elif len(points) / len(verdicts) < floor:
            reasons.append(f"{label}only {len(points)} of {len(verdicts)} samples have a score")
        else:
            total += weight * (math.fsum(points) / len(points))  # the same in any order
    more = f"; {len(reasons) - 2} more reasons" if len(reasons) > 2 else ""
    return Mean(None, "; ".join(reasons[:2]) + more) if reasons else Mean(total)


def is_left_out(verdict: Verdict) -> bool:
    """Whether the official script leaves the sample out."""
    return isinstance(verdict, Unscored) and verdict.reason == "left_out"
