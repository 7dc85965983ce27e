"""Tables of models: prices and days of shutdown, as of 2026-11.

A model that is in no table works like any other; its price is unknown.
"""

from __future__ import annotations

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
        """The cost of a number of tokens, in US dollars.

        >>> Price(input_usd=2.5, output_usd=10.0).cost_usd(1_000_000, 100_000)
        3.5
        """
        return (self.input_usd * input_tokens + self.output_usd * output_tokens) / 1e6


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


def retirement_notice(model: str, today: date) -> str | None:
    """A notice if a model was shut down, or will be within `WARN_DAYS` days.

    >>> retirement_notice("gpt-4o-2024-11-20", date(2026, 12, 1))
    '`gpt-4o-2024-11-20` is shut down on 2027-01-14; its provider names `gpt-6-luna` instead'
    """
    day = RETIREMENTS.get(without_prefix(model))
    if day is None or today < day - timedelta(days=WARN_DAYS):
        return None
    verb = "is shut down" if today < day else "was shut down"
    return f"`{model}` {verb} on {day}; its provider names `{SUCCESSOR}` instead"


def without_prefix(model: str) -> str:
    """A model's name without that of its gateway or maker: the part after the last slash."""
    return model.rpartition("/")[2]
