"""Chat completions: request bodies, replies, and one server with its dialect.

The body and the reply are the same online and in the Batch API.
"""

from __future__ import annotations

import base64
import math
import mimetypes
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import openai
from loguru import logger

from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.http.bodies import json_count, json_list, json_object, parse_json
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
from mmie_tasks.judges.openai.models import Price
from mmie_tasks.judges.openai.schemas import CALLS, called_with, next_style, schema_fields
from mmie_tasks.judges.openai.settings import (
    FEWER_TOP_LOGPROBS,
    HEADROOM,
    Adaptations,
    Dialect,
    Settings,
)
from mmie_tasks.record.reply import DigitToken, JudgeReply, Usage

# Failures with log-probabilities before a request is sent without: of a server that never accepted
# any, and of one request to a server that did and may only have an outage. A timeout counts as two.
_MAX_SERVER_FAILURES, _MAX_REQUEST_FAILURES = 2, 4
_RETRIED = ("failed", "timed_out")
_CHARACTERS_PER_TOKEN = 3
_TOKENS_PER_IMAGE = 2000

# With log-probabilities, a token takes about 1 KB of the response, whose size is limited.
_MAX_TOKENS_WITH_LOGPROBS = 2048
_LEAST_LOGPROB = -1e99
_MAX_LOGPROB, _MAX_TOTAL = 1e-4, 1.01  # with errors of rounding; logits in their place exceed them
_DIGIT = re.compile(r"\s*([0-9])\s*")
_BLANKS = b" \t\n\r\f\v"

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

        Once a server that never accepted log-probabilities has failed twice, one request at a time
        is sent without, until one is answered: it may only be an outage.
        """
        traits = self._traits
        is_doubtful = not traits.accepts_logprobs and traits.failures >= _MAX_SERVER_FAILURES
        if not (request.wants_digits and is_doubtful) or traits.is_probed:
            return await self._adapt(request)
        traits.is_probed = True
        try:
            result = await self._adapt(replace(request, wants_digits=False))
        finally:
            traits.is_probed = False
        if isinstance(result, Success):
            traits.note_works_without_logprobs()
        elif result.kind in _RETRIED:
            return replace(result, reason=f"{result.reason} (with `logprobs=false` too)")
        return result

    async def _adapt(self, request: JudgeRequest) -> Success[JudgeReply | JudgeError] | Failure:
        """Send a request in one dialect after the other, until the server rejects no parameter.

        What it accepts instead is remembered when it has replied, so an error of another cause
        changes nothing.
        """
        traits = self._traits
        initial = dialect = traits.dialect
        rejections: dict[Dialect, Failure] = {}
        while isinstance(result := await self._send(request, dialect), Failure):
            rejections[dialect] = result
            other = next_dialect(dialect, result.error, has_schema=request.schema is not None)
            asks_logprobs = top_logprobs_of(request, self._settings, dialect) > 0
            if other is None and asks_logprobs and self._blames_logprobs(request, result):
                other = replace(dialect, top_logprobs=0)
            if other is not None and other not in rejections:
                dialect = other
                continue
            if self._adaptations.failures[request] >= _MAX_REQUEST_FAILURES:
                return await self._adapt(replace(request, wants_digits=False))
            if asks_logprobs and not traits.accepts_logprobs and result.kind in _RETRIED:
                hint = "`logprobs=false` asks for no log-probabilities"
                return replace(result, reason=f"{result.reason} ({hint})")
            return result
        if top_logprobs_of(request, self._settings, dialect):
            traits.accepts_logprobs = True
        # If the server's dialect is no longer the initial one, another request was faster.
        if dialect != initial and traits.dialect == initial:
            traits.dialect = dialect
            self._log_change(initial, dialect, rejections.values())
        return result

    def _blames_logprobs(self, request: JudgeRequest, failure: Failure) -> bool:
        """Whether to try at once without log-probabilities, after an error that names no parameter.

        Counts the failures that a retry may help.
        """
        traits, error = self._traits, failure.error
        count = {"failed": 1, "timed_out": 2}.get(failure.kind, 0)
        if traits.accepts_logprobs:
            self._adaptations.failures[request] += count
            return False
        traits.failures += count
        if error is not None and error.status in (400, 422) and not error.is_content_filter:
            return True
        return traits.works_without_logprobs and failure.kind != "busy"

    def _log_change(self, initial: Dialect, dialect: Dialect, failures: Iterable[Failure]) -> None:
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
        except IncompleteReply as error:
            reply, is_final = JudgeUnavailable(str(error)), False
        except NoText as error:
            reply = JudgeRefused(str(error))
            is_final = error.is_cut and request in out_of_tokens
            if error.is_cut:
                out_of_tokens.add(request)
        except UnusableBody as error:
            return Failure(kind="failed", reason=str(error), pause_s=pause_s)
        if isinstance(reply, JudgeError):
            reply = type(reply)(redact(str(reply), settings.access.secrets))
        cost_usd = cost_of(request, completion, settings)
        return Success(reply=reply, is_final=is_final, cost_usd=cost_usd, pause_s=pause_s)


def next_dialect(
    dialect: Dialect, error: ServerError | None, *, has_schema: bool = False
) -> Dialect | None:
    """The dialect to try after an error about a parameter; None if another would not help.

    Args:
        dialect: Of the request.
        error: What the server answered, if it did.
        has_schema: Whether the request asks for an object.

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
        return replace(
            dialect,
            top_logprobs=FEWER_TOP_LOGPROBS if dialect.top_logprobs > FEWER_TOP_LOGPROBS else 0,
        )
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
        finish_reason = finish_reason.strip().lower() or None
    arguments = called_with(message) if has_schema else None
    text = _text_of(message.get("content"), "text") if arguments is None else arguments
    refusal = message.get("refusal") or _text_of(message.get("content"), "refusal")
    if finish_reason == "content_filter":
        return JudgeRefused("the reply was withheld by a content filter")
    is_cut = finish_reason in _CUT
    if not is_cut and finish_reason not in (_WHOLE + CALLS if has_schema else _WHOLE):
        raise IncompleteReply(
            f"the reply is incomplete: finish_reason `{choice['finish_reason']!s:.200}`"
        )
    if refusal:
        return JudgeRefused(f"the judge refused: {str(refusal)[:200]}")
    if not text.strip():
        raise _no_text(completion, finish_reason, is_cut=is_cut)
    server_model = json_object(completion).get("model")
    return JudgeReply(
        text=text,
        model=server_model if isinstance(server_model, str) and server_model else model,
        usage=usage_of(completion, price),
        finish="length" if is_cut else "stop",
        digits=digits_of(choice.get("logprobs"), text),
    )


