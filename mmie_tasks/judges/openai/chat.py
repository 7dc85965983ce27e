"""Chat completions: the body of a request in the parameters that its server accepts, and the reply.

A server that rejects a parameter gets the next `Dialect`, which all later requests use, too.
"""

from __future__ import annotations

import asyncio
import base64
import json
import mimetypes
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from loguru import logger

from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.http.access import Access
from mmie_tasks.http.errors import Fault, fault_of, message_of, redact
from mmie_tasks.http.sender import Budget, Pace, Sender
from mmie_tasks.hub.images import image_suffix
from mmie_tasks.judges.base import (
    JudgeError,
    JudgeRefused,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    ReplyEmpty,
    ReplySchema,
    RequestBroken,
)
from mmie_tasks.judges.content import image_bytes
from mmie_tasks.judges.openai.settings import OpenAIOptions
from mmie_tasks.record.reply import JudgeReply, Usage

if TYPE_CHECKING:
    from openai import AsyncOpenAI

HEADROOM = 8192
"""Tokens for hidden reasoning on top of a reply. Unused ones cost nothing."""

_MAX_REPLIES = 3
"""A request whose replies have no text, or broke off, is sent so often."""

# Reasoning models take `max_completion_tokens`, and no temperature but their default.
_REASONING = re.compile(r"(?:gpt-5|gpt-6|o1|o3|o4)(?:[-.:_].*)?")

_SHOWN_CHARACTERS = 200  # of JSON in another form

# What servers call the end of a reply, in lower case. After any other word the reply is whole.
_CUT = re.compile(r".*length|max_.*")
_FILTERED = re.compile(r"content_filter.*|sensitive|safety")
_FAILED = re.compile(r"error|abort(?:ed)?|.*_error|insufficient_.*")

SchemaStyle: TypeAlias = Literal["functions", "tools", "none"]
"""How a request carries a schema: as OpenAI's deprecated ``functions``, which the official scripts
send; as ``tools``; or not at all, so that only the prompt asks for JSON.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The request parameters that a server accepts.

    `headroom` tokens are added to the limit, because hidden reasoning counts against it.
    """

    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    takes_temperature: bool = True
    headroom: int = 0
    schema_style: SchemaStyle = "tools"

    @classmethod
    def of(cls, model: str, reasoning_effort: str = "") -> Dialect:
        """The parameters that a model accepts, judging by its name without a gateway's prefix.

        With the effort ``none``, reasoning models take a temperature (OpenAI's guide to GPT-5.1;
        vercel/ai #10940).

        >>> Dialect.of("openai/o3-mini").max_tokens_name, Dialect.of("gpt-4o").schema_style
        ('max_completion_tokens', 'functions')
        """
        name = model.rpartition("/")[2]
        if _REASONING.fullmatch(name):
            is_off = reasoning_effort == "none"
            return cls(
                max_tokens_name="max_completion_tokens",
                takes_temperature=is_off,
                headroom=0 if is_off else HEADROOM,
            )
        return cls(schema_style="functions" if name.startswith("gpt-4o") else "tools")

    def after(self, fault: Fault, *, has_schema: bool) -> Dialect | None:
        """The dialect to try after a fault; None if it is not about a parameter of this one."""
        name = fault.rejects("max_tokens", "max_completion_tokens", "temperature")
        if name == "temperature" and self.takes_temperature:
            return replace(self, takes_temperature=False)
        if name == "max_tokens" == self.max_tokens_name:
            return replace(self, max_tokens_name="max_completion_tokens", headroom=HEADROOM)
        if name == "max_completion_tokens" == self.max_tokens_name:
            return replace(self, max_tokens_name="max_tokens")
        if has_schema and fault.rejects("functions?", "function_call", "tools?", "tool_choice"):
            style: SchemaStyle = "tools" if self.schema_style == "functions" else "none"
            return None if style == self.schema_style else replace(self, schema_style=style)
        return None

    def __str__(self) -> str:
        """For messages."""
        temperature = "with" if self.takes_temperature else "without"
        headroom = f" with {self.headroom:,} more tokens" * bool(self.headroom)
        return f"`{self.max_tokens_name}`{headroom}, {temperature} `temperature`"


class NoText(Exception):
    """A reply without text, or one that broke off; the next one may be better.

    Attributes:
        outcome: The outcome if no better reply arrives.
        is_cut: Whether the reply reached the token limit before its text began.
    """

    def __init__(self, outcome: JudgeError, *, is_cut: bool = False) -> None:
        super().__init__(str(outcome))
        self.outcome, self.is_cut = outcome, is_cut


def open_chat(options: OpenAIOptions, environment: Mapping[str, str], pace: Pace) -> Chat:
    """A chat with the server that options and environment name. Sends no request.

    Raises:
        SettingWrong: An option or variable has an invalid value, or one is missing.
    """
    options = options.completed(environment)
    sender = Sender(
        access=options.access(environment),
        max_concurrency=options.max_concurrency,
        patience_s=options.patience,
        budget=Budget(max_usd=options.max_cost),
        pace=pace,
    )
    return Chat(options, sender)


