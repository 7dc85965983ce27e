"""A reply that was kept, and its form as one line of a JSONL file.

A line is an object with ``signature`` (of the judge), ``request`` (its `content_key`), ``text``,
``model``, ``finish``, ``usage`` and ``time``. Other keys are allowed, and ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from mmie_tasks.errors import DataBroken
from mmie_tasks.judges.base import JudgeReply, Usage

_KEY = re.compile(r"[0-9a-f]{64}")
_LARGEST = 10**11  # tokens, dollars, seconds (the year 5138): a line that says more is broken
_HINT = "repair that line, or export the replies again"


class _NotAReply(ValueError):
    """What is wrong with a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A reply, whose it is, and to what.

    Attributes:
        signature: Of the judge that was asked.
        request: The `content_key` of what it was asked.
        reply: What it said.
        time: When it came, in seconds since 1970 (UTC).
    """

    signature: str
    request: str
    reply: JudgeReply
    time: int


def to_line(recorded: Recorded) -> str:
    """One line of a JSONL file, with its end: ASCII, so that any text survives any channel."""
    reply = recorded.reply
    fields = {
        "signature": recorded.signature,
        "request": recorded.request,
        "text": reply.text,
        "model": reply.model,
        "finish": reply.finish,
        "usage": asdict(reply.usage),
        "time": recorded.time,
    }
    return json.dumps(fields) + "\n"


def read_records(path: Path) -> Iterator[Recorded]:
    """Every reply of a JSONL file, read line by line; blank lines count for nothing.

    Raises:
        DataBroken: A line is not a reply; names the line and what is wrong with it.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                yield _recorded(json.loads(line))
            except (ValueError, RecursionError) as error:
                problem = str(error) or "it is nested too deeply"
                raise DataBroken(f"{path}, line {number}: {problem}.", hint=_HINT) from error


def _recorded(value: object) -> Recorded:
    """The reply in a JSON value.

    Raises:
        _NotAReply: There is none; says why.
    """
    fields = _mapping(value, "it")
    request = _text(fields, "request")
    if not _KEY.fullmatch(request):
        raise _NotAReply("`request` is not the 64 hexadecimal digits of a SHA-256")
    return Recorded(
        signature=_text(fields, "signature"),
        request=request,
        reply=_reply(fields),
        time=_count(fields, "time"),
    )


def _reply(fields: Mapping[str, object]) -> JudgeReply:
    usage = _mapping(fields.get("usage"), "`usage`")
    match fields.get("finish"):
        case "stop" | "length" as finish:
            return JudgeReply(
                text=_text(fields, "text"),
                model=_text(fields, "model"),
                finish=finish,
                usage=Usage(
                    input_tokens=_count(usage, "input_tokens"),
                    output_tokens=_count(usage, "output_tokens"),
                    reasoning_tokens=_count(usage, "reasoning_tokens"),
                    cost_usd=_cost(usage.get("cost_usd")),
                ),
            )
        case other:
            raise _NotAReply(f"`finish` is {other!r}, not 'stop' or 'length'")


def _mapping(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _NotAReply(f"{what} is {_kind(value)}, not an object")
    return value


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _NotAReply(f"`{name}` is {_kind(value)}, not text")
    return value


def _count(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
        raise _NotAReply(f"`{name}` is {_kind(value)}, not a whole number from 0 on")
    return value


def _cost(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _NotAReply(f"`cost_usd` is {_kind(value)}, not a number")
    if not 0 <= value <= _LARGEST:
        raise _NotAReply("`cost_usd` is not a sum of money")
    return float(value)


def _kind(value: object) -> str:
    """How an error names a value: numbers as they are, anything else by its kind."""
    if value is None:
        return "missing or null"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return f"a {type(value).__name__}"
