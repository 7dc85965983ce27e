"""Chat completions: request bodies, replies, and one server with its dialect.

The body and the reply are the same online and in the Batch API.
"""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import openai
from loguru import logger

from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.http.bodies import json_count, json_object, parse_json
from mmie_tasks.http.client import ATTEMPT_ERRORS, failure_of, receive
from mmie_tasks.http.endpoint import Failure, Success
from mmie_tasks.http.errors import ServerError, UnusableBody, redact
from mmie_tasks.hub.images import image_suffix
from mmie_tasks.judges.base import (
    JudgeError,
    JudgeRefused,
    JudgeRequest,
    JudgeUnavailable,
    RequestBroken,
    image_bytes,
)
from mmie_tasks.judges.openai.digits import digits_of
from mmie_tasks.judges.openai.models import Price
from mmie_tasks.judges.openai.schemas import CALLS, called_with, next_style, schema_fields
from mmie_tasks.judges.openai.settings import (
    FEWER_TOP_LOGPROBS,
    HEADROOM,
    Adaptations,
    Dialect,
    Settings,
)
from mmie_tasks.record.reply import JudgeReply, Usage

# Of one request to a server that sends log-probabilities, before it is sent without.
_MAX_LOGPROBS_FAILURES = 4
_CHARACTERS_PER_TOKEN = 3
_TOKENS_PER_IMAGE = 2000

# With log-probabilities, a token takes about 1 KB of the response, whose size is limited.
_MAX_TOKENS_WITH_LOGPROBS = 2048

# Finish reasons, in lower case, by servers of several makers.
_WHOLE = (None, "stop", "eos", "eos_token", "end_turn", "stop_sequence")
_CUT = ("length", "max_tokens", "model_length")


class PoorReply(Exception):
    """A reply that is incomplete or has no text. Another one may be better.

    Attributes:
        outcome: If no better reply comes.
        is_cut: It reached the token limit before its text began.
    """

    def __init__(self, outcome: JudgeError, *, is_cut: bool = False) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome
        self.is_cut = is_cut


