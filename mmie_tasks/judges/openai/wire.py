"""Chat completions: request bodies, replies, and one server with its dialect.

The body and the reply are the same online and in the Batch API.
"""

from __future__ import annotations

import asyncio
import base64
import mimetypes
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import openai
from loguru import logger

from mmie_tasks.http.client import (
    ServerError,
    UnusableBody,
    lower_names,
    parse_json,
    server_error_of,
)
from mmie_tasks.http.rate_limit import quota_reset_s
from mmie_tasks.http.retries import Failure, Success
from mmie_tasks.judges.base import (
    JudgeRefused,
    JudgeReply,
    JudgeRequest,
    RequestBroken,
    Usage,
    image_bytes,
)
from mmie_tasks.judges.openai.models import HEADROOM, Dialect, Price, dialect_of
from mmie_tasks.judges.openai.settings import Settings

_PARAMETER_ERRORS = (openai.BadRequestError, openai.UnprocessableEntityError)  # 400, 422
_CHARACTERS_PER_TOKEN = 3
_TOKENS_PER_IMAGE = 2000


class ChatServer:
    """Sends chat requests to one server, in the dialect that it accepts.

    Args:
        settings: The model and its parameters.
        client: A client of the server.
        address: For messages; holds no secret.
    """

    def __init__(self, settings: Settings, client: openai.AsyncOpenAI, address: str) -> None:
        self._settings = settings
        self._client = client
        self._address = address
        self._dialect = dialect_of(settings.model)

    async def attempt(self, request: JudgeRequest) -> Success[JudgeReply | JudgeRefused] | Failure:
        """Send a request; again at once if the server only rejects a parameter's name.

        Raises:
            OpenAIError: The server's error, or no response: see `client.ATTEMPT_ERRORS`.
        """
        tried: set[Dialect] = set()
        while True:
            dialect = self._dialect
            tried.add(dialect)
            try:
                return await self._complete(request, dialect)
            except RequestBroken as error:
                return Failure(kind="invalid", reason=str(error))
            except _PARAMETER_ERRORS as error:
                server_error = server_error_of(error, self._settings.secrets)
                other = next_dialect(dialect, server_error) if server_error else None
                if other is None or other in tried:
                    raise
                self._adopt(other, str(server_error))

    async def _complete(
        self, request: JudgeRequest, dialect: Dialect
    ) -> Success[JudgeReply | JudgeRefused] | Failure:
        settings = self._settings
        # The SDK's timeout applies to every piece of the response; this one to all of it.
        response = await asyncio.wait_for(
            self._client.chat.completions.with_raw_response.create(
                **chat_body(request, settings, dialect)  # type: ignore[call-overload]
            ),
            settings.timeout_s,
        )
        pause_s = quota_reset_s(lower_names(response.headers))
        try:
            completion = parse_json(response.content)
            reply = read_completion(completion, model=settings.model, price=settings.price)
        except UnusableBody as error:
            return Failure(kind="failed", reason=str(error), pause_s=pause_s)
        cost_usd = cost_of(request, completion, settings)
        return Success(reply=reply, cost_usd=cost_usd, pause_s=pause_s)

    def _adopt(self, dialect: Dialect, reason: str) -> None:
        if dialect == self._dialect:
            return  # another request was faster
        self._dialect = dialect
        temperature = self._settings.temperature
        omitted = "" if dialect.takes_temperature or temperature is None else ", no temperature"
        logger.warning(
            f"The judge `{self._settings.model}` at {self._address} now gets "
            f"`{dialect.max_tokens_name}`{omitted}, because it answered {reason}"
        )


def next_dialect(dialect: Dialect, error: ServerError) -> Dialect | None:
    """The dialect to try after an error about a parameter; None if another would not help.

    >>> from mmie_tasks.judges.openai.models import PLAIN
    >>> error = ServerError(status=400, code="unsupported_parameter", param="max_tokens")
    >>> next_dialect(PLAIN, error).max_tokens_name
    'max_completion_tokens'
    """
    if not error.is_parameter:
        return None
    if error.concerns(dialect.max_tokens_name):
        if dialect.max_tokens_name == "max_tokens":
            return replace(dialect, max_tokens_name="max_completion_tokens", headroom=HEADROOM)
        return replace(dialect, max_tokens_name="max_tokens")
    if error.concerns("temperature") and dialect.takes_temperature:
        return replace(dialect, takes_temperature=False)
    return None


def chat_body(request: JudgeRequest, settings: Settings, dialect: Dialect) -> dict[str, object]:
    """The body of a chat completion: one user message with the parts in their order.

    Reads the request's images.

    Raises:
        RequestBroken: An image cannot be read.
    """
    limit = request.max_tokens if settings.max_tokens is None else settings.max_tokens
    content = [_content_part(part, settings.detail) for part in request.parts]
    body: dict[str, object] = {
        "model": settings.model,
        "messages": [{"role": "user", "content": content}],
        dialect.max_tokens_name: limit + dialect.headroom,
    }
    if settings.temperature is not None and dialect.takes_temperature:
        body["temperature"] = settings.temperature
    return body


