"""What goes over the wire of an OpenAI-compatible server and what comes back: bodies and replies.

No connection is made here, so that the online carrier and the Batch API say the same.
"""

from __future__ import annotations

import base64
import json
import mimetypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from mmie_tasks.http.complaints import Complaint
from mmie_tasks.judges.base import JudgeRefused, JudgeReply, JudgeRequest, Usage, image_bytes
from mmie_tasks.judges.openai.models import Price, reasons

HEADROOM = 8192
"""Tokens a reasoning model may think, on top of those of its reply. Nobody pays for unused ones."""


class UnusableBody(Exception):
    """The server sent something that is no chat completion. Asking again may help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How a model wants to be asked.

    Attributes:
        max_tokens_name: What it calls the limit of its reply.
        takes_temperature: Whether the temperature may be chosen.
        headroom: Tokens added to the limit because hidden reasoning counts against it.
    """

    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    takes_temperature: bool = True
    headroom: int = 0


PLAIN = Dialect()
REASONING = Dialect(
    max_tokens_name="max_completion_tokens", takes_temperature=False, headroom=HEADROOM
)


def dialect_of(model: str) -> Dialect:
    """How to ask a model, as far as its name tells."""
    return REASONING if reasons(model) else PLAIN


def next_dialect(dialect: Dialect, complaint: Complaint) -> Dialect | None:
    """How to ask instead, when a server did not understand a parameter; None where nothing helps.

    >>> said = Complaint(status=400, code="unsupported_parameter", param="max_tokens")
    >>> next_dialect(PLAIN, said).max_tokens_name
    'max_completion_tokens'
    """
    if not complaint.of_parameter:
        return None
    if complaint.names(dialect.max_tokens_name):
        if dialect.max_tokens_name == "max_tokens":
            return replace(dialect, max_tokens_name="max_completion_tokens", headroom=HEADROOM)
        return replace(dialect, max_tokens_name="max_tokens")
    if complaint.names("temperature") and dialect.takes_temperature:
        return replace(dialect, takes_temperature=False)
    return None


def body(
    request: JudgeRequest,
    *,
    model: str,
    temperature: float | None,
    dialect: Dialect,
    max_tokens: int | None = None,
    detail: str | None = None,
) -> dict[str, object]:
    """The body of a chat completion: one user message, its parts in their order.

    Args:
        request: What is asked. Its images are read now.
        model: Who is asked.
        temperature: None leaves it to the server.
        dialect: How this model wants to be asked.
        max_tokens: Instead of the request's own limit.
        detail: How closely the model looks at images: ``low``, ``high``, ``auto``.

    Raises:
        RequestBroken: An image cannot be read.
    """
    limit = request.max_tokens if max_tokens is None else max_tokens
    content = [_part(part, detail) for part in request.parts]
    made: dict[str, object] = {
        "model": model,
        "messages": [{"role": "user", "content": content}],
        dialect.max_tokens_name: limit + dialect.headroom,
    }
    if temperature is not None and dialect.takes_temperature:
        made["temperature"] = temperature
    return made


def _part(part: str | Path, detail: str | None) -> dict[str, object]:
    if isinstance(part, str):
        return {"type": "text", "text": _utf8(part)}
    data = image_bytes(part)
    encoded = base64.b64encode(data).decode("ascii")
    image = {"url": f"data:{mime_type(data, part)};base64,{encoded}"}
    return {"type": "image_url", "image_url": {**image, "detail": detail} if detail else image}


def _utf8(text: str) -> str:
    """The text, with U+FFFD where a lone surrogate cannot be written in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),  # also the several pictures of an MPO
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
)


def mime_type(data: bytes, path: Path) -> str:
    """What an image is, by its first bytes; by its suffix where they say nothing.

    >>> mime_type(b"GIF89a", Path("a.png"))
    'image/gif'
    """
    for magic, name in _MAGIC:
        if data.startswith(magic):
            return name
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[4:8] == b"ftyp" and (b"avif" in data[8:32] or b"avis" in data[8:32]):
        return "image/avif"
    return mimetypes.guess_type(path.name)[0] or "application/octet-stream"


def parse(data: bytes | str) -> object:
    """The JSON a server sent.

    Raises:
        UnusableBody: It is none: cut off, a proxy's page, empty.
    """
    try:
        parsed: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnusableBody(f"the server sent {len(data)} bytes that are no JSON") from error
    return parsed


def outcome(
    completion: object, *, model: str, price: Price | None = None
) -> JudgeReply | JudgeRefused:
    """What a chat completion says.

    The text is kept as it is. Servers that leave out fields are put up with.

    Args:
        completion: The parsed JSON, whatever it is.
        model: Who was asked; stands in where the server does not say who answered.
        price: Gives the usage its dollars.

    Raises:
        UnusableBody: There is no choice with a message in it.
    """
    fields = _object(completion)
    choice = _first_choice(fields)
    message = _object(choice.get("message"))
    finish = choice.get("finish_reason")
    text = "".join(_texts(message.get("content"), "text"))
    refusal = message.get("refusal") or "".join(_texts(message.get("content"), "refusal"))
    if finish == "content_filter":
        return JudgeRefused("the reply was withheld by a content filter")
    if refusal:
        return JudgeRefused(f"the judge refused: {str(refusal)[:200]}")
    if not text.strip():
        return _nothing_said(finish, usage(completion))
    said_by = fields.get("model")
    return JudgeReply(
        text=text,
        model=said_by if isinstance(said_by, str) and said_by else model,
        usage=usage(completion, price),
        finish="length" if finish == "length" else "stop",
    )


def _first_choice(fields: Mapping[str, object]) -> Mapping[str, object]:
    match fields.get("choices"):
        case [{"message": dict()} as choice, *_]:
            return _object(choice)
        case _:
            raise UnusableBody("the server sent JSON without a choice that has a message")


def _texts(content: object, kind: str) -> Iterator[str]:
    match content:
        case str() if kind == "text":
            yield content
        case list():
            for part in content:
                said = _object(part).get(kind)
                if isinstance(said, str):
                    yield said


def _nothing_said(finish: object, used: Usage) -> JudgeRefused:
    if finish != "length":
        return JudgeRefused(f"the reply has no text (finish_reason `{finish}`)")
    thinking = f", {used.reasoning_tokens} of them for hidden reasoning"
    spent = f"{used.output_tokens} tokens were used{thinking if used.reasoning_tokens else ''}"
    why = "hidden reasoning or the limit took it all"
    return JudgeRefused(f"the reply has no text (finish_reason `length`): {why}; {spent}")


def usage(completion: object, price: Price | None = None) -> Usage:
    """The tokens a server says it used, zeros where it does not say, and their cost."""
    said = _object(_object(completion).get("usage"))
    input_tokens = _count(said.get("prompt_tokens"))
    output_tokens = _count(said.get("completion_tokens"))
    details = _object(said.get("completion_tokens_details"))
    known = price is not None and input_tokens + output_tokens > 0
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        reasoning_tokens=_count(details.get("reasoning_tokens")),
        cost_usd=price.cost_usd(input_tokens, output_tokens) if price and known else None,
    )


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


def _object(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
