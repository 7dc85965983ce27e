"""Points that people gave, from a CSV: ``id, score``, and ``rater`` where they are several."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mmie_tasks.errors import AnswersUnusable
from mmie_tasks.review import Scale

_HINT = "the columns are `id` and `score`, and `rater` where several people rated"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_DELIMITERS = (",", ";", "\t")
_SHOWN = 40  # characters of a cell, in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    line: int
    id: str
    score: str
    rater: str


def read_people(path: Path, scale: Scale) -> dict[str, dict[str, float | None]]:
    """What each person gave: name to id to points, None where the score is left empty.

    The name is empty where the file has no column ``rater``. Commas, semicolons or tabs stand
    between the columns; with semicolons or tabs, a score may have a decimal comma.

    Args:
        path: The file, in UTF-8.
        scale: That the scores are on.

    Raises:
        AnswersUnusable: The file cannot be read, a column is missing, or a score is no number on
            the scale; names the line.
    """
    found: defaultdict[str, dict[str, float | None]] = defaultdict(dict)
    for row in _rows(path):
        given = found[row.rater]
        if row.id in given:
            by = f" by {row.rater}" if row.rater else ""
            raise _wrong(path, row.line, f"the sample {row.id} has a second score{by}")
        given[row.id] = _points(path, row, scale)
    if not found:
        raise AnswersUnusable(f"`{path}` has a header and no scores.", hint=_HINT)
    return dict(found)


def _points(path: Path, row: _Row, scale: Scale) -> float | None:
    if not row.score:
        return None
    if not _NUMBER.fullmatch(row.score):
        found = f"the score {_shown(row.score)} is not a number; leave it empty for not rated"
        raise _wrong(path, row.line, found)
    points = float(row.score)
    if not 0 <= points <= scale.full_marks:
        found = f"the score {row.score} is not on the scale, 0 to {scale.full_marks:g}"
        raise _wrong(path, row.line, found)
    return points


def _rows(path: Path) -> Iterator[_Row]:
    text = _text(path)
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(_DELIMITERS, key=first.count)
    lines = _lines(path, text, delimiter)
    number, header = next(lines, (1, []))
    columns = _columns(path, number, header)
    for line, cells in lines:
        if len(cells) < len(columns):
            raise _wrong(path, line, f"it has {len(cells)} of the {len(columns)} columns")
        named = dict(zip(columns, cells, strict=False))
        for name in ("id", "rater"):
            if not named.get(name, "-"):
                raise _wrong(path, line, f"its `{name}` is empty")
        score = named["score"] if delimiter == "," else named["score"].replace(",", ".")
        yield _Row(line=line, id=named["id"], score=score, rater=named.get("rater", ""))


def _columns(path: Path, line: int, header: list[str]) -> list[str]:
    columns = [name.lower() for name in header]
    for name in ("id", "score", "rater"):
        times = columns.count(name)
        if times > 1 or (not times and name != "rater"):
            listed = ", ".join(_shown(column) for column in columns[:8]) or "nothing"
            raise _wrong(path, line, f"the header needs one column `{name}`, and has {listed}")
    return columns


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        message = f"Cannot read `{path}`: {error.strerror}."
        raise AnswersUnusable(message, hint="check the path and its permissions") from error
    except UnicodeDecodeError as error:
        message = f"`{path}` is not UTF-8 at byte {error.start}."
        raise AnswersUnusable(message, hint="save it as CSV in UTF-8") from error


def _lines(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Number and cells of each line that is not blank; the number of its last line, if several."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if any(stripped):
                yield reader.line_num, stripped
    except csv.Error as error:
        raise _wrong(path, reader.line_num, str(error)) from error


def _wrong(path: Path, line: int, found: str) -> AnswersUnusable:
    return AnswersUnusable(f"`{path}`, line {line}: {found}.", hint=_HINT)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
