"""Sends a reply schema as a function, a tool or a JSON schema, whichever the server accepts."""

from __future__ import annotations

import json
import re
from typing import Literal, TypeAlias

from mmie_tasks.http.bodies import json_list, json_object
from mmie_tasks.http.errors import ServerError, UnusableBody
from mmie_tasks.judges.base import ReplySchema

SchemaStyle: TypeAlias = Literal["functions", "tools", "json_schema", "none"]
"""How a request carries a schema: as OpenAI's deprecated ``functions``, which the official scripts
send; as ``tools``; as structured outputs; or not at all, so that only the prompt asks for JSON.
"""

CALLS = ("function_call", "tool_calls")
"""Finish reasons of a complete reply that calls a function."""

_NEXT: dict[SchemaStyle, SchemaStyle] = {
    "functions": "tools",
    "tools": "json_schema",
    "json_schema": "none",
}
_REJECTIONS = (400, 404, 422, 501)  # 404: OpenRouter, if no provider of the model takes tools
_PARAMETERS = re.compile(
    r"\b(?:functions?|function_call|tools?|tool_choice|response_format|json_schema)\b",
    re.IGNORECASE,
)


def schema_fields(schema: ReplySchema, style: SchemaStyle) -> dict[str, object]:
    """The fields of a request's body for a schema.

    >>> schema = ReplySchema(name="grade", parameters='{"type": "object"}')
    >>> schema_fields(schema, "functions")["function_call"]
    {'name': 'grade'}
    """
    parameters = json.loads(schema.parameters)
    description = {"description": schema.description} if schema.description else {}
    function = {"name": schema.name, **description, "parameters": parameters}
    match style:
        case "functions":
            return {"functions": [function], "function_call": {"name": schema.name}}
        case "tools":
            choice = {"type": "function", "function": {"name": schema.name}}
            return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}
        case "json_schema":
            form = {"name": schema.name, **description, "schema": parameters}
            return {"response_format": {"type": "json_schema", "json_schema": form}}
        case "none":
            return {}


def next_style(style: SchemaStyle, error: ServerError) -> SchemaStyle | None:
    """The style to try after an error about `style`; None after any other error."""
    if error.status not in _REJECTIONS or not _PARAMETERS.search(f"{error.param} {error.message}"):
        return None
    return _NEXT.get(style)


def called_with(message: dict[str, object]) -> str | None:
    """The arguments of a reply's function call, as JSON text; None without a call.

    Raises:
        UnusableBody: The arguments are not text.
    """
    calls = [message.get("function_call")]
    calls += [json_object(call).get("function") for call in json_list(message.get("tool_calls"))]
    for call in map(json_object, calls):
        if call:
            if not isinstance(arguments := call.get("arguments"), str):
                raise UnusableBody("the reply calls a function without arguments as text")
            return arguments
    return None