class ChatServer:
    """Sends chat requests to one server, in the dialect that it accepts.

    Args:
        address: For messages; holds no secret.
        adaptations: Those of all servers of the judge.
    """

    def __init__(
        self, settings: Settings, client: openai.AsyncOpenAI, address: str, adaptations: Adaptations
    ) -> None:
        self._settings = settings
        self._client = client
        self._address = address
        self._adaptations = adaptations
        self._traits = adaptations.of(address, settings.model)

    async def attempt(self, request: JudgeRequest) -> Success[JudgeReply | JudgeError] | Failure:
        """Send a request; again at once if the server only rejects a parameter.

        A failure may be due to log-probabilities: then it is sent without. If that works, and fails
        when it is sent with them once more, the server gets no requests for them from then on,
        unless another request got them meanwhile.
        """
        result = await self._adapt(request)
        if isinstance(result, Success) or not self._may_be_logprobs(request, result):
            return result
        without = await self._adapt(replace(request, wants_digits=False))
        traits = self._traits
        if isinstance(without, Failure):
            return replace(without, reason=f"{without.reason} (with `logprobs=false` too)")
        if traits.accepts_logprobs or not self._asks(request):
            return without
        again = await self._adapt(request)
        if isinstance(again, Success):
            return replace(again, cost_usd=(again.cost_usd or 0.0) + (without.cost_usd or 0.0))
        if self._asks(request) and not traits.accepts_logprobs:  # else another one was faster
            self._change(replace(traits.dialect, top_logprobs=0), [result])
        return without

    def _asks(self, request: JudgeRequest) -> bool:
        """Whether the server is asked for log-probabilities with this request."""
        return top_logprobs_of(request, self._settings, self._traits.dialect) > 0

    def _may_be_logprobs(self, request: JudgeRequest, failure: Failure) -> bool:
        """Whether to try without log-probabilities, after an error that does not name them.

        Where the server accepts them, it may have an outage, so only after some failures.
        """
        if not self._asks(request) or failure.kind in ("busy", "invalid"):
            return False
        if self._traits.accepts_logprobs:
            failures = self._adaptations.failures
            failures[request] += {"failed": 1, "timed_out": 2}.get(failure.kind, 0)
            return failures[request] >= _MAX_LOGPROBS_FAILURES
        error = failure.error
        if error is None:
            return True
        is_account = error.status in (401, 402) or error.is_quota or error.is_model
        return not (is_account or error.is_content_filter)

    async def _adapt(self, request: JudgeRequest) -> Success[JudgeReply | JudgeError] | Failure:
        """Send a request in one dialect after the other, until the server rejects no parameter.

        What it accepts instead is remembered when it has replied, so an error of another cause
        changes nothing.
        """
        initial = dialect = self._traits.dialect
        rejections: dict[Dialect, Failure] = {}
        while isinstance(result := await self._send(request, dialect), Failure):
            rejections[dialect] = result
            other = next_dialect(dialect, result.error, has_schema=request.schema is not None)
            if other is None or other in rejections:
                return result
            dialect = other
        if top_logprobs_of(request, self._settings, dialect):
            self._traits.accepts_logprobs = True
        # If the server's dialect is no longer the initial one, another request was faster.
        if dialect != initial == self._traits.dialect:
            self._change(dialect, rejections.values())
        return result

    def _change(self, dialect: Dialect, failures: Iterable[Failure]) -> None:
        """Use another dialect from now on, and log why."""
        initial, self._traits.dialect = self._traits.dialect, dialect
        changes, loss = [], ""
        if dialect.max_tokens_name != initial.max_tokens_name:
            changes.append(f"`{dialect.max_tokens_name}`")
        if dialect.takes_temperature != initial.takes_temperature:
            changes.append("no temperature")
        if dialect.top_logprobs != initial.top_logprobs:
            changes.append(f"{dialect.top_logprobs} `top_logprobs`")
            loss = "" if dialect.top_logprobs else " Its replies have no expected score."
        if dialect.schema_style != initial.schema_style:
            changes.append(f"the reply's schema as `{dialect.schema_style}`")
        reasons = (
            f"it answered {failure.reason}" if failure.error else failure.reason
            for failure in failures
        )
        logger.warning(
            f"The judge `{self._settings.model}` at {self._address} now gets "
            f"{', '.join(changes)}, because {'; '.join(dict.fromkeys(reasons)).rstrip('.')}.{loss}"
        )

    async def _send(
        self, request: JudgeRequest, dialect: Dialect
    ) -> Success[JudgeReply | JudgeError] | Failure:
        settings = self._settings
        if request in self._adaptations.out_of_tokens:
            dialect = replace(dialect, headroom=dialect.headroom + HEADROOM)
        completions = self._client.chat.completions.with_streaming_response
        try:
            body = chat_body(request, settings, dialect)
            content, pause_s = await receive(
                completions.create(**body),  # type: ignore[call-overload]
                settings.access.timeout_s,
            )
        except RequestBroken as error:
            return Failure(kind="invalid", reason=str(error))
        except ATTEMPT_ERRORS as error:
            return failure_of(error, settings.access.secrets)
        return self._read(request, content, pause_s)

    def _read(
        self, request: JudgeRequest, content: bytes, pause_s: float | None
    ) -> Success[JudgeReply | JudgeError] | Failure:
        settings, out_of_tokens = self._settings, self._adaptations.out_of_tokens
        reply: JudgeReply | JudgeError
        is_final = True
        try:
            completion = parse_json(content)
            reply = read_completion(
                completion,
                model=settings.model,
                price=settings.price,
                has_schema=request.schema is not None,
            )
        except UnusableBody as error:
            return Failure(kind="failed", reason=str(error), pause_s=pause_s)
        except PoorReply as poor:
            reply, is_final = poor.outcome, poor.is_cut and request in out_of_tokens
            if poor.is_cut:
                out_of_tokens.add(request)
        if isinstance(reply, JudgeError):
            reply = type(reply)(redact(str(reply), settings.access.secrets))
        cost_usd = cost_of(request, completion, settings)
        return Success(reply=reply, is_final=is_final, cost_usd=cost_usd, pause_s=pause_s)


