"""How many requests at once: as many as a server takes, found out by asking.

Begins modest and grows with every answer until the server first says 429; then the limit is what it
was serving at that moment, and is tried a little higher now and then. Errors of another kind are no
reason to ask less at once, only none to ask more.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timezone
from email.utils import parsedate_to_datetime
from math import inf

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


# How long to wait: between tries, and as long as a server's headers ask for.

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Waiting times, in seconds. Tests shorten them.

    Attributes:
        base_s: The longest wait before the second try; doubled before each further one.
        cap_s: No wait of ours is longer. What a server asks for is not cut.
        no_growth_s: How long after a 429 or 5xx no more requests at once are tried.
        check_s: The waits between the tries of `check`.
        fraction: Where between nothing and the longest wait: any number from 0 to 1.
    """

    base_s: float = 0.5
    cap_s: float = 30.0
    no_growth_s: float = 5.0
    check_s: tuple[float, ...] = (0.5, 1.0, 1.5)
    fraction: Callable[[], float] = random.random

    def wait_s(self, tries: int) -> float:
        """Full jitter: so many clients that fail together do not come back together."""
        return self.fraction() * self.longest_s(tries)

    def longest_s(self, tries: int) -> float:
        """The longest wait after so many failed tries.

        >>> Pace().longest_s(1), Pace().longest_s(3), Pace().longest_s(99)
        (0.5, 2.0, 30.0)
        """
        return min(self.cap_s, self.base_s * 2.0 ** min(tries - 1, 60))


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """How long a server asks to be left alone; None where it does not say.

    Args:
        headers: Of its response, names in lower case.
        now: Seconds since 1970.

    >>> retry_after_s({"retry-after": "2"}, 0.0), retry_after_s({"retry-after-ms": "120"}, 0.0)
    (2.0, 0.12)
    """
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _number(headers.get(name))
        if seconds is not None:
            return seconds * unit_s
    if (date := headers.get("retry-after")) is not None:
        return _until_s(date, now)
    return None


def exhausted_s(headers: Mapping[str, str]) -> float | None:
    """Until when nothing remains of what may be asked, in seconds; None where something does.

    >>> exhausted_s({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"})
    360.0
    """
    waits = [
        span_s(headers.get(f"x-ratelimit-reset-{what}", ""))
        for what in ("requests", "tokens")
        if _number(headers.get(f"x-ratelimit-remaining-{what}")) == 0
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def span_s(text: str) -> float | None:
    """A span of time as the provider writes it, in seconds; None for anything else.

    >>> span_s("1s"), span_s("6m0s"), span_s("120ms"), span_s("soon")
    (1.0, 360.0, 0.12, None)
    """
    if (plain := _number(text)) is not None:
        return plain
    text = text.strip()
    if not text or _SPAN.sub("", text):
        return None
    return sum(float(number) * _UNITS_S[unit] for number, unit in _SPAN.findall(text))


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else -1.0
    except ValueError:
        return None
    return number if 0 <= number < inf else None


def _until_s(date: str, now: float) -> float | None:
    try:
        then = parsedate_to_datetime(date)
        aware = then if then.tzinfo else then.replace(tzinfo=timezone.utc)
        return max(0.0, aware.timestamp() - now)
    except (ValueError, OverflowError):
        return None


# Whether a server is worth asking: it rests after failures, is tried again, may be given up.

FAILURES_BEFORE_REST = 5
REFUSALS_BEFORE_DEATH = 3


class Health:
    """The state of one server.

    After `FAILURES_BEFORE_REST` failures with no answer between them it rests, longer each time;
    then one request probes it. A refusal of ourselves (wrong key, no such model, nothing left to
    spend) makes it rest at once; the third one in a row, two of them after a rest, is the end.
    """

    def __init__(self, *, pace: Pace, clock: Callable[[], float]) -> None:
        self.dead: str | None = None
        self.answered_at = -inf
        self._pace = pace
        self._clock = clock
        self._failures = 0
        self._refusals = 0
        self._rests = 0
        self._rests_since = -inf
        self._rests_until = 0.0

    @property
    def shaky(self) -> bool:
        """It has not answered since its last rest began: one request at a time."""
        return self._rests > 0

    def ready_at(self) -> float:
        """When it may be asked, on the clock."""
        return inf if self.dead is not None else self._rests_until

    def answered(self) -> None:
        """It gave an answer, whichever."""
        self.answered_at = self._clock()
        self._failures = self._refusals = self._rests = 0
        self._rests_until = 0.0

    def failed(self, sent_at: float) -> bool:
        """It failed on a request sent then; whether that begins a time of rests."""
        if sent_at < self._rests_since:
            return False  # known: sent before it was seen that it fails
        self._failures += 1
        if not self.shaky and self._failures < FAILURES_BEFORE_REST:
            return False
        return self._rest() == 1

    def refused_us(self, sent_at: float, why: str) -> None:
        """It will not answer us; `why` is what it said."""
        if sent_at < self._rests_since:
            return
        self._refusals += 1
        if self._refusals >= REFUSALS_BEFORE_DEATH:
            self.dead = why
        self._rest()

    def _rest(self) -> int:
        self._rests += 1
        self._rests_since = self._clock()
        # Not down to zero as between a request's tries: a rest of nothing would be none.
        wait_s = self._pace.longest_s(self._rests) / 2 + self._pace.wait_s(self._rests) / 2
        self._rests_until = self._rests_since + wait_s
        return self._rests
