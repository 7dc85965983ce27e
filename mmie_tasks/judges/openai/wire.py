"""Chat completions: request bodies, replies, and one server with its dialect.

The body and the reply are the same online and in the Batch API.
"""

from __future__ import annotations

import asyncio
import base64
import mimetypes
import re
from dataclasses import replace
from pathlib import Path

import openai
from loguru import logger

from mmie_tasks.http.client import (
    ATTEMPT_ERRORS,
    ServerError,
    UnusableBody,
    failure_of,
    json_count,
    json_object,
    parse_json,
)
from mmie_tasks.http.rate_limit import quota_reset_s
from mmie_tasks.http.retries import Failure, Success
from mmie_tasks.judges.base import (
    JudgeError,
    JudgeRefused,
    JudgeReply,
    JudgeRequest,
    JudgeUnavailable,
    RequestBroken,
    Usage,
    image_bytes,
)
from mmie_tasks.judges.openai.models import HEADROOM, Adaptations, Dialect, Price, dialect_of
from mmie_tasks.judges.openai.settings import Settings

_CHARACTERS_PER_TOKEN = 3
_TOKENS_PER_IMAGE = 2000

# Finish reasons, in lower case, by servers of several makers.
_WHOLE = (None, "stop", "eos", "eos_token", "end_turn", "stop_sequence")
_CUT = ("length", "max_tokens", "model_length")


class IncompleteReply(UnusableBody):
    """A reply with a finish reason that neither a whole reply nor one at its limit has."""


class NoText(Exception):
    """A reply without text.

    Attributes:
        is_cut: It reached the token limit.
    """

    def __init__(self, reason: str, *, is_cut: bool) -> None:
        super().__init__(reason)
        self.is_cut = is_cut


class ChatServer:
    """Sends chat requests to one server, in the dialect that it accepts.

    Args:
        settings: The model and its parameters.
        client: A client of the server.
        address: For messages; holds no secret.
        adaptations: Those of all servers of the judge.
    """

    def __init__(self, settings: Settings, client: openai.AsyncOpenAI, address: str, adaptations: Adaptations) -> None:
        self._settings = settings
        self._client = client
        self._address = address
        self._dialects = adaptations.dialects
        self._out_of_tokens = adaptations.out_of_tokens
        self._dialects.setdefault(address, dialect_of(settings.model))

    async def attempt(self, request: JudgeRequest) -> Success[JudgeReply | JudgeError] | Failure:
        """Send a request; again at once if the server only rejects a parameter's name."""
        tried: set[Dialect] = set()
        while True:
            dialect = self._dialects[self._address]
            tried.add(dialect)
            try:
                return await self._complete(request, dialect)
            except RequestBroken as error:
                return Failure(kind="invalid", reason=str(error))
            except ATTEMPT_ERRORS as error:
                failure = failure_of(error, self._settings.secrets)
            other = next_dialect(dialect, failure.error)
            if other is None or other in tried:
                return failure
            if other == self._dialects[self._address]:
                continue  # another request was faster
            self._dialects[self._address] = other
            has_temperature = other.takes_temperature or self._settings.temperature is None
            logger.warning(
                f"The judge `{self._settings.model}` at {self._address} now gets `{other.max_tokens_name}`"
                f"{'' if has_temperature else ', no temperature'}, because it answered {failure.error}"
            )

    async def _complete(self, request: JudgeRequest, dialect: Dialect) -> Success[JudgeReply | JudgeError] | Failure:
        settings = self._settings
        if request in self._out_of_tokens:
            dialect = replace(dialect, headroom=dialect.headroom + HEADROOM)
        # The SDK's timeout applies to every piece of the response; this one to all of it.
        response = await asyncio.wait_for(
            self._client.chat.completions.with_raw_response.create(
                **chat_body(request, settings, dialect)  # type: ignore[call-overload]
            ),
            settings.timeout_s,
        )
        pause_s = quota_reset_s(response.headers)
        reply: JudgeReply | JudgeError
        is_final = True
        try:
            completion = parse_json(response.content)
            reply = read_completion(completion, model=settings.model, price=settings.price)
        except IncompleteReply as error:
            reply, is_final = JudgeUnavailable(str(error)), False
        except NoText as error:
            reply = JudgeRefused(str(error))
            is_final = error.is_cut and request in self._out_of_tokens
            if error.is_cut:
                self._out_of_tokens.add(request)
        except UnusableBody as error:
            return Failure(kind="failed", reason=str(error), pause_s=pause_s)
        return Success(reply=reply, is_final=is_final, cost_usd=cost_of(request, completion, settings), pause_s=pause_s)


