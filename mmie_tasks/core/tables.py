"""Tables in text, for terminals and README files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tabulate import tabulate


def table(header: Sequence[str], rows: Iterable[Sequence[str]], text_columns: int = 1) -> str:
    """A table in Markdown, as wide as its cells.

    Args:
        header: One title per column.
        rows: Cells, ready to print: numbers are aligned, and not formatted again.
        text_columns: How many columns, from the first, hold text; the rest hold numbers.

    >>> print(table(["judge", "MAE"], [["other", "1.250"]]))
    | judge   |   MAE |
    |:--------|------:|
    | other   | 1.250 |
    """
    alignment = ["left" if index < text_columns else "right" for index in range(len(header))]
    cells = [[cell.replace("|", "¦").replace("\n", " ") for cell in row] for row in rows]
    markdown: str = tabulate(
        cells, header, tablefmt="pipe", colalign=alignment, disable_numparse=True
    )
    return markdown
