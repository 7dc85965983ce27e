"""The request parameters that a model accepts, as far as its name shows."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from mmie_tasks.judges.openai.model_names import without_prefix
from mmie_tasks.judges.openai.schemas import SchemaStyle

HEADROOM = 8192
"""Tokens that a reasoning model may use on top of its reply. Unused ones cost nothing."""
TOP_LOGPROBS = 10
"""Alternatives per token to request log-probabilities of, at first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The request parameters that a model accepts.

    Attributes:
        headroom: Tokens added to the limit, because hidden reasoning counts against it.
        top_logprobs: The most alternatives per token with log-probabilities; 0 if none may be
            requested.
    """

    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    takes_temperature: bool = True
    headroom: int = 0
    top_logprobs: int = TOP_LOGPROBS
    schema_style: SchemaStyle = "tools"


PLAIN = Dialect()
REASONING = Dialect(
    max_tokens_name="max_completion_tokens",
    takes_temperature=False,
    headroom=HEADROOM,
    top_logprobs=0,
)


# They reason before they reply, take `max_completion_tokens` and only their own temperature.
_REASONING = re.compile(r"(?:gpt-5|gpt-6|o1|o3|o4)(?:[-.:_].*)?")


def dialect_of(model: str, reasoning_effort: str = "") -> Dialect:
    """The parameters that a model accepts, as far as its name shows.

    A gateway's prefix is ignored. With the effort ``none``, reasoning models take a temperature and
    log-probabilities (OpenAI's guide to GPT-5.1; vercel/ai #10940).

    >>> models = ("gpt-6-luna", "openai/o3-mini", "gpt-4o", "o12")
    >>> [dialect_of(model) is REASONING for model in models]
    [True, True, False, False]
    """
    name = without_prefix(model)
    if _REASONING.fullmatch(name):
        is_off = reasoning_effort == "none"
        return replace(PLAIN, max_tokens_name="max_completion_tokens") if is_off else REASONING
    return replace(PLAIN, schema_style="functions") if name.startswith("gpt-4o") else PLAIN