def next_dialect(
    dialect: Dialect, error: ServerError | None, *, has_schema: bool = False
) -> Dialect | None:
    """The dialect to try after an error about a parameter; None if another would not help.

    >>> from mmie_tasks.judges.openai.settings import PLAIN
    >>> error = ServerError(status=400, code="unsupported_parameter", param="max_tokens")
    >>> next_dialect(PLAIN, error).max_tokens_name
    'max_completion_tokens'
    """
    if error is None:
        return None
    if has_schema and (style := next_style(dialect.schema_style, error)):
        return replace(dialect, schema_style=style)
    if error.is_logprobs and dialect.top_logprobs:
        fewer = FEWER_TOP_LOGPROBS if dialect.top_logprobs > FEWER_TOP_LOGPROBS else 0
        return replace(dialect, top_logprobs=fewer)
    if not error.is_parameter:
        return None
    if error.concerns(dialect.max_tokens_name):
        if dialect.max_tokens_name == "max_completion_tokens":
            return replace(dialect, max_tokens_name="max_tokens")
        return replace(dialect, max_tokens_name="max_completion_tokens", headroom=HEADROOM)
    if error.concerns("temperature") and dialect.takes_temperature:
        return replace(dialect, takes_temperature=False)
    return None


def chat_body(request: JudgeRequest, settings: Settings, dialect: Dialect) -> dict[str, object]:
    """The body of a chat completion: the system message, if any, then one user message with the
    parts in their order.

    Reads the request's images.

    Raises:
        RequestBroken: An image cannot be read.
    """
    limit = request.max_tokens if settings.max_tokens is None else settings.max_tokens
    content: list[dict[str, object]] = []
    for part in request.parts:
        if isinstance(part, str):
            content.append({"type": "text", "text": replace_surrogates(part)})
            continue
        data = image_bytes(part)
        image = {"url": f"data:{mime_type(data, part)};base64,{base64.b64encode(data).decode()}"}
        if settings.detail:
            image["detail"] = settings.detail
        content.append({"type": "image_url", "image_url": image})
    system = [{"role": "system", "content": request.system}] if request.system else []
    body: dict[str, object] = {
        "model": settings.model,
        "messages": [*system, {"role": "user", "content": content}],
        dialect.max_tokens_name: limit + dialect.headroom,
    }
    if request.schema:
        body |= schema_fields(request.schema, dialect.schema_style)
    if settings.temperature is not None and dialect.takes_temperature:
        body["temperature"] = settings.temperature
    if top_logprobs := top_logprobs_of(request, settings, dialect):
        body |= {"logprobs": True, "top_logprobs": top_logprobs}
    return body


def top_logprobs_of(request: JudgeRequest, settings: Settings, dialect: Dialect) -> int:
    """How many alternatives per token to request log-probabilities of; 0 for none.

    0 unless the benchmark computes an expected score, and with long replies, which they would make
    too large to read.
    """
    max_tokens = (settings.max_tokens or request.max_tokens) + dialect.headroom
    is_of_use = (
        request.wants_digits and settings.logprobs and max_tokens <= _MAX_TOKENS_WITH_LOGPROBS
    )
    return dialect.top_logprobs if is_of_use else 0


def mime_type(content: bytes, path: Path) -> str:
    """The MIME type of an image, by its first bytes, or else by the file's suffix.

    >>> mime_type(b"GIF89a", Path("a.png"))
    'image/gif'
    """
    if suffix := image_suffix(content):
        return {".jpg": "image/jpeg", ".tif": "image/tiff"}.get(suffix, f"image/{suffix[1:]}")
    return mimetypes.guess_type(path.name)[0] or "application/octet-stream"


