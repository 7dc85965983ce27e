"""Reads the fields of a record in a log. Logs are untrusted: any field may have any type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias, TypeVar

from mmie_tasks.core.verdict import Unscored

Line: TypeAlias = Mapping[str, object]
"""One line of a sample log, as lmms-eval wrote it."""

Record: TypeAlias = Mapping[str, object]
"""What a task of ours logged of one sample: the row under ``coverage`` in a line."""

_T = TypeVar("_T")


class BadRecord(ValueError):
    """A log line is not a scored sample of this benchmark; the message names the missing field."""


class NoJudgeRequest(BadRecord):
    """There is no request to a judge about an answer: the judge of a run would not be asked either.

    Args:
        unscored: Why.

    >>> print(NoJudgeRequest(Unscored("left_out", "5 images")))
    left_out: 5 images
    """

    def __init__(self, unscored: Unscored) -> None:
        self.unscored = unscored
        super().__init__(f"{unscored.reason}: {unscored.detail}")


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
    """A list of texts; None if it is missing or null.

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
