"""The tables of the report, rendered as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, TypeAlias

from markupsafe import Markup

from mmie_tasks.results.page import macro
from mmie_tasks.results.render import Cell as Cell


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


PageValue: TypeAlias = str | int | Cell | RichText | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column; only HTML shows the `group`, the run that it belongs to, and the `help`."""

    title: str
    kind: Literal["text", "number", "score"] = "number"
    group: RichText | None = None
    help: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTable:
    """A table, ready to be rendered; `text` is a paragraph above it, `notes` are lines below.

    In HTML the last value of a short row spans the remaining columns.
    """

    title: str = ""
    text: str = ""
    columns: Sequence[Column] = ()
    rows: Sequence[Sequence[PageValue]] = ()
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


def columns(*titles: str, text: int = 1) -> list[Column]:
    """Columns with these titles; the first `text` of them hold texts."""
    kinds = ("text" if index < text else "number" for index in range(len(titles)))
    return [Column(title=title, kind=kind) for title, kind in zip(titles, kinds, strict=True)]  # type: ignore[arg-type]


def html(content: PageTable, style: str = "") -> Markup:
    """The table in HTML, its title as a hidden caption; `style` is a CSS class."""
    return macro("table.html.j2", "table")(content, style)
