"""A verdict as a row of a sample's record, written and read."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, get_args

from mmie_tasks.core.verdict import Scored, Unscored, UnscoredReason, Verdict
from mmie_tasks.record.fields import BadRecord, Record, mapping, number, optional_text

PointsKey: TypeAlias = Literal["score", "points"]
"""The key of the points in a row; MMIE's records have ``points``."""

_REASONS: tuple[str, ...] = get_args(UnscoredReason)
_LOGGED_CHARS = 80  # the text that points were read from may be the whole answer


def as_row(
    verdict: Verdict, *, points_key: PointsKey = "score", **fields: object
) -> dict[str, object]:
    """A verdict as the runner logs it: ``score`` and ``reading``, or ``unscored`` and ``detail``.

    An unscored row has no ``score`` key: the runner leaves such rows out of its standard errors,
    and fails on a None there.

    Args:
        verdict: The verdict, on the benchmark's own scale.
        points_key: The key of the points.
        fields: Further fields, which come first.
    """
    match verdict:
        case Scored(points=points, reading=text):
            short = text if len(text) <= _LOGGED_CHARS else f"{text[:_LOGGED_CHARS]}…"
            return {**fields, points_key: points, "reading": short}
        case Unscored(reason=reason, detail=detail):
            return {**fields, "unscored": reason, "detail": detail}


def verdict(record: Record, name: str, full_marks: float = math.inf) -> Verdict:
    """The official, robust or expected verdict of a record, on the scale it was logged in.

    Args:
        record: A sample's record.
        name: ``official``, ``robust`` or ``expected``.
        full_marks: Points outside 0 to `full_marks` become NaN; infinity accepts all points, for
            a benchmark whose official script does not clamp.

    Raises:
        BadRecord: The record has neither points nor a reason.
    """
    row = mapping(record, name)
    points = row.get("points", row.get("score"))  # see `PointsKey`
    if isinstance(points, (int, float)) and not isinstance(points, bool):
        finite = number(points)
        if finite is None or not (math.isinf(full_marks) or 0 <= finite <= full_marks):
            finite = math.nan
        return Scored(finite, optional_text(row, "reading"))
    reason = row.get("unscored")
    if reason not in _REASONS:
        raise BadRecord(f"`{name}` has neither points nor a known reason for having none")
    return Unscored(reason, optional_text(row, "detail"))  # type: ignore[arg-type]  # checked above
