"""Prices of models, as of 2026-11.

A model that is not in the table works like any other; its price is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
