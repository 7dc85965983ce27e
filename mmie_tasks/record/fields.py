"""Reads the fields of a record in a log. Logs are untrusted: any field may have any type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias, TypeVar, get_args

from mmie_tasks.core.verdict import Scored, Unscored, UnscoredReason, Verdict

Line: TypeAlias = Mapping[str, object]
"""One line of a sample log, as lmms-eval wrote it."""

Record: TypeAlias = Mapping[str, object]
"""What a task of ours logged of one sample: the row under ``coverage`` in a line."""

_T = TypeVar("_T")
_REASONS: tuple[str, ...] = get_args(UnscoredReason)


class BadRecord(ValueError):
    """A log line is not a scored sample of this benchmark; the message names the missing field."""


def text(record: Record, name: str) -> str:
    """A required, non-empty text field.

    Raises:
        BadRecord: The field is missing, empty or not a text.
    """
    if value := optional_text(record, name):
        return value
    state = "missing" if record.get(name) is None else "empty"
    raise BadRecord(f"`{name}` is {state}, not a text")


def optional_text(record: Record, name: str) -> str:
    """A text field; empty if it is missing or null.

    Raises:
        BadRecord: The field is not a text.
    """
    return field(record, name, str, "a text") or ""


def texts(record: Record, name: str) -> tuple[str, ...] | None:
    """A list of texts; None if it is missing or null, as in logs of older versions.

    Raises:
        BadRecord: The field is not a list of texts.
    """
    value = field(record, name, list, "a list of texts", elements=str)
    return None if value is None else tuple(value)


def mapping(record: Record, name: str) -> Record:
    """An object field; empty if it is missing or null.

    Raises:
        BadRecord: The field is not an object.
    """
    return field(record, name, Mapping, "an object") or {}  # type: ignore[type-abstract]


def field(
    record: Record, name: str, kind: type[_T], noun: str, elements: type = object
) -> _T | None:
    """A field of this type, or a list of such elements; None if it is missing or null.

    Raises:
        BadRecord: It has another type; `noun` says what it should be.
    """
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, kind) and (
        not isinstance(value, list) or all(isinstance(member, elements) for member in value)
    ):
        return value
    raise BadRecord(f"`{name}` is {type(value).__name__}, not {noun}")


def number(value: object) -> float | None:
    """The value as a float if it is a finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # JSON integers have no size limit
        return None


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
    points = row.get("points", row.get("score"))
    if isinstance(points, (int, float)) and not isinstance(points, bool):
        finite = number(points)
        if finite is None or not (math.isinf(full_marks) or 0 <= finite <= full_marks):
            finite = math.nan
        return Scored(finite, optional_text(row, "reading"))
    reason = row.get("unscored")
    if reason not in _REASONS:
        raise BadRecord(f"`{name}` has neither points nor a known reason for having none")
    return Unscored(reason, optional_text(row, "detail"))  # type: ignore[arg-type]  # checked above
