"""Numbers, names and paragraphs for messages."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence

WIDTH = 100
"""Characters of a printed line."""


def wrapped(text: str) -> str:
    """A paragraph in lines of at most `WIDTH` characters."""
    return textwrap.fill(text, WIDTH, break_on_hyphens=False)


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "run"), counted(20_000, "sample"), counted(3, "category")
    ('1 run', '20,000 samples', '3 categories')
    """
    return f"{count:,} {noun if count == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """The plural of a noun: ``categories`` for ``category``."""
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"


def listed(counts: Mapping[str, int]) -> str:
    """Names and counts, the highest count first.

    >>> listed({"timeout": 1, "no_answer": 2})
    'no_answer (2), timeout (1)'
    """
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} ({count:,})" for name, count in ordered)


def numbered_names(names: Sequence[str]) -> list[str]:
    """The names, with a number after each that occurs several times.

    >>> numbered_names(["a", "b", "a"])
    ['a (1)', 'b', 'a (2)']
    """
    seen = Counter[str]()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(f"{name} ({seen[name]})" if names.count(name) > 1 else name)
    return unique
