"""Reads the reply in a chat completion, online or from the Batch API."""

from __future__ import annotations

from dataclasses import dataclass

from mmie_tasks.http.bodies import json_count, json_object
from mmie_tasks.http.errors import UnusableBody, read_server_error
from mmie_tasks.judges.base import JudgeError, JudgeRefused, JudgeUnavailable
from mmie_tasks.judges.openai.schemas import CALLS, called_with
from mmie_tasks.record.reply import JudgeReply, Usage

# Finish reasons of several servers, in lower case.
_WHOLE = (None, "stop", "eos", "eos_token", "end_turn", "stop_sequence")
_CUT = ("length", "max_tokens", "model_length")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million tokens."""

    input_usd: float
    output_usd: float

    def cost_usd(self, input_tokens: int, output_tokens: int) -> float:
        """The cost of a number of tokens, in US dollars.

        >>> Price(input_usd=2.5, output_usd=10.0).cost_usd(1_000_000, 100_000)
        3.5
        """
        return (self.input_usd * input_tokens + self.output_usd * output_tokens) / 1e6


class PoorReply(Exception):
    """A reply that is incomplete or has no text; a retry may be better.

    Attributes:
        outcome: The outcome if no better reply arrives.
        is_cut: Whether the reply reached the token limit before its text began.
    """

    def __init__(self, outcome: JudgeError, *, is_cut: bool = False) -> None:
        super().__init__(str(outcome))
        self.outcome = outcome
        self.is_cut = is_cut


def read_completion(
    completion: object, *, model: str, price: Price | None = None, has_schema: bool = False
) -> JudgeReply | JudgeRefused:
    """Read a chat completion. The text stays unchanged; missing optional fields are tolerated.

    Args:
        completion: Parsed JSON of any shape.
        model: The requested model, in case the server does not name the one that replied.
        price: The price for the cost in the usage; None if unknown.
        has_schema: Whether the request has a schema, so that a call's arguments are the text.

    Raises:
        UnusableBody: The completion has no choice with a message, or a call without arguments.
        PoorReply: The finish reason is an error, or the reply has no text.
    """
    match completion:
        case {"choices": [{"message": dict() as message, **choice}, *_]}:
            pass
        case _:
            # Some gateways send an error with status 200.
            words = read_server_error(200, completion).message
            text = "the server sent JSON without a choice that has a message"
            raise UnusableBody(f"{text}: {words}" if words else text)
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
    )


def _text_of(content: object, kind: str) -> str:
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = (json_object(part).get(kind) for part in parts)
    return "".join(text for text in texts if isinstance(text, str))


def usage_of(completion: object, price: Price | None = None) -> Usage:
    """The reported tokens, 0 if missing or malformed, and their cost if both counts are known."""
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
