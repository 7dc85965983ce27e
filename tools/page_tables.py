"""Writes the tables of pages, from tables of the code and of the tests.

    PYTHONPATH=tests python tools/page_tables.py    # or `make pages`

A test compares, so the pages always agree with what the code does and the tests test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.answer_shapes import SHAPES, SOURCES, Shape
from support.judge_faults import FAULTS
from support.writer_texts import CASES

from mmie_tasks.benchmarks.milebench.sample import DATASETS, TASK_OF, TASKS

PACKAGE = Path(__file__).resolve().parents[1] / "mmie_tasks"
START, END = "<!-- Written by tools/page_tables.py -->\n", "<!-- end -->\n"


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table between `START` and `END` of a page.

    Attributes:
        page: The page.
        head: Titles of the columns.
        rows: Returns the cells of each row, in Markdown.
    """

    page: Path
    head: Sequence[str]
    rows: Callable[[], Iterable[Sequence[str]]]

    def in_page(self, text: str) -> str:
        """The page's text with this table instead of the one that it has."""
        before, start, rest = text.partition(START)
        _, end, after = rest.partition(END)
        if not start or not end:
            raise ValueError(f"{self.page} has no place for its table: {START.strip()}")
        lines = (self.head, ["---"] * len(self.head), *self.rows())
        table = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
        return before + START + table + END + after


def answers() -> Iterable[Sequence[str]]:
    """What a model may return, and what becomes of it."""
    source_of = {name: source for source, names in SOURCES.items() for name in names}
    for shape in filter(lambda shape: shape.description, SHAPES):
        texts = shape.answer if isinstance(shape.answer, list) else [shape.answer]
        yield (
            shape.description,
            ", ".join(_code(_shortened(text or "")) for text in texts),
            _pieces(shape),
            shape.counted.replace("|", ""),
            source_of[shape.description],
        )


def faults() -> Iterable[Sequence[str]]:
    """Faults of a judge's server, and what the judge does."""
    for fault in FAULTS:
        count = "until it is answered" if fault.requests is None else str(fault.requests)
        end = "the sample has its reply" if fault.reason is None else f"`{fault.reason}`"
        yield fault.name, fault.action, count, end


def protocols() -> Iterable[Sequence[str]]:
    """What a writer writes, and what the protocol reads in it."""
    for description, text, parts, unused in CASES:
        if description:
            counts = ", ".join(f"{count} {kind}" for kind, count in unused.items())
            read = ", ".join(map(_part, parts or ())) or "the text"
            yield description, _code(text), read, counts


def milebench_tasks() -> Iterable[Sequence[str]]:
    """MileBench's tags and datasets."""
    for name in TASKS:
        yield f"`milebench_{name}`", ", ".join(d for d in DATASETS if TASK_OF[d] == name)


TABLES = (
    PageTable(
        PACKAGE / "answers" / "README.md",
        ("answer", "example", "becomes", "counted", "who writes it"),
        answers,
    ),
    PageTable(
        PACKAGE / "judges" / "README.md",
        ("fault", "what the judge does", "requests at most", "if it lasts"),
        faults,
    ),
    PageTable(
        PACKAGE / "interleaved" / "README.md",
        ("the writer writes", "example", "the judge sees; prompts", "counted"),
        protocols,
    ),
    PageTable(
        PACKAGE / "benchmarks" / "milebench" / "README.md",
        ("tag", "datasets, each a task `milebench_<dataset>`"),
        milebench_tasks,
    ),
)


def _pieces(shape: Shape) -> str:
    if isinstance(shape.pieces, str):
        reason = "unscored, `not_text`" if shape.name == "not text" else "no answer"
        return f"{reason}: {_code(shape.pieces)}"
    pieces = [
        f"image {_code(piece[1:])}" if piece.startswith("@") else f"text {_code(piece)}"
        for piece in map(_shortened, shape.pieces)
    ]
    return ", ".join(pieces) or "empty"


def _part(part: str) -> str:
    return f"picture of {_code(part[1:-1])}" if part.startswith("<") else _code(part)


def _shortened(text: str) -> str:
    """A text with only the beginning of what is in base64."""
    return re.sub(r"[A-Za-z0-9+/]{30}[A-Za-z0-9+/=]+", lambda match: f"{match[0][:12]}...", text)


def _code(text: str) -> str:
    """In backticks, on one line of a table."""
    line = text.replace("\n", "↵").replace("|", "\\|")
    ticks = "`" * (max(map(len, re.findall("`+", line)), default=0) + 1)
    return f"{ticks} {line} {ticks}" if "`" in line else f"`{line}`"


if __name__ == "__main__":
    for table in TABLES:
        table.page.write_text(table.in_page(table.page.read_text("utf-8")), encoding="utf-8")
