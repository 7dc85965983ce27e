"""Reading JSON and JSONL files that a stranger, or a crashed run, has left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mmie_tasks.errors import AnswersUnusable

_BOM = b"\xef\xbb\xbf"
_HINT_JSON = "repair the file, or point `path` at another one"


@dataclass(frozen=True, slots=True)
class Entry:
    """One JSON value, and where in the file it stands."""

    value: object
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a file holds: the lines of a JSONL, the items of a list, or one other value."""

    kind: Literal["lines", "list", "single"]
    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()


class _Repeated(ValueError):
    """A key stands twice in one JSON object; JSON readers keep the last and say nothing."""


def read_file(path: Path) -> Contents:
    """Read a JSON or JSONL file, whatever its name ends with.

    A JSONL whose last line was cut off, as a killed run leaves it, is read without that line, and
    a note says so.

    Raises:
        AnswersUnusable: It cannot be opened, or is not JSON in UTF-8; names file and line.
    """
    try:
        data = path.read_bytes().removeprefix(_BOM)
    except OSError as error:
        raise AnswersUnusable(
            f"Cannot read {path}: {error.strerror}.", hint="check the path and its permissions"
        ) from error
    if path.suffix == ".jsonl" and not data.lstrip().startswith(b"["):
        return _lines(data, path)
    try:
        return _whole(data)
    except _Repeated as error:
        raise AnswersUnusable(
            f"{path}: the key {error} stands there twice.", hint="keep one of the two answers"
        ) from error
    except (ValueError, RecursionError) as error:
        if _starts_with_an_object(data):
            return _lines(data, path)
        raise _not_json(path, _reason(error)) from error


def _whole(data: bytes) -> Contents:
    if not data.strip():
        return Contents(kind="list", entries=())
    value: object = json.loads(data.decode(), object_pairs_hook=_without_repeats)
    if isinstance(value, list):
        entries = (Entry(item, f"entry {number}") for number, item in enumerate(value, 1))
        return Contents(kind="list", entries=tuple(entries))
    return Contents(kind="single", entries=(Entry(value, "the whole file"),))


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _Repeated(repr(next(key for key in keys if keys.count(key) > 1)))
    return fields


def _starts_with_an_object(data: bytes) -> bool:
    """Whether the first line is a JSON object by itself, so that the file is a JSONL."""
    first, _, rest = data.lstrip().partition(b"\n")
    try:
        return bool(rest) and isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def _lines(data: bytes, path: Path) -> Contents:
    entries: list[Entry] = []
    notes: list[str] = []
    for number, line, cut in _numbered(data):
        entry = _entry(number, line)
        if isinstance(entry, Entry):
            entries.append(entry)
        elif cut:
            notes.append(f"{path}: line {number}, the last, is cut off and was left out")
        else:
            raise _not_json(f"{path}, line {number}", entry)
    return Contents(kind="lines", entries=tuple(entries), notes=tuple(notes))


def _entry(number: int, line: bytes) -> Entry | str:
    """The value in a line, or why there is none."""
    try:
        return Entry(json.loads(line.decode()), f"line {number}")
    except (ValueError, RecursionError) as error:
        return _reason(error)


def _numbered(data: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """Every line that is not blank: its number, itself, and whether it may have been cut off."""
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, line, number == len(lines)


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _not_json(where: object, reason: str) -> AnswersUnusable:
    return AnswersUnusable(f"{where}: not JSON in UTF-8 ({reason}).", hint=_HINT_JSON)
