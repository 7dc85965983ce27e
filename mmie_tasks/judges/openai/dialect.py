"""The request parameters that a model accepts, by its name and its server's responses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.openai.schemas import SchemaStyle

HEADROOM = 8192
"""Tokens for hidden reasoning on top of a reply. Unused ones cost nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The request parameters that a model accepts.

    `headroom` tokens are added to the limit, because hidden reasoning counts against it.
    """

    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    takes_temperature: bool = True
    headroom: int = 0
    schema_style: SchemaStyle = "tools"


PLAIN = Dialect()
REASONING = Dialect(
    max_tokens_name="max_completion_tokens", takes_temperature=False, headroom=HEADROOM
)

# Reasoning models take `max_completion_tokens`, and no temperature but their default.
_REASONING = re.compile(r"(?:gpt-5|gpt-6|o1|o3|o4)(?:[-.:_].*)?")


def dialect_of(model: str, reasoning_effort: str = "") -> Dialect:
    """The parameters that a model accepts, judging by its name without a gateway's prefix.

    With the effort ``none``, reasoning models take a temperature (OpenAI's guide to GPT-5.1;
    vercel/ai #10940).

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
    """What a judge's check and requests have learned from the server's responses.

    Attributes:
        dialect: The dialect that the server accepts; at first, that of the model's name.
        out_of_tokens: Requests that reached the token limit without text, and are sent again with
            headroom.
    """

    dialect: Dialect
    out_of_tokens: set[JudgeRequest] = field(default_factory=set)