def read_completion(
    completion: object, *, model: str, price: Price | None = None, has_schema: bool = False
) -> JudgeReply | JudgeRefused:
    """Read a chat completion. The text stays unchanged; missing optional fields are tolerated.

    Args:
        completion: Parsed JSON of any shape.
        model: The requested model, in case the server does not name the one that replied.
        price: For the cost in the usage.
        has_schema: Whether an object was asked for: the arguments of a call are then the text.

    Raises:
        UnusableBody: It has no choice with a message, or a call without arguments.
        PoorReply: By its finish reason, an error ended it; or it has no text.
    """
    match completion:
        case {"choices": [{"message": dict() as message, **choice}, *_]}:
            pass
        case _:
            raise UnusableBody("the server sent JSON without a choice that has a message")
    finish_reason = choice.get("finish_reason")
    if isinstance(finish_reason, str):
        finish_reason = finish_reason.strip().lower() or None
    arguments = called_with(message) if has_schema else None
    text = _text_of(message.get("content"), "text") if arguments is None else arguments
    refusal = message.get("refusal") or _text_of(message.get("content"), "refusal")
    if finish_reason == "content_filter":
        return JudgeRefused("the reply was withheld by a content filter")
    usage, is_cut = usage_of(completion, price), finish_reason in _CUT
    if not is_cut and finish_reason not in (_WHOLE + CALLS if has_schema else _WHOLE):
        reason = f"the reply is incomplete: finish_reason `{choice['finish_reason']!s:.200}`"
        raise PoorReply(JudgeUnavailable(reason))
    if refusal:
        return JudgeRefused(f"the judge refused: {str(refusal)[:200]}")
    if not text.strip():
        used = f", {usage.output_tokens} tokens, {usage.reasoning_tokens} of hidden reasoning"
        reason = f"the reply has no text (finish_reason `{finish_reason}`{used if is_cut else ''})"
        raise PoorReply(JudgeRefused(reason), is_cut=is_cut)
    server_model = json_object(completion).get("model")
    return JudgeReply(
        text=text,
        model=server_model if isinstance(server_model, str) and server_model else model,
        usage=usage,
        finish="length" if is_cut else "stop",
        digits=digits_of(choice.get("logprobs"), text),
    )


def _text_of(content: object, kind: str) -> str:
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = (json_object(part).get(kind) for part in parts)
    return "".join(text for text in texts if isinstance(text, str))


def usage_of(completion: object, price: Price | None = None) -> Usage:
    """The tokens that a server reports, 0 for what is missing or malformed, and their cost if both
    counts are there.
    """
    fields = json_object(json_object(completion).get("usage"))
    input_tokens = json_count(fields.get("prompt_tokens"))
    output_tokens = json_count(fields.get("completion_tokens"))
    details = json_object(fields.get("completion_tokens_details"))
    has_cost = input_tokens > 0 and (output_tokens > 0 or fields.get("completion_tokens") == 0)
    return Usage(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        reasoning_tokens=json_count(details.get("reasoning_tokens")),
        cost_usd=price.cost_usd(input_tokens, output_tokens) if price and has_cost else None,
    )


def cost_of(request: JudgeRequest, completion: object, settings: Settings) -> float | None:
    """The cost of a request in US dollars; None if the price is unknown.

    If the server does not report the tokens, a high estimate: the longest reply, 2,000 tokens per
    image and a token per 3 characters.
    """
    if settings.price is None:
        return None
    if (cost_usd := usage_of(completion, settings.price).cost_usd) is not None:
        return cost_usd
    parts = [*request.parts, request.system, request.schema.parameters if request.schema else ""]
    input_tokens = sum(
        _TOKENS_PER_IMAGE if isinstance(part, Path) else len(part) // _CHARACTERS_PER_TOKEN + 1
        for part in parts
        if part
    )
    return settings.price.cost_usd(input_tokens, settings.max_tokens or request.max_tokens)
