"""The options ``reasoning_effort`` and ``extra_body``: fields that a user adds to every request."""

from __future__ import annotations

import json
from collections.abc import Collection


def read_extra_body(text: str, computed: Collection[str]) -> str:
    """The JSON object in a text, in canonical form; empty if it has no field.

    Raises:
        ValueError: The text is not a JSON object, or sets a field that is computed.

    >>> read_extra_body('{"b": 1, "a": {"c": true}}', ())
    '{"a":{"c":true},"b":1}'
    """
    try:
        fields = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise ValueError('`extra_body` is not a JSON object such as {"top_k": 1}')  # noqa: TRY004
    if own := [name for name in fields if name in computed]:
        raise ValueError(f"`extra_body` sets `{own[0]}`, which every request has already")
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return canonical.replace("|", r"\u007c") if fields else ""  # a bar parts a signature


def extra_fields(reasoning_effort: str, extra_body: str) -> dict[str, object]:
    """The fields that both options add to a body; `extra_body` as `read_extra_body` returned it.

    >>> extra_fields("low", '{"top_k":1}')
    {'reasoning_effort': 'low', 'top_k': 1}
    """
    effort = {"reasoning_effort": reasoning_effort} if reasoning_effort else {}
    return {**effort, **json.loads(extra_body or "{}")}
