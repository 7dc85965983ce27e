"""Ids of a given subset, from a file."""

from __future__ import annotations

import json
from pathlib import Path

from mmie_tasks.errors import AnswersUnusable

_HINT = "one id a line, or a JSON list of ids"


def read_ids(path: Path) -> frozenset[str]:
    """The ids of a file: one a line, or a JSON list.

    Raises:
        AnswersUnusable: The file cannot be read, or holds no ids.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        message = f"Cannot read `{path}`: {error.strerror}."
        raise AnswersUnusable(message, hint="check the path and its permissions") from error
    except UnicodeDecodeError as error:
        raise AnswersUnusable(f"`{path}` is no text in UTF-8.", hint=_HINT) from error
    found = _from_json(path, text) if text.lstrip().startswith("[") else text.splitlines()
    ids = frozenset(one.strip() for one in found if one.strip())
    if not ids:
        raise AnswersUnusable(f"`{path}` holds no ids.", hint=_HINT)
    return ids


def _from_json(path: Path, text: str) -> list[str]:
    try:
        values: list[object] = json.loads(text)
    except (ValueError, RecursionError) as error:
        message = f"`{path}` begins like a JSON list and is none: {error}."
        raise AnswersUnusable(message, hint=_HINT) from error
    for place, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            message = f"`{path}`: element {place} of the list is no id: {str(value)[:80]}."
            raise AnswersUnusable(message, hint=_HINT)
    return [str(value) for value in values]
