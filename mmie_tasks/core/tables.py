"""Tables in text, for terminals and README files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tabulate import tabulate


def table(header: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """A table in Markdown, as wide as its cells.

    Args:
        header: Of each column.
        rows: Cells, ready to print: a number is aligned, and not formatted again.
        words: How many columns, from the first, are words; the others are numbers.

    >>> print(table(["judge", "MAE"], [["other", "1.250"]]))
    | judge   |   MAE |
    |:--------|------:|
    | other   | 1.250 |
    """
    alignment = ["left" if place < words else "right" for place in range(len(header))]
    cells = [[cell.replace("|", "¦").replace("\n", " ") for cell in row] for row in rows]
    made: str = tabulate(cells, header, tablefmt="pipe", colalign=alignment, disable_numparse=True)
    return made