class Chat:
    """Sends chat requests to one server.

    Attributes:
        dialect: The parameters of the next request.
        signature: The parts of the judge's signature.
    """

    def __init__(self, options: OpenAIOptions, sender: Sender) -> None:
        self.options, self.sender = options, sender
        self.dialect = Dialect.of(options.model or "", options.reasoning_effort)
        self.signature = signature(options, sender.access, self.dialect)

    async def send(self, client: AsyncOpenAI, request: JudgeRequest) -> Outcome:
        """Send a request until its reply has text, at once in another dialect if one is rejected.

        Raises:
            Fault: There is no reply.
        """
        dialect, reasons = self.dialect, dict[Dialect, str]()
        replies = 0
        while True:
            try:
                outcome = await self._send(client, request, dialect)
            except RequestBroken as error:  # noqa: PERF203 - a request is sent again
                return error
            except NoText as error:
                replies += 1
                has_headroom = error.is_cut and dialect.headroom >= HEADROOM
                if has_headroom or replies == _MAX_REPLIES or not self.sender.may_send_again:
                    return error.outcome
                if error.is_cut:
                    dialect = replace(dialect, headroom=dialect.headroom + HEADROOM)
                    reasons[dialect] = "a reply was cut off before its text began"
            except Fault as fault:
                other = dialect.after(fault, has_schema=request.schema is not None)
                if other is None or other in reasons:
                    raise
                dialect, reasons[other] = other, str(fault).rstrip(".")
            else:
                if reasons and dialect != self.dialect:
                    self.dialect = dialect
                    service = self.sender.access.service
                    logger.warning(f"{service} now gets {dialect}: {'; '.join(reasons.values())}.")
                return outcome

    async def _send(
        self, client: AsyncOpenAI, request: JudgeRequest, dialect: Dialect
    ) -> JudgeReply | JudgeRefused:
        import openai  # takes a second

        access, body = self.sender.access, chat_body(request, self.options, dialect)
        added = {name: body.pop(name) for name in self.options.extra_fields}
        create = client.chat.completions.with_raw_response.create
        try:
            response = await asyncio.wait_for(
                create(**body, extra_body=added or None),  # type: ignore[call-overload]
                access.timeout_s,
            )
            completion = json.loads(response.content)
        except (openai.OpenAIError, asyncio.TimeoutError) as error:
            raise fault_of(error, access.secrets) from None
        except (ValueError, RecursionError):
            raise Fault("failed", "the server sent a body that is no JSON") from None
        self.sender.budget.spend(cost_of(request, completion, self.options))
        try:
            return read_completion(completion, self.options, request.schema, access.secrets)
        except NoText as error:
            error.outcome.args = (redact(str(error.outcome), access.secrets),)
            raise


def signature(options: OpenAIOptions, access: Access, dialect: Dialect) -> dict[str, str]:
    """The parts of a judge's signature: all that can move a score.

    The host is that of a foreign server, which may serve any model under a provider's name.
    """
    temperature = options.temperature if dialect.takes_temperature else None
    effort = options.reasoning_effort + (f"+{dialect.headroom}" if dialect.headroom else "")
    parts = {
        "judge": "openai",
        "model": options.model,
        "t": "none" if temperature is None else f"{temperature:g}",
        "max": options.max_tokens and str(options.max_tokens),
        "detail": options.detail,
        "reasoning": effort,
        "extra_body": options.extra_body,
        "host": access.foreign_host,
    }
    return {name: part for name, part in parts.items() if part}


def chat_body(request: JudgeRequest, options: OpenAIOptions, dialect: Dialect) -> dict[str, object]:
    """The body of a chat completion, with the bytes of the request's images.

    One user message with the parts in order follows the system message, if any.

    Raises:
        RequestBroken: An image cannot be read.
    """
    content: list[dict[str, object]] = []
    for part in request.parts:
        if isinstance(part, str):
            content.append({"type": "text", "text": replace_surrogates(part)})
            continue
        data = image_bytes(part)
        image = {"url": f"data:{_mime_type(data, part)};base64,{base64.b64encode(data).decode()}"}
        if options.detail:
            image["detail"] = options.detail
        content.append({"type": "image_url", "image_url": image})
    system = [{"role": "system", "content": request.system}] if request.system else []
    body: dict[str, object] = {
        "model": options.model,
        "messages": [*system, {"role": "user", "content": content}],
        dialect.max_tokens_name: (options.max_tokens or request.max_tokens) + dialect.headroom,
        **options.extra_fields,
    }
    if request.schema:
        body |= _schema_fields(request.schema, dialect.schema_style)
    if options.temperature is not None and dialect.takes_temperature:
        body["temperature"] = options.temperature
    return body


def _mime_type(content: bytes, path: Path) -> str:
    """The MIME type of an image by its first bytes, or else by the file's suffix."""
    if suffix := image_suffix(content):
        return {".jpg": "image/jpeg", ".tif": "image/tiff"}.get(suffix, f"image/{suffix[1:]}")
    return mimetypes.guess_type(path.name)[0] or "application/octet-stream"


