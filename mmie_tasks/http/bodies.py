"""JSON from a server, in which any value may have a type other than the promised one."""

from __future__ import annotations

import json
from collections.abc import Mapping

from mmie_tasks.http.errors import UnusableBody

MAX_COUNT = 10**11
"""The largest token count that is accepted from a server or an export of replies."""


def parse_json(content: bytes | str) -> object:
    """The JSON of a response.

    Raises:
        UnusableBody: The response is not JSON: it is cut off, empty, or a proxy's page.
    """
    try:
        parsed: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UnusableBody(f"the server sent {len(content)} bytes that are no JSON") from error
    return parsed


def json_object(json_value: object) -> Mapping[str, object]:
    """A JSON object; an empty one for any other JSON."""
    return json_value if isinstance(json_value, dict) else {}


def json_list(json_value: object) -> list[object]:
    """A JSON array; an empty one for any other JSON."""
    return json_value if isinstance(json_value, list) else []


def json_count(json_value: object) -> int:
    """A positive integer up to `MAX_COUNT`; 0 for any other JSON."""
    return json_value if type(json_value) is int and 0 < json_value <= MAX_COUNT else 0
