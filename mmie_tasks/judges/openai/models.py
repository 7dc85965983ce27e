"""What is known of a provider's models: prices, when they are shut down, which of them reason.

Data, and three functions that look it up. A model that is in no table works like any other; its
price is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta

WARN_DAYS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million tokens."""

    input_usd: float
    output_usd: float

    def cost_usd(self, input_tokens: int, output_tokens: int) -> float:
        """What so many tokens cost, in US dollars.

        >>> Price(input_usd=2.5, output_usd=10.0).cost_usd(1_000_000, 100_000)
        3.5
        """
        return (self.input_usd * input_tokens + self.output_usd * output_tokens) / 1e6

    def times(self, factor: float) -> Price:
        """The price with a discount: 0.5 for the Batch API."""
        return Price(input_usd=self.input_usd * factor, output_usd=self.output_usd * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """The day from which a model no longer answers, and what its provider names instead."""

    day: date
    successor: str


_GPT_4O = Price(input_usd=2.50, output_usd=10.00)

# The provider's price list for synchronous requests, as of 2026-11.
PRICES: Mapping[str, Price] = {
    "gpt-4o": _GPT_4O,
    "gpt-4o-2024-08-06": _GPT_4O,
    "gpt-4o-2024-11-20": _GPT_4O,
    "gpt-6-luna": Price(input_usd=0.10, output_usd=0.50),
}

# The provider's deprecations page, as of 2026-11. For the undated alias it names no day.
RETIREMENTS: Mapping[str, Retirement] = {
    "gpt-4o-2024-05-13": Retirement(day=date(2026, 10, 23), successor="gpt-6-luna"),
    "gpt-4o-2024-08-06": Retirement(day=date(2027, 1, 14), successor="gpt-6-luna"),
    "gpt-4o-2024-11-20": Retirement(day=date(2027, 1, 14), successor="gpt-6-luna"),
    "gpt-5": Retirement(day=date(2026, 12, 11), successor="gpt-6-luna"),
    "gpt-5-mini": Retirement(day=date(2026, 12, 11), successor="gpt-6-luna"),
    "gpt-5-nano": Retirement(day=date(2026, 12, 11), successor="gpt-6-luna"),
}

# They think before they answer, take `max_completion_tokens` and only their own temperature.
REASONING_FAMILIES = ("gpt-5", "gpt-6", "o1", "o3", "o4")

_REASONING = re.compile(rf"(?:{'|'.join(map(re.escape, REASONING_FAMILIES))})(?:[-.:_].*)?")


def reasons(model: str) -> bool:
    """Whether a model is of a family that reasons before it answers.

    A gateway's prefix does not count.

    >>> reasons("gpt-6-luna"), reasons("openai/o3-mini"), reasons("gpt-4o"), reasons("o12")
    (True, True, False, False)
    """
    return _REASONING.fullmatch(_bare(model)) is not None


def price_of(model: str) -> Price | None:
    """The listed price; None where there is none in the table."""
    return PRICES.get(_bare(model))


def retirement_notice(model: str, today: date) -> str | None:
    """What to say of a model that was shut down, or will be within `WARN_DAYS` days.

    >>> retirement_notice("gpt-4o-2024-11-20", date(2026, 12, 1))
    '`gpt-4o-2024-11-20` is shut down on 2027-01-14; its provider names `gpt-6-luna` instead'
    """
    found = RETIREMENTS.get(_bare(model))
    if found is None or today < found.day - timedelta(days=WARN_DAYS):
        return None
    when = "is shut down" if today < found.day else "was shut down"
    return f"`{model}` {when} on {found.day}; its provider names `{found.successor}` instead"


def _bare(model: str) -> str:
    return model.rpartition("/")[2]
