"""Fields of a request that a user adds to its body: ``reasoning_effort`` and ``extra_body``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.suggestions import nearest
from mmie_tasks.http.bodies import json_object
from mmie_tasks.http.errors import ServerError

_SECRET = re.compile(
    r"^key$|passwd$|api_?key$|access_?key$|secret(?:_?key)?$|token$|password$"
    r"|authorization$|credentials?$"
)
_VALUES = re.compile(
    r"(?:values? (?:are|is)|should be|must be|one of|expected|allowed|supports?)\b[:\s]*([^.;]*)",
    re.IGNORECASE,
)
_NO_VALUES = ("and", "or", "one", "of", "only", "the", "following", "values", "value", "either")
_OF_SERVERS = (
    *("chat_template_kwargs", "enable_thinking", "thinking", "reasoning", "provider", "models"),
    *("top_k", "min_p", "repetition_penalty", "mm_processor_kwargs", "safety_settings"),
)
"""Fields of vLLM, SGLang, DashScope, Anthropic, OpenRouter and Gemini that the SDK lacks."""


def read_extra_body(
    kind: str, text: str, computed: Mapping[str, str], secrets: Sequence[str] = ()
) -> str:
    """The option ``extra_body`` as canonical JSON: no blanks, keys in order; empty for no field.

    `kind` is ``judge`` or ``writer``. `computed` gives, for each field that cannot be set here, the
    hint with the option that sets it.

    Raises:
        SettingWrong: The text is not a JSON object, or holds a secret or a computed field. The
            message does not repeat a value.

    >>> read_extra_body("judge", '{"b": 1, "a": {"c": true}}', {})
    '{"a":{"c":true},"b":1}'
    """
    if not text.strip():
        return ""
    try:
        fields = json.loads(text.strip("'\" "), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise SettingWrong(
            f"The {kind} option `extra_body` is no JSON object.",
            hint="in single quotes of the shell: `'extra_body={\"top_k\": 1}'`, with `true`, "
            "`false` and `null`",
        )
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":")).replace("|", "\\u007c")
    text_fields = [name for name, value in _all_fields(fields) if value and isinstance(value, str)]
    secret_names = [name for name in text_fields if _SECRET.search(name.lower().replace("-", "_"))]
    long_secrets = [json.dumps(secret)[1:-1] for secret in secrets if len(secret) > 5]
    if secret_names or any(secret in canonical for secret in long_secrets):
        which = f", `{secret_names[0]}`" if secret_names else ""
        raise SettingWrong(
            f"The {kind} option `extra_body` holds a secret{which}: options are written into "
            "logs and results.",
            hint="`export OPENAI_API_KEY=...`, or name your variable with `api_key_env=NAME`",
        )
    for name in fields:
        if name in computed:
            message = f"The {kind} option `extra_body` cannot set `{name}`."
            raise SettingWrong(message, hint=computed[name])
    return canonical if fields else ""


def extra_fields(reasoning_effort: str, extra_body: str) -> dict[str, object]:
    """The fields that both options add to a body; `extra_body` is what `read_extra_body` returned.

    >>> extra_fields("low", '{"top_k":1}')
    {'reasoning_effort': 'low', 'top_k': 1}
    """
    effort = {"reasoning_effort": reasoning_effort} if reasoning_effort else {}
    return {**effort, **json_object(json.loads(extra_body or "{}"))}


def refused_field(error: ServerError | None, fields: Mapping[str, object]) -> str | None:
    """The added field, at any depth, that a server's error is about; None if there is none."""
    if error is None or error.status not in (400, 422) or error.is_content_filter:
        return None
    names = dict.fromkeys(name for name, _ in _all_fields(fields))
    if error.param:
        path = error.param.replace("reasoning.effort", "reasoning_effort")
        parts = re.split(r"[.\[\]/\s]+", path)
        return next((part for part in reversed(parts) if part in names), None)
    words = set(re.findall(r"\w+", error.message)) if error.is_parameter else set()
    return next((name for name in names if name in words), None)


def refusal_hint(name: str, fields: Mapping[str, object], error: ServerError) -> str:
    """A hint on a field that a server refuses: the nearest value it names, or the nearest field.

    >>> error = ServerError(status=400, message="Supported values are: 'none', 'low' and 'high'.")
    >>> refusal_hint("reasoning_effort", {"reasoning_effort": "lov"}, error)
    '`reasoning_effort=low`; the server names `none`, `low`, `high`'
    """
    from openai.types.chat import completion_create_params  # the SDK: a second

    value = str(dict(_all_fields(fields))[name])
    option = "reasoning_effort=" if name == "reasoning_effort" else f"{name}: "
    lists = [re.findall(r"[\w-]+", words) for words in _VALUES.findall(error.message)]
    values = [word for word in max(lists, key=len, default=[]) if word.lower() not in _NO_VALUES]
    values = [word for word in dict.fromkeys(values) if word not in (name, value)]
    if len(values) > 1:
        best = (nearest(value, values, 1) or values)[0]
        return f"`{option}{best}`; the server names {', '.join(f'`{word}`' for word in values)}"
    valid = {*completion_create_params.CompletionCreateParamsBase.__annotations__, *_OF_SERVERS}
    if name not in valid and (similar := nearest(name, valid, 1)):
        return f"did you mean `{similar[0]}`?"
    return f"leave out `{name}`, or see which values the server takes"


def _all_fields(fields: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Names and values of all fields, at any depth."""
    for name, value in fields.items():
        yield name, value
        for inner in value if isinstance(value, list) else [value]:
            yield from _all_fields(json_object(inner))


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
