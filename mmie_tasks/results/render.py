"""Prints tables as Markdown, CSV and LaTeX, and any result as JSON.

A command makes tables of plain values; only this module knows the formats.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from tabulate import LATEX_ESCAPE_RULES, tabulate

from mmie_tasks.core.tables import percent_cell, short_name
from mmie_tasks.record.intervals import Interval
from mmie_tasks.record.metrics import Metric
from mmie_tasks.record.signature import Signature

Format: TypeAlias = Literal["md", "csv", "latex"]

_EMPTY = "-"  # the cell of None
_MARK_BEGIN, _MARK_END = "\ue000", "\ue001"  # around LaTeX superscripts: tabulate escapes commands
_CSV_PARTS = ("", " low", " high", " scored", " total", " notes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A score in percent; None if there is no score.

    `scored` samples of `total` have points; both are None for published scores. `notes` are marks,
    the reason for a missing score, or the source; they become one footnote.
    """

    percent: float | None
    interval: Interval | None = None
    scored: int | None = None
    total: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def footnote(self) -> str:
        """All notes as one text."""
        return "; ".join(self.notes)

    def __str__(self) -> str:
        return percent_cell(self.percent, self.interval)


Value: TypeAlias = str | int | Cell | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table; the first `texts` columns hold texts, the others numbers.

    Attributes:
        header: The titles of the columns.
        rows: A value for each column; None is printed as ``-``.
        texts: The number of columns that hold texts.
        title: A heading.
        text: A paragraph above the table.
        notes: Lines below it.
    """

    header: Sequence[str] = ()
    rows: Sequence[Sequence[Value]] = ()
    texts: int = 1
    title: str = ""
    text: str = ""
    notes: Sequence[str] = ()

    @property
    def footnotes(self) -> dict[str, int]:
        """The distinct footnotes of all cells in their order, numbered from 1."""
        cells = (value for row in self.rows for value in row if isinstance(value, Cell))
        texts = dict.fromkeys(cell.footnote for cell in cells if cell.notes)
        return {text: number for number, text in enumerate(texts, 1)}

    @property
    def alignment(self) -> list[str]:
        """The alignment of each column."""
        return ["left" if n < self.texts else "right" for n in range(len(self.header))]

    def cells(self, mark: str) -> list[list[str]]:
        """The rows as texts; `mark` is the format of a footnote's number."""
        numbers = self.footnotes

        def cell(value: Value) -> str:
            if isinstance(value, Cell) and value.notes:
                return f"{value}{mark.format(numbers[value.footnote])}"
            return text_of_value(value)

        return [list(map(cell, row)) for row in self.rows]


def text_of_value(value: Value) -> str:
    """A value as a cell, without its notes.

    >>> text_of_value(None), text_of_value(1000), text_of_value(Cell(percent=50))
    ('-', '1,000', '50.00')
    """
    match value:
        case None:
            return _EMPTY
        case int():
            return f"{value:,}"
    return str(value)


def rendered(*tables: Table, file_format: Format = "md", title: str = "") -> str:
    """The tables in a format below a title, without a final line break; CSV has rows only."""
    writers: Mapping[Format, Callable[[Table], str]] = {
        "md": _markdown,
        "csv": _csv,
        "latex": _latex,
    }
    heading = [f"# {title}"] if title else []
    return "\n\n".join([*heading, *map(writers[file_format], tables)])


def _markdown(table: Table) -> str:
    """Markdown, as wide as its cells; names are cut."""

    def plain(cell: str) -> str:
        return short_name(cell).replace("|", "¦")

    blocks = [f"## {table.title}"] if table.title else []
    blocks += [table.text] if table.text else []
    if table.header:
        rows = [list(map(plain, row)) for row in table.cells(" [^{}]")]
        blocks.append(_tabulated(table, rows, [*map(plain, table.header)], "pipe"))
    footnotes = [f"[^{number}]: {text}" for text, number in table.footnotes.items()]
    blocks += ["\n".join(lines) for lines in (footnotes, table.notes) if lines]
    return "\n\n".join(blocks)


def _latex(table: Table) -> str:
    """LaTeX with rules of the package ``booktabs``, and the footnotes below the table."""
    cells = table.cells(f"{_MARK_BEGIN}{{}}{_MARK_END}")
    footnotes = [
        f"{_MARK_BEGIN}{number}{_MARK_END} {_escaped(text)}."
        for text, number in table.footnotes.items()
    ]
    below = [_escaped(table.text), *footnotes, *map(_escaped, table.notes)]
    lines = [_tabulated(table, cells, table.header, "latex_booktabs"), "", "{\\footnotesize"]
    text = "\n".join([*lines, *below, "\\par}"])
    return text.replace(_MARK_BEGIN, "\\textsuperscript{").replace(_MARK_END, "}")


def _escaped(text: str) -> str:
    """The text for LaTeX; two hyphens would become a dash."""
    escaped = "".join(LATEX_ESCAPE_RULES.get(character, character) for character in text)
    return escaped.replace("--", "-{}-")


def _tabulated(
    table: Table, rows: Sequence[Sequence[str]], header: Sequence[str], style: str
) -> str:
    text: str = tabulate(rows, header, style, colalign=table.alignment, disable_numparse=True)
    return text


def _csv(table: Table) -> str:
    """CSV with a column for each number of a score and for its notes; missing values are empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    scores = {n for row in table.rows for n, value in enumerate(row) if isinstance(value, Cell)}
    parts = [_CSV_PARTS if n in scores else ("",) for n in range(len(table.header))]
    titles = zip(table.header, parts, strict=True)
    writer.writerow(f"{title}{part}" for title, of_title in titles for part in of_title)
    for row in table.rows:
        writer.writerow(
            part for n, value in enumerate(row) for part in _csv_parts(value, is_score=n in scores)
        )
    return file.getvalue().rstrip("\n")


def _csv_parts(value: Value, *, is_score: bool) -> Iterator[object]:
    if not is_score:
        yield value
        return
    cell = value if isinstance(value, Cell) else Cell(percent=None)
    for number in (cell.percent, *(cell.interval or (None, None))):
        yield "" if number is None else percent_cell(number)
    yield from (cell.scored, cell.total, cell.footnote)


def json_text(result: object) -> str:
    """A result as JSON: the fields of its repr; missing values are null, next to their reason."""
    return json.dumps(result, default=_plain, indent=1, ensure_ascii=False, allow_nan=False)


def _plain(value: object) -> object:
    """The part of a value that belongs in a result, for types that JSON does not have."""
    match value:
        case Metric():
            return {"name": value.name, "title": value.title, "kind": value.kind}
        case Path() | Signature():
            return str(value)
        case Mapping():
            return dict(value)
    if is_dataclass(value):
        return {at.name: getattr(value, at.name) for at in fields(value) if at.repr}
    raise TypeError(f"{type(value).__name__} is not a part of a result")
