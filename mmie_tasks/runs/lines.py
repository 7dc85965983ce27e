"""The lines of a sample log, one at a time: a log of 20,000 samples is a hundred megabytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mmie_tasks.errors import AnswersUnusable
from mmie_tasks.review import Line


@dataclass(frozen=True, slots=True)
class Numbered:
    """A line, and where it stands; `line` is None for a last line that was cut off."""

    number: int
    line: Line | None


def lines(log: Path) -> Iterator[Numbered]:
    """Every line of a log that is not blank.

    Raises:
        AnswersUnusable: The log cannot be opened, or a line is no JSON object and not merely the
            last one, cut off; names file and line.
    """
    try:
        with log.open("rb") as file:
            for number, text in enumerate(file, 1):
                if text.strip():
                    yield Numbered(number, _line(log, number, text))
    except OSError as error:
        message = f"Cannot read `{log}`: {error.strerror}."
        raise AnswersUnusable(message, hint="check the path and its permissions") from error


def _line(log: Path, number: int, text: bytes) -> Line | None:
    try:
        value: object = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        if not text.endswith(b"\n"):
            return None
        deep = isinstance(error, RecursionError)
        raise _broken(log, number, "it is nested too deeply" if deep else str(error)) from error
    if not isinstance(value, dict):
        raise _broken(log, number, f"it holds {type(value).__name__}, not an object")
    return value


def _broken(log: Path, number: int, found: str) -> AnswersUnusable:
    message = f"`{log}`, line {number}, is no sample of a log: {found}."
    return AnswersUnusable(message, hint="take the line out, or run the evaluation again")
