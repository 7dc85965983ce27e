"""Extracts what robust readers read in a judge's reply: its own plain words, and JSON objects."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from mmie_tasks.answers.thinking import strip_thinking

LONGEST = 100_000
"""Length of the longest reply that is read, in characters: many times its limit of tokens."""

NUMBER_WORDS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
)
"""The words for 0 to 10, in order."""

NUMBER = rf"(?:\d{{0,4}}\.?\d{{1,4}}|(?:{'|'.join(NUMBER_WORDS)})\b)"
"""Pattern of points: ``4``, ``4.5``, ``.5``, ``four``."""

_MAX_OBJECTS = 100  # attempts to read a JSON object in a reply
_PAIRS = json.JSONDecoder(object_pairs_hook=list, parse_int=float)
_WHOLE_FENCE = re.compile(r"(?s)\s*(```|~~~)\w*\n((?:(?!\1).)*)\1\s*")
_NOT_OWN = re.compile(
    r"""
    ^[ >]*(?P<fence>`{3,}|~{3,}) .*? ^[ >]*(?P=fence)[^\n]*$
    | <(?P<tag>(?!score|rating|br\b)[a-z]\w{0,20})\b[^<>\n]{0,80}> .*? </(?P=tag)>
    | \[(?P<box>[a-z]\w{0,20})\] .*? \[/(?P=box)\]
    | ^\ {0,3}>[^\n]* | ~~[^~\n]*~~ | `[^`\n]*[a-z]{2}[^`\n]*`
    | (?<![\w"])"(?=\S)[^"]{1,2000}"(?!\w) | (?<!\w)'(?=\S)[^'\n]{8,}'(?!\w)
    | “[^“”]*” | „[^„“”]*[“”] | «[^«»]*»
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
_MARKUP = re.compile(
    r"(?<!\d)\*+|\*+(?!\d)|(?<!\w)_+|_+(?!\w)|`|<\|\w{1,20}\|>|</\w{1,20}>|<br ?/?>|\$|\\boxed"
)
_SCORE_TAG = re.compile(r"(?i)<(score|rating)>")
_PLAIN = str.maketrans("‐‑‒–—−⁄∕", "------//")
_FRAC = re.compile(r"\\d?frac\{([^{}]{1,9})\}\{([^{}]{1,9})\}")
_WORDS = re.compile(r"[^\W\d]{2,}\W+[^\W\d]{2,}")
_NAMES_VERDICT = re.compile(
    r"(?i)\b(?:sure|here|scor\w*|rating|evaluat\w*|assess\w*|verdict|feedback|judge?ment|conclusion|overall"
    r"|grad\w*|final|result\w*|summary|breakdown|based|compar\w*|review\w*|components?"
    r"|I(?: would)? give)\b"
)


def own_words(reply: str) -> str:
    """The judge's own words, without Markdown's marks, in one spelling for each character.

    Thinking is removed, and a fence around the whole reply. Other fences, quotations, code, block
    quotes, struck text, and text between tags are somebody else's; each becomes an ``…``. A mark
    that is never closed does not begin a quotation.
    """
    text = unicodedata.normalize("NFKC", strip_thinking(reply)).translate(_PLAIN)
    text = "".join(char for char in text if unicodedata.category(char) not in ("Cf", "Me", "Mn"))
    if whole := _WHOLE_FENCE.fullmatch(text):
        text = whole[2]
    text = _FRAC.sub(r"\1/\2", _SCORE_TAG.sub(r"\n\1: ", _NOT_OWN.sub("…", text)))
    return _MARKUP.sub("", text)


def json_objects(reply: str, decoder: json.JSONDecoder = _PAIRS) -> Iterator[Any]:
    """The outermost JSON objects after the judge's thinking; by default lists of key and value, in
    which a key may occur twice.
    """
    text, position = strip_thinking(reply), 0
    for _ in range(_MAX_OBJECTS):
        position = text.find("{", position)
        if position < 0:
            return
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
        else:
            yield value


def is_of_others(line: str) -> bool:
    """Whether a line announces somebody or something else's verdict below it: a heading, or words
    that end with a colon, without a word for a verdict.

    >>> is_of_others("The response ends with:"), is_of_others("Here is my evaluation:")
    (True, False)
    """
    announces = line.startswith("#") or (line.endswith(":") and _WORDS.search(line))
    return bool(announces) and not _NAMES_VERDICT.search(line)


def points_of(number: str) -> float:
    """The value of a text that is a `NUMBER`."""
    word = number.lower()
    return float(NUMBER_WORDS.index(word)) if word in NUMBER_WORDS else float(number)
