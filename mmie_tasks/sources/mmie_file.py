"""MMIE's data file: where it lies, and the values in it, one at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from mmie_tasks.errors import DataMissing

ANNOTATION = "data.json"

LAYOUT = (
    f"the layout is `{ANNOTATION}`, the file of MMIE/MMIE or one in the official judge's form, "
    "beside `images/`; point `MMIE_DATA` at their folder, or unset it to download from the Hub"
)
_EXAMPLE = "overview.json"  # of the same repository
_SPACE = " \t\r\n"


def local_file(named: Path) -> Path:
    """The data file that a folder, or a file in it, stands for.

    Args:
        named: What ``MMIE_DATA`` says.

    Raises:
        DataMissing: There is none, or only the repository's example of the form.
    """
    if not named.exists():
        message = f"`MMIE_DATA` is `{named}`: there is no such folder or file."
        raise DataMissing(message, hint=LAYOUT)
    path = named / ANNOTATION if named.is_dir() else named
    if path.is_file() and path.name != _EXAMPLE:
        return path
    there = ", ".join(sorted(one.name for one in path.parent.iterdir())[:20]) or "nothing"
    found = f"`{path.parent}` holds no `{ANNOTATION}`; there: {there}."
    if (path.parent / _EXAMPLE).is_file():
        found += f" `{_EXAMPLE}` shows the form with a few rows, and is not the benchmark."
    raise DataMissing(found, hint=LAYOUT)


def content_of(path: Path) -> bytes:
    """The file's bytes.

    Raises:
        DataMissing: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataMissing(f"`{path}` cannot be read: {error.strerror}.", hint=LAYOUT) from error


def values(text: str) -> Iterator[object]:
    r"""The items of a JSON list, or the objects of a JSONL, each read when it is asked for.

    Never all at once: a file of 400 MB would take gigabytes as objects.

    Raises:
        ValueError: Not JSON.
        RecursionError: Nested too deeply.

    >>> list(values('[{"id": 1}, 2]')), list(values('{"id": 1}\n{"id": 2}\n'))
    ([{'id': 1}, 2], [{'id': 1}, {'id': 2}])
    """
    at = _past_space(text, 0)
    return _items(text, at + 1) if text.startswith("[", at) else _lines(text, at)


def _lines(text: str, at: int) -> Iterator[object]:
    read = json.JSONDecoder().raw_decode
    while at < len(text):
        value, at = read(text, at)
        yield value
        at = _past_space(text, at)


def _items(text: str, at: int) -> Iterator[object]:
    read = json.JSONDecoder().raw_decode
    at = _past_space(text, at)
    sign = "]" if text.startswith("]", at) else ","
    at += sign == "]"
    while sign == ",":
        value, at = read(text, _past_space(text, at))
        yield value
        at = _past_space(text, at)
        sign = text[at : at + 1]
        if sign not in (",", "]"):
            raise json.JSONDecodeError("no comma and no end of the list", text, at)
        at += 1
    if _past_space(text, at) < len(text):
        raise json.JSONDecodeError("more behind the end of the list", text, at)


def _past_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at