def _content_part(part: str | Path, detail: str | None) -> dict[str, object]:
    if isinstance(part, str):
        return {"type": "text", "text": _valid_unicode(part)}
    content = image_bytes(part)
    encoded = base64.b64encode(content).decode("ascii")
    image = {"url": f"data:{mime_type(content, part)};base64,{encoded}"}
    return {"type": "image_url", "image_url": {**image, "detail": detail} if detail else image}


def _valid_unicode(text: str) -> str:
    """The text with U+FFFD for lone surrogates, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),  # also MPO, with several images
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
)


def mime_type(content: bytes, path: Path) -> str:
    """The MIME type of an image, by its first bytes, or else by the file's suffix.

    >>> mime_type(b"GIF89a", Path("a.png"))
    'image/gif'
    """
    for signature, name in _SIGNATURES:
        if content.startswith(signature):
            return name
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    if content[4:8] == b"ftyp" and (b"avif" in content[8:32] or b"avis" in content[8:32]):
        return "image/avif"
    return mimetypes.guess_type(path.name)[0] or "application/octet-stream"


def read_completion(
    completion: object, *, model: str, price: Price | None = None
) -> JudgeReply | JudgeRefused:
    """Read a chat completion. The text stays unchanged; missing optional fields are tolerated.

    Args:
        completion: Parsed JSON of any shape.
        model: The requested model, in case the server does not name the one that replied.
        price: For the cost in the usage.

    Raises:
        UnusableBody: It has no choice with a message.
    """
    fields = _object(completion)
    choice = _first_choice(fields)
    message = _object(choice.get("message"))
    finish_reason = choice.get("finish_reason")
    text = "".join(_texts(message.get("content"), "text"))
    refusal = message.get("refusal") or "".join(_texts(message.get("content"), "refusal"))
    if finish_reason == "content_filter":
        return JudgeRefused("the reply was withheld by a content filter")
    if refusal:
        return JudgeRefused(f"the judge refused: {str(refusal)[:200]}")
    if not text.strip():
        return _refused_without_text(finish_reason, usage_of(completion))
    server_model = fields.get("model")
    return JudgeReply(
        text=text,
        model=server_model if isinstance(server_model, str) and server_model else model,
        usage=usage_of(completion, price),
        finish="length" if finish_reason == "length" else "stop",
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
                text = _object(part).get(kind)
                if isinstance(text, str):
                    yield text


def _refused_without_text(finish_reason: object, usage: Usage) -> JudgeRefused:
    if finish_reason != "length":
        return JudgeRefused(f"the reply has no text (finish_reason `{finish_reason}`)")
    reasoning = f", {usage.reasoning_tokens} of them for hidden reasoning"
    tokens = f"{usage.output_tokens} tokens were used{reasoning if usage.reasoning_tokens else ''}"
    cause = "hidden reasoning or the limit used them up"
    return JudgeRefused(f"the reply has no text (finish_reason `length`): {cause}; {tokens}")


def usage_of(completion: object, price: Price | None = None) -> Usage:
    """The tokens that a server reports, 0 if it reports none, and their cost."""
    fields = _object(_object(completion).get("usage"))
    input_tokens = _count(fields.get("prompt_tokens"))
    output_tokens = _count(fields.get("completion_tokens"))
    details = _object(fields.get("completion_tokens_details"))
    has_cost = price is not None and input_tokens + output_tokens > 0
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        reasoning_tokens=_count(details.get("reasoning_tokens")),
        cost_usd=price.cost_usd(input_tokens, output_tokens) if price and has_cost else None,
    )


def cost_of(request: JudgeRequest, completion: object, settings: Settings) -> float | None:
    """The cost of a request in US dollars; None if the price is unknown.

    If the server reports no tokens, a high estimate: the longest reply, 2,000 tokens per image and
    a token per 3 characters.
    """
    if settings.price is None:
        return None
    if (cost_usd := usage_of(completion, settings.price).cost_usd) is not None:
        return cost_usd
    input_tokens = sum(
        _TOKENS_PER_IMAGE if isinstance(part, Path) else len(part) // _CHARACTERS_PER_TOKEN + 1
        for part in request.parts
    )
    return settings.price.cost_usd(input_tokens, settings.max_tokens or request.max_tokens)


def _count(tokens: object) -> int:
    return tokens if type(tokens) is int and tokens > 0 else 0


def _object(json_value: object) -> Mapping[str, object]:
    return json_value if isinstance(json_value, dict) else {}
