"""Suggestions for misspelt names: did you mean?"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, valid_names: Iterable[str], n: int = 3) -> list[str]:
    """The valid names that are most similar to a misspelt one, ignoring case.

    >>> nearest("opnai", ["replay", "openai"]), nearest("MMIE", ["mmie"]), nearest("x", ["mmie"])
    (['openai'], ['mmie'], [])
    """
    by_lower = {valid.lower(): valid for valid in sorted(valid_names)}
    return [by_lower[lower] for lower in difflib.get_close_matches(name.lower(), by_lower, n)]


def did_you_mean(name: str, valid_names: Iterable[str]) -> str:
    """The end of a hint: ``; did you mean `openai`?``, or an empty text if no name is similar."""
    return "".join(f"; did you mean `{similar}`?" for similar in nearest(name, valid_names, 1))


def valid_names_text(valid_names: Iterable[str], name: str) -> str:
    """The valid names, the most similar ones first, and `did_you_mean`."""
    valid = sorted(valid_names)
    names = dict.fromkeys((*nearest(name, valid), *valid))
    return f"{', '.join(f'`{similar}`' for similar in names)}{did_you_mean(name, valid)}"
