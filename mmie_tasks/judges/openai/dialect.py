"""The request parameters that a model accepts: what its name shows, and its server's responses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.openai.schemas import SchemaStyle

HEADROOM = 8192
"""Tokens that a reasoning model may use on top of its reply. Unused ones cost nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The request parameters that a model accepts.

    Attributes:
        headroom: Tokens added to the limit, because hidden reasoning counts against it.
    """

    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    takes_temperature: bool = True
    headroom: int = 0
    schema_style: SchemaStyle = "tools"


PLAIN = Dialect()
REASONING = Dialect(
    max_tokens_name="max_completion_tokens", takes_temperature=False, headroom=HEADROOM
)

# They reason before they reply, take `max_completion_tokens` and only their own temperature.
_REASONING = re.compile(r"(?:gpt-5|gpt-6|o1|o3|o4)(?:[-.:_].*)?")


def dialect_of(model: str, reasoning_effort: str = "") -> Dialect:
    """The parameters that a model accepts, as far as its name shows.

    A gateway's prefix is ignored. With the effort ``none``, reasoning models take a temperature
    (OpenAI's guide to GPT-5.1; vercel/ai #10940).

    >>> models = ("gpt-6-luna", "openai/o3-mini", "gpt-4o", "o12")
    >>> [dialect_of(model) is REASONING for model in models]
    [True, True, False, False]
    """
    name = model.rpartition("/")[2]
    if _REASONING.fullmatch(name):
        is_off = reasoning_effort == "none"
        return replace(PLAIN, max_tokens_name="max_completion_tokens") if is_off else REASONING
    return replace(PLAIN, schema_style="functions") if name.startswith("gpt-4o") else PLAIN


@dataclass(slots=True, kw_only=True)
class Adaptations:
    """What the responses of a judge's server showed. Its check and its requests share them.

    Attributes:
        dialect: What the server accepts; at first, what the model's name shows.
        out_of_tokens: Requests that got a reply without text at the token limit; they are sent
            again with headroom.
    """

    dialect: Dialect
    out_of_tokens: set[JudgeRequest] = field(default_factory=set)
