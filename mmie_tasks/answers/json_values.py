"""Reads a JSON value in a text, and of one that is broken or cut off the whole values of its
lists.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

JSON = json.JSONDecoder(strict=False)  # models write line breaks into strings

_MAX_DEPTH = 50  # of a list that is closed
_NO_SPACE, _NO_LIST_END = re.compile(r"\S"), re.compile(r"[^\s,\]}]")
_JSON_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|(?P<cut>\\?\Z))|[\[\]{}]', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonValue:
    """The JSON that begins at a position of a text.

    ``value`` is None if there is nothing to read. ``resume`` is where the search for the next goes
    on. ``is_cut_off``: the text ends inside it, and what is not whole is left out.
    """

    value: object = None
    end: int
    resume: int
    is_cut_off: bool = False


def json_value(text: str, start: int) -> JsonValue:
    """The JSON that begins at the bracket at `start`; of broken JSON, its lists up to their last
    whole value.
    """
    try:
        value, end = JSON.raw_decode(text, start)
        return JsonValue(value=value, end=end, resume=end)
    except json.JSONDecodeError as error:
        broken_at, message = error.pos, error.msg
    except (ValueError, RecursionError):  # a number of thousands of digits; nested too deeply
        return JsonValue(end=len(text), resume=len(text))
    closed = _closed_list(text, start, broken_at)
    if closed is None:
        return JsonValue(end=start, resume=broken_at)
    cut, brackets = closed
    value = JSON.decode(text[start:cut] + brackets)
    rest = _NO_LIST_END.search(text, cut)
    if (
        rest is None
        or message.startswith("Unterminated string")
        or not _NO_SPACE.search(text, broken_at)
    ):
        return JsonValue(value=value, end=len(text), resume=len(text), is_cut_off=rest is not None)
    return JsonValue(value=value, end=rest.start(), resume=max(rest.start(), broken_at))


def _closed_list(text: str, start: int, broken_at: int) -> tuple[int, str] | None:
    """Where the last whole value of a list ends in broken JSON, and the brackets that close the
    JSON there.
    """
    cut, brackets = None, []
    for token in _JSON_TOKEN.finditer(text, start, broken_at):
        if token["cut"] is not None:
            break
        if token[0] in ("[", "{"):
            brackets.append("]" if token[0] == "[" else "}")
            continue
        if token[0] in ("]", "}"):
            brackets.pop()
        is_in_list = brackets[-1] == "]" or token[0] == "]"
        if is_in_list and len(brackets) <= _MAX_DEPTH:
            cut = token.end(), "".join(reversed(brackets))
    return cut
