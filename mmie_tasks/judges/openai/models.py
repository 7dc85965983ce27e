"""Tables of models: prices, shutdown dates, and the request parameters they accept.

A model that is in no table works like any other; its price is unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Literal

from mmie_tasks.judges.base import JudgeRequest

WARN_DAYS = 60
HEADROOM = 8192
"""Tokens that a reasoning model may use on top of its reply. Unused ones cost nothing."""
TOP_LOGPROBS, FEWER_TOP_LOGPROBS = 10, 5
"""Alternatives per token to request log-probabilities of: at first, and where that is too many."""


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

    def times(self, factor: float) -> Price:
        """The price with a discount: 0.5 for the Batch API."""
        return Price(input_usd=self.input_usd * factor, output_usd=self.output_usd * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The request parameters that a model accepts.

    Attributes:
        max_tokens_name: The parameter that limits the reply.
        takes_temperature: Whether the temperature may be set.
        headroom: Tokens added to the limit, because hidden reasoning counts against it.
        top_logprobs: The most alternatives per token with log-probabilities; 0 if none may be requested.
    """

    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    takes_temperature: bool = True
    headroom: int = 0
    top_logprobs: int = TOP_LOGPROBS


PLAIN = Dialect()
REASONING = Dialect(max_tokens_name="max_completion_tokens", takes_temperature=False, headroom=HEADROOM, top_logprobs=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptations:
    """What the responses of a judge's servers showed. Shared by its check and its requests.

    Attributes:
        dialects: The parameters that a server accepts, by its address.
        out_of_tokens: Requests that got a reply without text at the token limit; they are sent again with headroom.
        accept_logprobs: Addresses of servers that replied to a request for log-probabilities.
        failures: How often a request for log-probabilities failed for an unknown reason.
    """

    dialects: dict[str, Dialect] = field(default_factory=dict)
    out_of_tokens: set[JudgeRequest] = field(default_factory=set)
    accept_logprobs: set[str] = field(default_factory=set)
    failures: Counter[JudgeRequest] = field(default_factory=Counter)


_GPT_4O = Price(input_usd=2.50, output_usd=10.00)

# The provider's price list for synchronous requests, as of 2026-11.
PRICES: Mapping[str, Price] = {
    "gpt-4o": _GPT_4O,
    "gpt-4o-2024-08-06": _GPT_4O,
    "gpt-4o-2024-11-20": _GPT_4O,
    "gpt-6-luna": Price(input_usd=0.10, output_usd=0.50),
}

# The provider's deprecations page, as of 2026-11: days of shutdown, and one successor for all. It
# names no day for the undated alias.
SUCCESSOR = "gpt-6-luna"
RETIREMENTS: Mapping[str, date] = {
    "gpt-4o-2024-05-13": date(2026, 10, 23),
    "gpt-4o-2024-08-06": date(2027, 1, 14),
    "gpt-4o-2024-11-20": date(2027, 1, 14),
    "gpt-5": date(2026, 12, 11),
    "gpt-5-mini": date(2026, 12, 11),
    "gpt-5-nano": date(2026, 12, 11),
}

# They reason before they reply, take `max_completion_tokens` and only their own temperature.
_REASONING = re.compile(r"(?:gpt-5|gpt-6|o1|o3|o4)(?:[-.:_].*)?")


def dialect_of(model: str) -> Dialect:
    """The parameters that a model accepts, as far as its name shows.

    A gateway's prefix is ignored.

    >>> models = ("gpt-6-luna", "openai/o3-mini", "gpt-4o", "o12")
    >>> [dialect_of(model) is REASONING for model in models]
    [True, True, False, False]
    """
    return REASONING if _REASONING.fullmatch(_without_prefix(model)) else PLAIN


def price_of(model: str) -> Price | None:
    """The listed price; None if the model is not in the table."""
    return PRICES.get(_without_prefix(model))


def retirement_notice(model: str, today: date) -> str | None:
    """A notice if a model was shut down, or will be within `WARN_DAYS` days.

    >>> retirement_notice("gpt-4o-2024-11-20", date(2026, 12, 1))
    '`gpt-4o-2024-11-20` is shut down on 2027-01-14; its provider names `gpt-6-luna` instead'
    """
    day = RETIREMENTS.get(_without_prefix(model))
    if day is None or today < day - timedelta(days=WARN_DAYS):
        return None
    verb = "is shut down" if today < day else "was shut down"
    return f"`{model}` {verb} on {day}; its provider names `{SUCCESSOR}` instead"


def _without_prefix(model: str) -> str:
    return model.rpartition("/")[2]
