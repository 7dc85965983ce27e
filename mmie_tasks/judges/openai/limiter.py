"""How many requests at once: as many as a server takes, found out by asking.

Begins modest and grows with every answer until the server first says 429; then the limit is what it
was serving at that moment, and is tried a little higher now and then. Errors of another kind are no
reason to ask less at once, only none to ask more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

START = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """What was known when a request was sent: how many others were on their way, or answered."""

    others: int = 0
    served: int = 0


class Limiter:
    """The number of requests that may be on their way to one server. No clock of its own.

    Args:
        ceiling: The limit never grows beyond.
        no_growth_s: How long it does not grow after trouble.
        clock: Seconds, from anywhere.
    """

    def __init__(self, *, ceiling: int, no_growth_s: float, clock: Callable[[], float]) -> None:
        self.in_flight = 0
        self._limit = float(min(START, ceiling))
        self._ceiling = ceiling
        self._no_growth_s = no_growth_s
        self._clock = clock
        self._served = 0
        self._found_edge = False
        self._grows_from = 0.0
        self._paused_until = 0.0

    @property
    def limit(self) -> int:
        """How many at once."""
        return int(self._limit)

    def room_at(self) -> float:
        """When one more may be sent, on the clock; infinite as long as nothing comes back."""
        return self._paused_until if self.in_flight < self.limit else float("inf")

    def sent(self) -> Ticket:
        """One more is on its way."""
        self.in_flight += 1
        return Ticket(others=self.in_flight - 1, served=self._served)

    def came_back(self) -> None:
        """One is no longer on its way; to be told before what became of it."""
        self.in_flight -= 1

    def served(self) -> None:
        """It was answered."""
        self._served += 1
        if self._clock() >= self._grows_from:
            step = 1 / self._limit if self._found_edge else 1.0
            self._limit = min(self._limit + step, float(self._ceiling))

    def too_many(self, ticket: Ticket, retry_after_s: float | None) -> None:
        """It was turned away with 429: the others that were served meanwhile are what fits.

        These are those still on their way and those answered since it was sent, which may be many
        where answers come in waves; but not more than there were at that time.
        """
        self._found_edge = True
        fits = min(ticket.others, self.in_flight + self._served - ticket.served)
        self._limit = max(1.0, min(self._limit, float(fits)))
        self._no_growth(retry_after_s if retry_after_s is not None else 0.0)
        if fits == 0 and retry_after_s is not None:
            self.pause(retry_after_s)  # nothing at all fits for now

    def stumbled(self) -> None:
        """The server failed in another way."""
        self._no_growth(0.0)

    def pause(self, seconds: float) -> None:
        """Send nothing for so long."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)

    def _no_growth(self, seconds: float) -> None:
        until = self._clock() + max(seconds, self._no_growth_s)
        self._grows_from = max(self._grows_from, until)
