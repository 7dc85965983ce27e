"""People's scores of answers, in CSV files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.record.metrics import Scale
from mmie_tasks.results.commands import read_text

_COLUMNS = ("id", "rater", "score")
_CSV_HINT = "the columns are `id` and `score`, and `rater` where several people rated"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_MAX_QUOTED = 40  # characters of a cell, in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A person's score of one answer.

    Attributes:
        id: The sample's id.
        points: On the benchmark's own scale; None if not rated.
        rater: The person; the name of the file if it names no rater.
    """

    id: str
    points: float | None
    rater: str


def read_labels(path: Path, scale: Scale, name: str = "") -> tuple[Label, ...]:
    """The scores of a CSV file, in its order.

    Columns are separated by commas, semicolons or tabs; with semicolons or tabs, a score may have a
    decimal comma.

    Args:
        path: The file, in UTF-8.
        scale: The scale of the scores.
        name: The rater if the file names none; the file's name without suffix if empty.

    Raises:
        AnswersUnusable: The file cannot be read, a column is missing, a row has more filled cells
            than the header, a score is not a number on the scale, or a rater scored an answer
            twice; names the line.
    """
    rows = list(_csv_rows(path))
    names_raters = any(row["rater"] for _, row in rows)
    labels: dict[tuple[str, ...], Label] = {}
    for line, row in rows:
        if names_raters and row["score"] and not row["rater"]:
            raise _csv_error(path, line, "its `rater` is empty")
        label = Label(
            id=row["id"],
            points=_points(path, line, row["score"], scale),
            rater=row["rater"] or ("" if names_raters else name or path.stem),
        )
        key = (label.id, label.rater)
        if key in labels:
            second = f"the sample {label.id} has a second score by {label.rater}"
            raise _csv_error(path, line, second)
        labels[key] = label
    if not labels:
        raise AnswersUnusable(f"`{path}` has a header and no scores.", hint=_CSV_HINT)
    return tuple(labels.values())


def _points(path: Path, line: int, score: str, scale: Scale) -> float | None:
    """The points of a cell; None if it is empty."""
    if not score:
        return None
    if not _NUMBER.fullmatch(score):
        problem = f"the score {_quoted(score)} is not a number; leave it empty for not rated"
        raise _csv_error(path, line, problem)
    points = float(score)
    if not 0 <= points <= scale.full_marks:
        problem = f"the score {score} is not on the scale, 0 to {scale.full_marks:g}"
        raise _csv_error(path, line, problem)
    return points


def _csv_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and cells of each row: all of `_COLUMNS`, empty where the file lacks one."""
    text = read_text(path, _CSV_HINT)
    first_line = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max((",", ";", "\t"), key=first_line.count)
    lines = _csv_lines(path, text, delimiter)
    number, header = next(lines, (1, []))
    columns = [name.lower() for name in header]
    for name in _COLUMNS:
        times = columns.count(name)
        if times > 1 or (not times and name in ("id", "score")):
            names = ", ".join(_quoted(column) for column in columns[:8]) or "nothing"
            raise _csv_error(path, number, f"the header needs one column `{name}`, and has {names}")
    for line, cells in lines:
        if len(cells) < len(columns):
            raise _csv_error(path, line, f"it has {len(cells)} of the {len(columns)} columns")
        if any(cells[len(columns) :]):
            problem = f"it has {len(cells)} cells, and the header {len(columns)} columns"
            raise _csv_error(path, line, f"{problem}; a cell with a separator in it needs quotes")
        row = dict.fromkeys(_COLUMNS, "") | dict(zip(columns, cells, strict=False))
        if not row["id"]:
            raise _csv_error(path, line, "its `id` is empty")
        if delimiter != ",":
            row["score"] = row["score"].replace(",", ".")
        yield line, row


def _csv_lines(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line number (the last, if a row spans several) and cells of each row with text."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if any(stripped):
                yield reader.line_num, stripped
    except csv.Error as error:
        raise _csv_error(path, reader.line_num, str(error)) from error


def _csv_error(path: Path, line: int, problem: str) -> AnswersUnusable:
    return AnswersUnusable(f"`{path}`, line {line}: {problem}.", hint=_CSV_HINT)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…")
