"""Renders tables as Markdown, CSV, LaTeX and HTML, and any result as JSON.

Commands compute tables of values for this module; JSON has the fields of their results.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Literal, TypeAlias

from markupsafe import Markup
from pydantic import BaseModel
from tabulate import LATEX_ESCAPE_RULES, tabulate

from mmie_tasks.core.tables import percent_cell, short_name, table
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.intervals import Interval
from mmie_tasks.record.metrics import Metric
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.arguments import Format
from mmie_tasks.results.page import macro
from mmie_tasks.results.run import Run, TaskRun

_EMPTY = "-"  # the cell of None
_MARK_BEGIN, _MARK_END = "\ue000", "\ue001"  # around LaTeX superscripts: tabulate escapes commands
_CSV_PARTS = ("", " low", " high", " scored", " total", " notes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A score in percent; None if there is no score.

    `scored` samples of `total` have points; both are None for published scores. `notes` are marks,
    the reason for a missing score, or the source.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RichText:
    """A text with details that only HTML shows; `lines` are small and below it, `run` is the number
    of the run whose colour it has.
    """

    text: str
    lines: tuple[str, ...] = ()
    badges: tuple[str, ...] = ()
    run: int | None = None
    link: str = ""
    style: Literal["", "code", "b"] = ""


Value: TypeAlias = str | int | Cell | RichText | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column; only HTML shows the `group`, the run that it belongs to, and the `help`."""

    title: str
    kind: Literal["text", "number", "score"] = "number"
    group: RichText | None = None
    help: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table, ready to be rendered; `text` is a paragraph above it, `notes` are lines below.

    In HTML the last value of a short row spans the remaining columns.
    """

    title: str = ""
    text: str = ""
    columns: Sequence[Column] = ()
    rows: Sequence[Sequence[Value]] = ()
    notes: Sequence[str] = ()

    @property
    def header(self) -> list[str]:
        """The titles of the columns."""
        return [column.title for column in self.columns]

    @property
    def text_columns(self) -> int:
        """How many columns, from the first, hold texts."""
        return next((n for n, c in enumerate(self.columns) if c.kind != "text"), len(self.columns))

    @property
    def groups(self) -> list[tuple[RichText | None, int]]:
        """The runs above the columns, each with its number of columns; empty without runs."""
        groups = [(run, len(list(of))) for run, of in groupby(self.columns, lambda c: c.group)]
        return groups if any(run for run, _ in groups) else []

    @property
    def footnotes(self) -> dict[str, int]:
        """The distinct footnotes of all cells in their order, numbered from 1."""
        cells = [value for row in self.rows for value in row if isinstance(value, Cell)]
        texts = dict.fromkeys(cell.footnote for cell in cells if cell.notes)
        return {text: number for number, text in enumerate(texts, 1)}

    def texts(self, mark: Callable[[int], str]) -> list[list[str]]:
        """The rows as texts; `mark` turns the number of a footnote into its mark."""
        numbers = self.footnotes

        def text(value: Value) -> str:
            match value:
                case None:
                    return _EMPTY
                case Cell():
                    footnote = mark(numbers[value.footnote]) if value.notes else ""
                    return f"{percent_cell(value.percent, value.interval)}{footnote}"
                case RichText():
                    return value.text
                case str():
                    return value
            return f"{value:,}"

        return [list(map(text, row)) for row in self.rows]


def columns(*titles: str, text: int = 1) -> list[Column]:
    """Columns with these titles; the first `text` of them hold texts."""
    kinds = ("text" if index < text else "number" for index in range(len(titles)))
    return [Column(title=title, kind=kind) for title, kind in zip(titles, kinds, strict=True)]  # type: ignore[arg-type]


def rendered_table(content: Table, file_format: Format) -> str:
    """The table in a format, without a final line break."""
    writers = {"md": markdown, "csv": _csv, "latex": _latex}
    return writers[file_format](content)


def markdown(content: Table, *, bullet: str = "", wrap: bool = False) -> str:
    """The table in Markdown; `bullet` precedes each note, `wrap`: see `core.tables.table`."""
    blocks = [f"## {content.title}"] if content.title else []
    blocks += [content.text] if content.text else []
    if content.columns:
        footnotes = [f"[^{number}]: {text}" for text, number in content.footnotes.items()]
        rows = content.texts(lambda number: f" [^{number}]")
        blocks.append(table(content.header, rows, content.text_columns, footnotes, wrap=wrap))
    blocks += ["\n".join(f"{bullet}{note}" for note in content.notes)] if content.notes else []
    return "\n\n".join(blocks)


def markdown_page(title: str, text: str, tables: Iterable[Table]) -> str:
    """Several tables in Markdown with long names cut, without a final line break."""
    blocks = (markdown(_with_short_names(content), bullet="- ") for content in tables)
    return "\n\n".join([f"# {title}", text, *blocks])


def _with_short_names(content: Table) -> Table:
    return replace(
        content,
        columns=[replace(column, title=short_name(column.title)) for column in content.columns],
        rows=[[short_name(v) if isinstance(v, str) else v for v in row] for row in content.rows],
    )


def html(content: Table, style: str = "") -> Markup:
    """The table in HTML, its title as a hidden caption; `style` is a CSS class."""
    return macro("table.html.j2", "table")(content, style)


def _latex(content: Table) -> str:
    """LaTeX with rules of the package ``booktabs``, and the footnotes below the table."""
    alignment = ["left" if column.kind == "text" else "right" for column in content.columns]
    cells = content.texts(lambda number: f"{_MARK_BEGIN}{number}{_MARK_END}")
    rows: str = tabulate(
        cells, content.header, tablefmt="latex_booktabs", colalign=alignment, disable_numparse=True
    )
    footnotes = [
        f"{_MARK_BEGIN}{number}{_MARK_END} {_escaped(text)}."
        for text, number in content.footnotes.items()
    ]
    below = [_escaped(content.text), *footnotes, *map(_escaped, content.notes)]
    lines = [rows, "", "{\\footnotesize", *below, "\\par}"]
    return "\n".join(lines).replace(_MARK_BEGIN, "\\textsuperscript{").replace(_MARK_END, "}")


def _escaped(text: str) -> str:
    """The text for LaTeX; two hyphens would become a dash."""
    escaped = "".join(LATEX_ESCAPE_RULES.get(character, character) for character in text)
    return escaped.replace("--", "-{}-")


def _csv(content: Table) -> str:
    """CSV with a column for each number of a score and for its notes; missing values are empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    parts = [_CSV_PARTS if column.kind == "score" else ("",) for column in content.columns]
    titles = zip(content.header, parts, strict=True)
    writer.writerow(f"{title}{part}" for title, of_title in titles for part in of_title)
    for row in content.rows:
        cells = zip(row, content.columns, strict=True)
        writer.writerow(part for value, column in cells for part in _csv_parts(value, column))
    return file.getvalue().rstrip("\n")


def _csv_parts(value: Value, column: Column) -> Iterator[object]:
    if column.kind != "score":
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
        case Run(name=name, folder=folder, started=started, notes=notes):
            return {"name": name, "folder": folder, "started": started, "notes": notes}
        case TaskRun(task=task, log=log, signatures=signatures, notes=notes):
            return {"task": task, "log": log, "signatures": signatures, "notes": notes}
        case BaseModel():
            return value.model_dump(mode="json")
        case Metric():
            return {"name": value.name, "title": value.title, "kind": value.kind}
        case Scored():
            return {"points": value.points, "reading": value.reading}
        case Unscored():
            return {"unscored": value.reason, "detail": value.detail}
        case Path() | Signature():
            return str(value)
        case Mapping():
            return dict(value)
    if is_dataclass(value):
        return {at.name: getattr(value, at.name) for at in fields(value) if at.repr}
    raise TypeError(f"{type(value).__name__} is not a part of a result")
