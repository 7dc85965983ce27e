"""Metrics of a benchmark: means over samples, and weighted means of group means."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mmie_tasks.core.tables import counted
from mmie_tasks.core.verdict import COVERAGE_FLOOR, Scored, Unscored, Verdict
from mmie_tasks.record.sample import ALL, LoggedSample, ScoreKind


def slug(title: str) -> str:
    """The name of a metric or a task for a title.

    >>> slug("Image-based 3D Reasoning"), slug(" EECS ")
    ('image_based_3d_reasoning', 'eecs')
    """
    return re.sub(r"\W+", "_", title.strip()).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A benchmark's own scale of points: 0 to `full_marks`.

    Attributes:
        full_marks: The maximum: 6, 1 or 100.
        unit: For headings: ``points, 0 to 6``.
        whole: Whether points are whole numbers, so that a histogram can count them.
        percent: Converts a mean of points to a score in percent, rounded as in the benchmark's
            official table.
    """

    full_marks: float
    unit: str
    whole: bool = False
    percent: Callable[[float], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A mean over samples, or a weighted mean of group means, that a benchmark reports.

    Attributes:
        name: Suffix behind ``official_`` and ``robust_`` in the runner's table and in the results
            file; empty for a headline without suffix.
        title: For display: ``Situational analysis``.
        kind: Metrics of one kind are shown together: ``headline``, ``category``, ``field``, ...
        by: The kind of group whose means are averaged.
        weights: Group to its weight; weights add up to 1. If a group has no samples, the metric
            has no value.
        in_table: Whether the runner's table has a line ``official_<name>`` for it: the paper's own
            columns.
        part: Name of a component; its fraction of full marks is averaged instead of the sample's
            points. Empty for whole samples.
    """

    name: str
    title: str
    kind: str
    by: str = ALL
    weights: Mapping[str, float] = field(default_factory=lambda: {ALL: 1.0})
    in_table: bool = False
    part: str = ""

    def stratum(self, sample: LoggedSample) -> str | None:
        """The group of `weights` that contains the sample; None if the sample does not count."""
        for name in sample.names(self.by):
            if name in self.weights:
                return name
        return None

    def verdict(self, sample: LoggedSample, kind: ScoreKind, scale: Scale) -> Verdict:
        """The sample's contribution in points: its verdict, or its component's share of a scale."""
        whole = sample.verdict(kind)
        if not self.part or isinstance(whole, Unscored):
            return whole
        share = sample.parts.get(kind, {}).get(self.part)
        if share is None:
            return Unscored("unparsed", "no mark for this component")
        return Scored(share * scale.full_marks)


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean on the benchmark's own scale, or None and the reason why there is none."""

    value: float | None
    why_not: str = ""


def mean_of(verdicts: Iterable[Verdict], floor: float = COVERAGE_FLOOR) -> Mean:
    """The mean points of the scored samples; none if their share is below the floor, 0 to 1.

    >>> mean_of([Scored(1.0), Scored(0.0), Unscored("no_answer")], floor=0.5).value
    0.5
    """
    verdicts = list(verdicts)
    points = [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]
    if not points:
        return Mean(None, "no sample has a score")
    if len(points) / len(verdicts) < floor:
        return Mean(None, f"only {len(points)} of {len(verdicts)} samples have a score")
    return Mean(math.fsum(points) / len(points))  # the same in any order


def weighted_mean(
    groups: Mapping[str, Sequence[Verdict]],
    weights: Mapping[str, float],
    floor: float,
    by: str = "part",
) -> Mean:
    """The weighted mean of the groups' means, in points, or the reason there is none.

    Samples that the official script leaves out enter neither the mean nor the coverage.

    Args:
        groups: Group to its verdicts.
        weights: Group to its weight; weights add up to 1.
        floor: Of coverage, below which a group has no mean, 0 to 1.
        by: What a group is, for the reason.

    >>> weighted_mean({"a": [Scored(1), Unscored("left_out")]}, {"a": 0.5, "b": 0.5}, 0.9).why_not
    '1 of 2 parts not in this run: b'
    """
    if absent := [name for name in weights if not groups.get(name)]:
        if len(weights) == 1:
            return Mean(None, "no samples in this run")
        more = ", ..." if len(absent) > 1 else ""
        return Mean(
            None, f"{len(absent)} of {counted(len(weights), by)} not in this run: {absent[0]}{more}"
        )
    total, reasons = 0.0, []
    for name, weight in weights.items():
        counted_verdicts = [
            v for v in groups[name] if isinstance(v, Scored) or v.reason != "left_out"
        ]
        mean = mean_of(counted_verdicts, floor)
        total += weight * (mean.value or 0.0)
        if mean.why_not:
            reasons.append(f"{name}: {mean.why_not}" if len(weights) > 1 else mean.why_not)
    more = f"; {len(reasons) - 2} more reasons" if len(reasons) > 2 else ""
    return Mean(None, "; ".join(reasons[:2]) + more) if reasons else Mean(total)
