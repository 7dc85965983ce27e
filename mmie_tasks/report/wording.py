"""Numbers and signatures in words, for the report's template."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from mmie_tasks.comparison.signatures import mixed

NONE = "n/a"


def percent(value: float | None) -> str:
    """Percent with the two decimals of the papers' tables.

    >>> percent(48.1), percent(None)
    ('48.10', 'n/a')
    """
    return NONE if value is None else f"{value:.2f}"


def interval(low: float | None, high: float | None) -> str:
    """Both ends of an interval in percent; empty where there is none.

    >>> interval(45, 51.234), interval(None, None)
    ('45.00 – 51.23', '')
    """
    return "" if low is None or high is None else f"{low:.2f} – {high:.2f}"


def count(value: int) -> str:
    """A whole number, in groups of three digits.

    >>> count(20000)
    '20,000'
    """
    return f"{value:,}"


def dollars(value: float | None) -> str:
    """US dollars; four decimals below one dollar, where a judge's reply costs cents.

    >>> dollars(12.5), dollars(0.0312), dollars(None)
    ('$12.50', '$0.0312', 'n/a')
    """
    if value is None:
        return NONE
    return f"${value:,.2f}" if value >= 1 else f"${value:.4f}"


def signature_rows(signatures: Sequence[str]) -> list[dict[str, object]]:
    """Signatures side by side: of each key its values, and whether they differ.

    >>> signature_rows(["judge:a|t:0", "judge:b|t:0"])[0]
    {'key': 'judge', 'values': ['a', 'b'], 'differs': True}
    """
    read = [_fields(signature) for signature in signatures]
    keys = dict.fromkeys(key for fields in read for key in fields)
    rows = {key: [fields.get(key, "") for fields in read] for key in keys}
    return [
        {"key": key, "values": values, "differs": len(set(values)) > 1}
        for key, values in rows.items()
    ]


def _fields(signature: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in signature.split("|"):
        key, _, value = part.partition(":")
        fields[key] = f"{fields[key]}, {value}" if key in fields else value
    return fields


def differing(signatures: Sequence[str]) -> str:
    """The keys in which signatures differ, of those that move a score.

    >>> differing(["judge:a|t:0|pkg:1", "judge:b|t:0|pkg:2"])
    'judge'
    """
    return ", ".join(mixed(signatures))


def headlines(task: Mapping[str, Sequence[Mapping[str, object]]]) -> object:
    """The rows of a task's headline table; none where it has no table."""
    tables = task["tables"]
    return tables[0]["rows"] if tables else ()


def day(date: str) -> str:
    """The runner's date as people write it; anything else as it is.

    >>> day("20261121_140509"), day("today")
    ('2026-11-21 14:05', 'today')
    """
    found = re.fullmatch(r"(\d{4})(\d\d)(\d\d)_(\d\d)(\d\d)(\d\d)", date)
    return "{}-{}-{} {}:{}".format(*found.groups()[:5]) if found else date


FILTERS: Mapping[str, Callable[..., object]] = {
    "percent": percent,
    "interval": interval,
    "count": count,
    "dollars": dollars,
    "signature_rows": signature_rows,
    "differing": differing,
    "headlines": headlines,
    "day": day,
}
