"""Objects that a model wrote as text: JSON, or what Python prints of an object."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator

_MAX_REPR_CHARACTERS = 4_000_000
_MAX_REPR_TOKENS = 20_000
_MAX_REPR_DEPTH = 20
# Only what `repr` writes of plain objects. `ast.literal_eval` would take more, among it texts that
# exhaust Python's parser (thousands of minus signs) or make it warn (unknown escapes).
_REPR_TOKEN = re.compile(
    r"""
    \s+ | [\[\](){},:]
    | (?:None|True|False)\b
    | -?\d{1,40}(?:\.\d{1,40})?(?:e[+-]?\d{1,3})?(?![\w.])
    | b?'[^'\\\n]*(?:\\[\\'"nrtxuU][^'\\\n]*)*'
    | b?"[^"\\\n]*(?:\\[\\'"nrtxuU][^"\\\n]*)*"
    """,
    re.VERBOSE,
)
# What was in front of a text whose head was cut off with its thinking.
_JSON_HEADS = ('{"text": "', '[{"text": "', '{"content": [{"text": "')
_REPR_HEADS = ("{'text': '", "('")


def objects_in(text: str) -> Iterator[tuple[str, object]]:
    """Every object the whole text may stand for, the likeliest first, with how it is written.

    ``json``, ``repr`` (``str`` of an object; ``lmms_eval/api/instance.py`` makes it of what it
    does not know), and ``beheaded``: its beginning was cut off with the thinking in it. A code
    fence around everything is taken away.
    """
    body = _unfenced(text.strip())
    if body[:1] in {"{", "["}:
        yield from _parsed("json", body)
    if body[:1] in {"{", "[", "("}:
        yield from _evaluated("repr", body)
    if body[-1:] in {"}", "]"}:
        for head in _JSON_HEADS:
            yield from _parsed("beheaded", head + body)
    if body[-1:] in {"}", ")"}:
        for head in _REPR_HEADS:
            yield from _evaluated("beheaded", head + body)


def _unfenced(text: str) -> str:
    first, _, rest = text.partition("\n")
    if first.startswith("```") and rest.endswith("```"):
        return rest[:-3].strip()
    return text


def _parsed(source: str, text: str) -> Iterator[tuple[str, object]]:
    try:
        value = json.loads(text, strict=False)  # models write line breaks into strings
    except (ValueError, RecursionError):
        return
    yield source, value


def _evaluated(source: str, text: str) -> Iterator[tuple[str, object]]:
    if not _is_repr(text):
        return
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return
    yield source, value


def _is_repr(text: str) -> bool:
    """Whether the text is made of the signs `repr` uses, few and not deeply nested."""
    if len(text) > _MAX_REPR_CHARACTERS:
        return False
    at, depth = 0, 0
    for _ in range(_MAX_REPR_TOKENS):
        token = _REPR_TOKEN.match(text, at)
        if token is None:
            return False
        depth += (text[at] in "[({") - (text[at] in "])}")
        at = token.end()
        if depth > _MAX_REPR_DEPTH:
            return False
        if at == len(text):
            return True
    return False