def next_dialect(dialect: Dialect, error: ServerError | None) -> Dialect | None:
    """The dialect to try after an error about a parameter; None if another would not help.

    >>> from mmie_tasks.judges.openai.models import PLAIN
    >>> error = ServerError(status=400, code="unsupported_parameter", param="max_tokens")
    >>> next_dialect(PLAIN, error).max_tokens_name
    'max_completion_tokens'
    """
    if error is None or not error.is_parameter:
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
    content: list[dict[str, object]] = []
    for part in request.parts:
        if isinstance(part, str):
            # With U+FFFD for lone surrogates, which UTF-8 cannot encode.
            text = part.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            content.append({"type": "text", "text": text})
            continue
        data = image_bytes(part)
        image = {"url": f"data:{mime_type(data, part)};base64,{base64.b64encode(data).decode()}"}
        if settings.detail:
            image["detail"] = settings.detail
        content.append({"type": "image_url", "image_url": image})
    body: dict[str, object] = {
        "model": settings.model,
        "messages": [{"role": "user", "content": content}],
        dialect.max_tokens_name: limit + dialect.headroom,
    }
    if settings.temperature is not None and dialect.takes_temperature:
        body["temperature"] = settings.temperature
    return body


_SIGNATURES = {
    "image/png": rb"\x89PNG\r\n\x1a\n",
    "image/jpeg": rb"\xff\xd8\xff",  # also MPO, with several images
    "image/gif": rb"GIF8[79]a",
    "image/bmp": rb"BM",
    "image/tiff": rb"II\*\x00|MM\x00\*",
    "image/webp": rb"(?s:RIFF.{4}WEBP)",
    "image/avif": rb"(?s:.{4}ftyp.{0,20}avi[fs])",
}


def mime_type(content: bytes, path: Path) -> str:
    """The MIME type of an image, by its first bytes, or else by the file's suffix.

    >>> mime_type(b"GIF89a", Path("a.png"))
    'image/gif'
    """
    for name, signature in _SIGNATURES.items():
        if re.match(signature, content):
            return name
    return mimetypes.guess_type(path.name)[0] or "application/octet-stream"


def read_completion(completion: object, *, model: str, price: Price | None = None) -> JudgeReply | JudgeRefused:
    """Read a chat completion. The text stays unchanged; missing optional fields are tolerated.

    Args:
        completion: Parsed JSON of any shape.
        model: The requested model, in case the server does not name the one that replied.
        price: For the cost in the usage.

    Raises:
        UnusableBody: It has no choice with a message.
        IncompleteReply: By its finish reason, an error ended it.
        NoText: It has no text; it counts as a refusal.
    """
    match completion:
        case {"choices": [{"message": dict() as message, **choice}, *_]}:
            pass
        case _:
            raise UnusableBody("the server sent JSON without a choice that has a message")
    finish_reason = choice.get("finish_reason")
    if isinstance(finish_reason, str):
        finish_reason = finish_reason.lower()
    text = _text_of(message.get("content"), "text")
    refusal = message.get("refusal") or _text_of(message.get("content"), "refusal")
    if finish_reason == "content_filter":
        return JudgeRefused("the reply was withheld by a content filter")
    is_cut = finish_reason in _CUT
    if not is_cut and finish_reason not in _WHOLE:
        raise IncompleteReply(f"the reply is incomplete: finish_reason `{finish_reason!s:.40}`")
    if refusal:
        return JudgeRefused(f"the judge refused: {str(refusal)[:200]}")
    if not text.strip():
        reason = f"the reply has no text (finish_reason `{finish_reason}`)"
        if is_cut:
            usage = usage_of(completion)
            hidden = f", {usage.reasoning_tokens} of them for hidden reasoning"
            reason += f": {usage.output_tokens} tokens were used"
            reason += hidden if usage.reasoning_tokens else ""
        raise NoText(reason, is_cut=is_cut)
    server_model = json_object(completion).get("model")
    return JudgeReply(
        text=text,
        model=server_model if isinstance(server_model, str) and server_model else model,
        usage=usage_of(completion, price),
        finish="length" if is_cut else "stop",
    )


def _text_of(content: object, kind: str) -> str:
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = (json_object(part).get(kind) for part in parts)
    return "".join(text for text in texts if isinstance(text, str))


def usage_of(completion: object, price: Price | None = None) -> Usage:
    """The tokens that a server reports, 0 if it reports none, and their cost."""
    fields = json_object(json_object(completion).get("usage"))
    input_tokens = json_count(fields.get("prompt_tokens"))
    output_tokens = json_count(fields.get("completion_tokens"))
    details = json_object(fields.get("completion_tokens_details"))
    has_cost = input_tokens + output_tokens > 0
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        reasoning_tokens=json_count(details.get("reasoning_tokens")),
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
