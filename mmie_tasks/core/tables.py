"""Cells of tables: percentages, differences and names."""

from __future__ import annotations

_MAX_NAME = 60  # characters of an id or name in a table


NO_VALUE = "n/a"
"""The cell of a value that does not exist."""


def percent_cell(
    value: float | None, interval: tuple[float, float] | None = None, decimals: int = 2
) -> str:
    """A number, and both ends of its interval if it has one.

    >>> percent_cell(48.1), percent_cell(48.1, (40, 56.25)), percent_cell(None)
    ('48.10', '48.10 [40.00, 56.25]', 'n/a')
    """
    if value is None:
        return NO_VALUE
    numbers = [f"{number:.{decimals}f}" for number in (value, *(interval or ()))]
    return f"{numbers[0]} [{numbers[1]}, {numbers[2]}]" if interval else numbers[0]


def signed_cell(value: float | None, interval: tuple[float, float] | None = None) -> str:
    """A difference with its sign and two decimals, and both ends of its interval; never -0.00.

    >>> signed_cell(1.5), signed_cell(-0.001), signed_cell(2, (-1, 5))
    ('+1.50', '+0.00', '+2.00 [-1.00, +5.00]')
    """
    if value is None:
        return NO_VALUE
    ends = f" [{signed_cell(interval[0])}, {signed_cell(interval[1])}]" if interval else ""
    return f"{round(value, 2) + 0.0:+.2f}{ends}"


def short_name(name: str) -> str:
    """An id or name for a cell, shortened, without characters that control a terminal."""
    name = name if name.isprintable() else ascii(name)
    return name if len(name) <= _MAX_NAME else f"{name[:_MAX_NAME]}…"