def _no_text(completion: object, finish_reason: object, *, is_cut: bool) -> NoText:
    reason = f"the reply has no text (finish_reason `{finish_reason}`)"
    if is_cut:
        usage = usage_of(completion)
        hidden = f", {usage.reasoning_tokens} of them for hidden reasoning"
        reason += f": {usage.output_tokens} tokens were used"
        reason += hidden if usage.reasoning_tokens else ""
    return NoText(reason, is_cut=is_cut)


def digits_of(logprobs: object, text: str) -> tuple[DigitToken, ...] | None:
    """The digits of a reply that are tokens of their own, from the log-probabilities of a chat
    completion.

    Args:
        logprobs: The field of that name of the reply's choice: parsed JSON of any shape.
        text: The reply's text.

    Returns:
        None if the fields that are read are missing or malformed, or if the tokens do not hold the
        text exactly once, apart from blanks.

    >>> five, four = {"token": " 5", "logprob": -0.1}, {"token": " 4", "logprob": -2.5}
    >>> tokens = [{"token": "Score:", "logprob": 0}, {**five, "top_logprobs": [five, four]}]
    >>> (digit,) = digits_of({"content": tokens}, "Score: 5")
    >>> [(digit.offset, digit.logprobs[4], digit.logprobs[5])]
    [(7, -2.5, -0.1)]
    """
    tokens = [json_object(token) for token in json_list(json_object(logprobs).get("content"))]
    spellings = [spelling for token in tokens if (spelling := _spelling_of(token)) is not None]
    if len(spellings) < len(tokens):
        return None
    # Tokens may hold part of a character, so positions are in bytes. Blanks do not count: some
    # servers decode every token by itself, which loses those before words.
    positions = [
        index
        for index, character in enumerate(text)
        for byte in character.encode(errors="surrogatepass")
        if byte not in _BLANKS
    ]
    joined, squeezed_text = (
        content.translate(None, _BLANKS)
        for content in (b"".join(spellings), text.encode(errors="surrogatepass"))
    )
    begin = joined.find(squeezed_text)
    if begin < 0 or begin != joined.rfind(squeezed_text):
        return None
    digits, end = [], -begin
    for token, spelling in zip(tokens, spellings, strict=True):
        squeezed = spelling.translate(None, _BLANKS)
        end += len(squeezed)
        if (digit := _digit_of(spelling)) is None:
            continue
        position = end - len(squeezed) + squeezed.index(str(digit).encode())
        if not 0 <= position < len(positions):
            continue  # of hidden reasoning
        values = _digit_logprobs(token, spelling)
        if values is None:
            return None
        digits.append(DigitToken(offset=positions[position], logprobs=values))
    return tuple(digits)


def _spelling_of(entry: object) -> bytes | None:
    """The bytes of a token; None if they are malformed."""
    fields = json_object(entry)
    match fields.get("token"), fields.get("bytes"):
        case str(characters), None:
            return characters.encode(errors="surrogatepass")
        case str(), list(codes) if all(type(code) is int and 0 <= code <= 255 for code in codes):
            return bytes(codes)
    return None


def _digit_of(spelling: bytes) -> int | None:
    """The digit of a token that is a digit, with or without white space around it."""
    match = _DIGIT.fullmatch(spelling.decode(errors="replace"))
    return int(match[1]) if match else None


def _digit_logprobs(
    token: Mapping[str, object], spelling: bytes
) -> tuple[float | None, ...] | None:
    """The log-probabilities of the digits 0 to 9 as this token; None if they are malformed.

    A digit has several spellings, with and without white space; their probabilities are added up.
    """
    alternatives, own_logprob = json_list(token.get("top_logprobs")), _logprob_of(token)
    if own_logprob is None or not alternatives:
        return None
    # The generated token may be missing among its alternatives, or be listed twice.
    pairs = dict.fromkeys((_spelling_of(entry), _logprob_of(entry)) for entry in alternatives)
    if spelling not in (other for other, _ in pairs):
        pairs[spelling, own_logprob] = None
    values: list[list[float]] = [[] for _ in range(10)]
    total = 0.0
    for other, logprob in pairs:
        if other is None or logprob is None:
            return None
        total += math.exp(logprob)
        if (digit := _digit_of(other)) is not None:
            values[digit].append(logprob)
    if total > _MAX_TOTAL:
        return None
    return tuple(
        round(min(0.0, float(np.logaddexp.reduce(logs))), 4) if logs else None for logs in values
    )


def _logprob_of(entry: object) -> float | None:
    """The log-probability of a token; None if it is none."""
    match json_object(entry).get("logprob"):
        case int() | float() as logprob if (
            type(logprob) is not bool and _LEAST_LOGPROB < logprob <= _MAX_LOGPROB
        ):
            return float(logprob)
    return None


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
