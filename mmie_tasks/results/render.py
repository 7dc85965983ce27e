"""Renders results: a table of scores as Markdown, CSV or LaTeX, a result with several tables as
Markdown, and any result as JSON.

A command computes one object and never formats it twice: tables are made of typed cells, and JSON
has the fields of the object itself.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import BaseModel
from tabulate import LATEX_ESCAPE_RULES, tabulate

from mmie_tasks.core.tables import percent_cell, short_name, table
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.intervals import Interval
from mmie_tasks.record.metrics import Metric
from mmie_tasks.record.signature import Signature
from mmie_tasks.runs.run import Run, TaskRun

Format: TypeAlias = Literal["md", "csv", "latex"]

_NOT_RUN = "-"
_MARK_BEGIN, _MARK_END = "\ue000", "\ue001"  # around LaTeX superscripts: tabulate escapes commands
_CSV_PARTS = ("", " low", " high", " scored", " total", " notes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A score in percent; None if there is no score.

    `scored` samples of `total` have points; both are None for published scores. `notes` are what a
    reader has to know of it: marks, the reason why there is no score, the source.
    """

    percent: float | None
    interval: Interval | None = None
    scored: int | None = None
    total: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def footnote(self) -> str:
        """All notes as one text; empty if there is none."""
        return "; ".join(self.notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A table of scores, with footnotes.

    Attributes:
        caption: What the scores are.
        titles: Of the columns.
        rows: The title of each row, and its cells in order; None where nothing was run.
        names: For CSV, in place of the rows' titles: title of a column to its texts.
        facts: For CSV, further columns at the end.
        lines: Below the footnotes.
    """

    caption: str
    titles: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell | None]]]
    names: Mapping[str, Sequence[str]]
    facts: Mapping[str, Sequence[str]]
    lines: Sequence[str]

    @property
    def footnotes(self) -> dict[str, int]:
        """The footnotes of all cells in their order, each with its number from 1."""
        texts = [cell.footnote for _, cells in self.rows for cell in cells if cell and cell.notes]
        return {text: number for number, text in enumerate(dict.fromkeys(texts), 1)}

    def texts(self, mark: Callable[[int], str]) -> list[list[str]]:
        """The rows as texts; `mark` makes the mark of a footnote from its number."""
        numbers = self.footnotes

        def text(cell: Cell | None) -> str:
            if cell is None:
                return _NOT_RUN
            footnote = mark(numbers[cell.footnote]) if cell.notes else ""
            return f"{percent_cell(cell.percent, cell.interval)}{footnote}"

        return [[name, *map(text, cells)] for name, cells in self.rows]


def sheet_text(sheet: Sheet, file_format: Format) -> str:
    """The table in a format, without the line break at its end."""
    writers = {"md": _markdown, "csv": _csv, "latex": _latex}
    return writers[file_format](sheet)


def _markdown(sheet: Sheet) -> str:
    notes = [f"[^{number}]: {text}" for text, number in sheet.footnotes.items()]
    rows = sheet.texts(lambda number: f" [^{number}]")
    lines = table(["model", *sheet.titles], rows, notes=notes)
    return "\n\n".join(filter(None, [sheet.caption, lines, "\n".join(sheet.lines)]))


def _latex(sheet: Sheet) -> str:
    """With rules of the package ``booktabs``, and the footnotes below the table."""
    header, alignment = ["model", *sheet.titles], ["left", *("right" for _ in sheet.titles)]
    cells = sheet.texts(lambda number: f"{_MARK_BEGIN}{number}{_MARK_END}")
    rows: str = tabulate(
        cells, header, tablefmt="latex_booktabs", colalign=alignment, disable_numparse=True
    )
    footnotes = [
        f"{_MARK_BEGIN}{number}{_MARK_END} {_escaped(text)}."
        for text, number in sheet.footnotes.items()
    ]
    below = [_escaped(sheet.caption), *footnotes, *map(_escaped, sheet.lines)]
    lines = [rows, "", "{\\footnotesize", *below, "\\par}"]
    return "\n".join(lines).replace(_MARK_BEGIN, "\\textsuperscript{").replace(_MARK_END, "}")


def _escaped(text: str) -> str:
    """The text for LaTeX; two hyphens would become a dash."""
    escaped = "".join(LATEX_ESCAPE_RULES.get(character, character) for character in text)
    return escaped.replace("--", "-{}-")


def _csv(sheet: Sheet) -> str:
    """A column for each number of a score, and for its notes; empty for none."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    parts = [f"{title}{part}" for title in sheet.titles for part in _CSV_PARTS]
    writer.writerow([*sheet.names, *parts, *sheet.facts])
    for index, (_, cells) in enumerate(sheet.rows):
        values: list[object] = []
        for cell in cells:
            shown = cell or Cell(percent=None)
            numbers = (shown.percent, *(shown.interval or (None, None)))
            values += ["" if number is None else percent_cell(number) for number in numbers]
            values += [shown.scored, shown.total, shown.footnote]
        names, facts = (
            [texts[index] for texts in columns.values()] for columns in (sheet.names, sheet.facts)
        )
        writer.writerow([*names, *values, *facts])
    return file.getvalue().rstrip("\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class TitledTable:
    """A part of a result with several tables: a heading, then text, table and notes where it has
    them.

    Attributes:
        heading: Of the part.
        text: Above the table.
        titles: Of the columns.
        rows: Names and values, ready to print, and counts.
        text_columns: How many columns, from the first, hold text.
        notes: A list below the table.
    """

    heading: str
    text: str = ""
    titles: Sequence[str] = ()
    rows: Sequence[Sequence[str | int]] = ()
    text_columns: int = 1
    notes: Sequence[str] = ()


def markdown_text(title: str, text: str, tables: Iterable[TitledTable]) -> str:
    """A result with several tables in Markdown, without the line break at its end."""
    blocks = [f"# {title}", text]
    for part in tables:
        blocks.append(f"## {part.heading}")
        blocks += [part.text] if part.text else []
        if part.titles:
            titles = list(map(short_name, part.titles))
            rows = [
                [short_name(cell) if isinstance(cell, str) else f"{cell:,}" for cell in row]
                for row in part.rows
            ]
            blocks.append(table(titles, rows, part.text_columns))
        if part.notes:
            blocks.append("\n".join(f"- {note}" for note in part.notes))
    return "\n\n".join(blocks)


def json_text(result: object) -> str:
    """A result with its fields by their names, except those without a repr; null for missing
    values, with the reason next to them.
    """
    return json.dumps(result, default=_plain, indent=1, ensure_ascii=False, allow_nan=False)


def _plain(value: object) -> object:
    """A value that JSON does not have: what of it belongs in a result."""
    match value:
        case Run(name=name, folder=folder, started_text=started, notes=notes):
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