def _schema_fields(schema: ReplySchema, style: SchemaStyle) -> dict[str, object]:
    description = {"description": schema.description} if schema.description else {}
    function = {"name": schema.name, **description, "parameters": json.loads(schema.parameters)}
    if style == "functions":
        return {"functions": [function], "function_call": {"name": schema.name}}
    if style == "none":
        return {}
    choice = {"type": "function", "function": {"name": schema.name}}
    return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}


# Replies


def read_completion(
    completion: object,
    options: OpenAIOptions,
    schema: ReplySchema | None = None,
    secrets: tuple[str, ...] = (),
) -> JudgeReply | JudgeRefused:
    """Read a chat completion, online or from the Batch API.

    Args:
        completion: Parsed JSON of any shape.
        options: The judge's model and prices.
        schema: The request's schema: the arguments of a call are then the text.
        secrets: What no message may contain.

    Raises:
        Fault: The completion has no choice with a message.
        NoText: The reply broke off, or has no text.
    """
    match completion:
        case {"choices": [{"message": dict() as message, **choice}, *_], **fields}:
            pass
        case _:  # some gateways send an error with status 200
            text = json.dumps(completion)
            words = redact(message_of(text) or text, secrets)[:_SHOWN_CHARACTERS]
            raise Fault("failed", f"the server sent no `choices[0].message`: {words}")
    finish = str(choice.get("finish_reason") or "").strip().lower()
    is_cut, usage = _CUT.fullmatch(finish) is not None, usage_of(completion, options)
    if _FILTERED.fullmatch(finish):
        return JudgeRefused(f"the reply was withheld by a filter: finish_reason `{finish}`")
    if _FAILED.fullmatch(finish):
        raise NoText(JudgeUnavailable(f"the reply is incomplete: finish_reason `{finish[:200]}`"))
    if refusal := message.get("refusal"):
        return JudgeRefused(f"the judge refused: {redact(str(refusal), secrets)}")
    text = _text_of(message.get("content"))
    if schema is not None:
        text = _arguments_of(message, text, schema) or text
    if not text.strip():
        used = f", {usage.output_tokens} tokens, {usage.reasoning_tokens} of hidden reasoning"
        reason = f"the reply has no text (finish_reason `{finish}`{used if is_cut else ''})"
        raise NoText(ReplyEmpty(reason), is_cut=is_cut)
    model = fields.get("model")
    return JudgeReply(
        text=text,
        model=model if isinstance(model, str) and model else options.model or "",
        usage=usage,
        finish="length" if is_cut else "stop",
    )


def _text_of(content: object) -> str:
    """The text of a message: a text, or parts, of which those with text are the judge's words."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [
        part.get("text")
        for part in parts
        if isinstance(part, dict) and part.get("type", "text") in ("text", "output_text")
    ]
    return "".join(text for text in texts if isinstance(text, str))


def _arguments_of(message: Mapping[str, object], text: str, schema: ReplySchema) -> str | None:
    """The arguments of a reply's call as JSON text, also of one in its text; None without a call.

    Models whose server does not read their calls write ``{"name": ..., "arguments": {...}}``, with
    or without tags around it.
    """
    arguments: object
    match message:
        case {"function_call": {"arguments": arguments}}:
            pass
        case {"tool_calls": [{"function": {"arguments": arguments}}, *_]}:
            pass
        case _:
            try:
                call, _ = json.JSONDecoder().raw_decode(text[max(text.find("{"), 0) :])
            except (ValueError, RecursionError):
                return None
            match call:
                case {"name": schema.name, "arguments": arguments}:
                    pass
                case _:
                    return None
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def usage_of(completion: object, options: OpenAIOptions) -> Usage:
    """The reported tokens, 0 if missing or malformed, and their cost if they are known."""
    match completion:
        case {"usage": dict() as usage}:
            pass
        case _:
            usage = {}
    details = usage.get("completion_tokens_details")
    counts = [usage.get("prompt_tokens"), usage.get("completion_tokens")]
    counts += [details.get("reasoning_tokens") if isinstance(details, dict) else 0]
    prompt, reply, reasoning = (c if type(c) is int and 0 < c < 10**9 else 0 for c in counts)
    return Usage(
        input_tokens=prompt,
        output_tokens=reply,
        reasoning_tokens=reasoning,
        cost_usd=options.cost_usd(prompt, reply) if prompt else None,
    )


def cost_of(request: JudgeRequest, completion: object, options: OpenAIOptions) -> float | None:
    """The cost of a request in US dollars; None if the price is unknown.

    If the server does not report the tokens, the cost is a high estimate: the longest reply, 2,000
    tokens per image and a token per 3 characters.
    """
    if (cost_usd := usage_of(completion, options).cost_usd) is not None:
        return cost_usd
    texts = [*request.parts, request.system, request.schema.parameters if request.schema else ""]
    tokens = sum(2000 if isinstance(part, Path) else len(part) // 3 + 1 for part in texts)
    return options.cost_usd(tokens, options.max_tokens or request.max_tokens)
