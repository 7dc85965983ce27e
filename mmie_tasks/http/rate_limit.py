"""How many requests a server gets, and when: concurrency, waiting times, and the server's health.

The concurrency starts low and grows with every reply until the server first answers 429. Then the
limit is the number of requests that it was serving at that moment, and grows by one per round
(additive increase). Other errors do not lower the limit; each only cancels the growth of one reply.
"""

from __future__ import annotations

import random
import re
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timezone
from email.utils import parsedate_to_datetime
from math import inf
from threading import Lock
from time import monotonic
from typing import Literal

from loguru import logger

START = 16
"""Requests in flight to a server before its limit is known."""

DENIALS_BEFORE_CLOSING = 3

LINE_EVERY_S = 60.0
"""A server in trouble gets one log line in this time."""

_WINDOW = 50  # results that make a server's failure rate
_IMPLAUSIBLE = 1e-6  # less likely than this is not chance

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """The state of the limiter when a request was sent.

    Attributes:
        others: Other requests in flight.
        served: Requests served so far.
    """

    others: int = 0
    served: int = 0


class Limiter:
    """Limits the requests in flight to one server.

    Args:
        ceiling: The limit never grows beyond.
        no_growth_s: Seconds without growth after a 429.
        clock: Seconds, from any origin.
    """

    def __init__(self, *, ceiling: int, no_growth_s: float, clock: Callable[[], float]) -> None:
        self.in_flight = 0
        self._limit = float(min(START, ceiling))
        self._ceiling = ceiling
        self._no_growth_s = no_growth_s
        self._clock = clock
        self._served = 0
        self._was_throttled = False
        self._growth_from = 0.0
        self._failures_to_offset = 0
        self._paused_until = 0.0

    @property
    def limit(self) -> int:
        """Requests that may be in flight."""
        return int(self._limit)

    def free_at(self) -> float:
        """When another request may be sent, on the clock; infinite until a response arrives."""
        return self._paused_until if self.in_flight < self.limit else inf

    def send(self) -> Ticket:
        """Count a request as sent."""
        self.in_flight += 1
        return Ticket(others=self.in_flight - 1, served=self._served)

    def finish(self) -> None:
        """Count a request as no longer in flight; call it before reporting its result."""
        self.in_flight -= 1

    def succeed(self) -> None:
        """Report a reply: the limit may grow."""
        self._served += 1
        if self._failures_to_offset:
            self._failures_to_offset -= 1
        elif self._clock() >= self._growth_from:
            step = 1 / self._limit if self._was_throttled else 1.0
            self._limit = min(self._limit + step, float(self._ceiling))

    def throttle(self, ticket: Ticket, retry_after_s: float | None) -> None:
        """Report a 429: lower the limit to what the server was serving meanwhile.

        These are the requests still in flight; or, where replies arrived in a wave before the 429,
        those and the ones served since this one was sent, up to the number in flight at that time.
        """
        self._was_throttled = True
        capacity = max(self.in_flight, min(ticket.others, self.in_flight + self._served - ticket.served))
        self._limit = max(1.0, min(self._limit, float(capacity)))
        self._growth_from = max(self._growth_from, self._clock() + max(retry_after_s or 0.0, self._no_growth_s))
        if capacity == 0 and retry_after_s is not None:
            self.pause(retry_after_s)

    def fail(self) -> None:
        """Report a server error: the next reply does not make the limit grow."""
        self._failures_to_offset = min(self._failures_to_offset + 1, self.limit)

    def pause(self, seconds: float) -> None:
        """Send nothing for this long."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Waiting times in seconds. Tests shorten them.

    Attributes:
        base_s: The longest wait before the second attempt; doubles before every further one.
        cap_s: The longest wait of all. A wait that a server demands is not shortened.
        short_cap_s: The longest wait of a request whose failures chance explains.
        no_growth_s: How long the concurrency does not grow after a 429.
        check_s: The waits between the attempts of a check before a run.
        fraction: Chooses between no wait and the longest one: a number from 0 to 1.
    """

    base_s: float = 0.5
    cap_s: float = 30.0
    short_cap_s: float = 1.0
    no_growth_s: float = 5.0
    check_s: tuple[float, ...] = (0.5, 1.0, 1.5)
    fraction: Callable[[], float] = random.random

    def wait_s(self, attempts: int, *, by_chance: bool = False) -> float:
        """The wait after failed attempts, with full jitter: clients do not retry in step.

        Args:
            attempts: Failed ones.
            by_chance: Whether the server replies to others and chance explains the failures:
                then the wait does not grow beyond `short_cap_s`.
        """
        longest_s = self.longest_s(attempts)
        return self.fraction() * (min(longest_s, self.short_cap_s) if by_chance else longest_s)

    def longest_s(self, attempts: int) -> float:
        """The longest wait after this many failed attempts.

        >>> Pace().longest_s(1), Pace().longest_s(3), Pace().longest_s(99)
        (0.5, 2.0, 30.0)
        """
        return min(self.cap_s, self.base_s * 2.0 ** min(attempts - 1, 60))


class Health:
    """Whether a server is working: a circuit breaker.

    After more failures in a row than chance explains, the server gets no requests for a cooldown, then one probe at a
    time; every failed probe begins a longer cooldown. A server that fails often and still replies to some requests gets
    no cooldown. A denial (wrong key, unknown model, no credit left) begins a cooldown at once; after
    `DENIALS_BEFORE_CLOSING` in a row the server is closed for good.

    Attributes:
        closed: The server's words if it is closed, else None.
        replied_at: When it last replied, on the clock.
    """

    def __init__(self, *, pace: Pace, clock: Callable[[], float]) -> None:
        self.closed: str | None = None
        self.replied_at = -inf
        self._pace = pace
        self._clock = clock
        self._failures = 0
        self._failed_recently: deque[bool] = deque([False] * _WINDOW, maxlen=_WINDOW)
        self._denials = 0
        self._cooldowns = 0
        self._cooldown_start = -inf
        self._cooldown_end = 0.0

    @property
    def on_probation(self) -> bool:
        """Whether it has not replied since its last cooldown began: it gets one probe at a time."""
        return self._cooldowns > 0

    def ready_at(self) -> float:
        """When it may get a request, on the clock."""
        return inf if self.closed is not None else self._cooldown_end

    def reply(self) -> None:
        """Report a reply of any content."""
        self.replied_at = self._clock()
        self._failed_recently.append(False)
        self._failures = self._denials = self._cooldowns = 0
        self._cooldown_end = 0.0

    def fail(self, sent_at: float) -> bool:
        """Report a failure of a request sent at that time.

        Returns:
            Whether the server has just stopped working: its first cooldown begins.
        """
        if sent_at < self._cooldown_start:
            return False
        self._failures += 1
        self._failed_recently.append(True)
        if not self.on_probation and self._failures < _WINDOW and self.explains(self._failures):
            return False
        return self._cool_down() == 1

    def throttle(self) -> None:
        """Report a 429: the server works, but a reply is less likely."""
        self._failed_recently.append(True)

    def explains(self, failures: int) -> bool:
        """Whether chance explains this many failures in a row, as often as the server fails.

        The rate is that of the last 50 results; a new server counts as one that never failed.
        """
        return (sum(self._failed_recently) / _WINDOW) ** failures >= _IMPLAUSIBLE

    def deny(self, sent_at: float, reason: str) -> None:
        """Report a denial: the server refuses the account, the key or the model."""
        if sent_at < self._cooldown_start:
            return
        self._denials += 1
        if self._denials >= DENIALS_BEFORE_CLOSING:
            self.closed = reason
        self._cool_down()

    def _cool_down(self) -> int:
        self._cooldowns += 1
        self._cooldown_start = self._clock()
        # At least half of the longest wait: full jitter could make a cooldown of nothing.
        half_s = self._pace.longest_s(self._cooldowns) / 2
        self._cooldown_end = self._cooldown_start + half_s + self._pace.wait_s(self._cooldowns) / 2
        return self._cooldowns


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """The wait in seconds that a response demands; None if it demands none.

    Args:
        headers: Names in lower case, or in any case if the mapping ignores it.
        now: Seconds since 1970.

    >>> retry_after_s({"retry-after": "2"}, 0.0), retry_after_s({"retry-after-ms": "120"}, 0.0)
    (2.0, 0.12)
    """
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (seconds := _number(headers.get(name))) is not None:
            return seconds * unit_s
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
        aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        return max(0.0, aware.timestamp() - now)
    except (ValueError, OverflowError):
        return None


def quota_reset_s(headers: Mapping[str, str]) -> float | None:
    """Seconds until an exhausted quota is reset; None if quota is left.

    >>> quota_reset_s({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"})
    360.0
    """
    waits = [
        duration_s(headers.get(f"x-ratelimit-reset-{quota}", ""))
        for quota in ("requests", "tokens")
        if _number(headers.get(f"x-ratelimit-remaining-{quota}")) == 0
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def duration_s(text: str) -> float | None:
    """A duration in the notation of the rate-limit headers, in seconds; None for other text.

    >>> duration_s("1s"), duration_s("6m0s"), duration_s("120ms"), duration_s("soon")
    (1.0, 360.0, 0.12, None)
    """
    if (seconds := _number(text)) is not None:
        return seconds
    text = text.strip()
    if not text or _DURATION.sub("", text):
        return None
    return sum(float(number) * _UNITS_S[unit] for number, unit in _DURATION.findall(text))


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else -1.0
    except ValueError:
        return None
    return number if 0 <= number < inf else None


class Budget:
    """The US dollars that one client object may spend in its lifetime.

    Args:
        max_cost_usd: None for no limit.
    """

    def __init__(self, *, max_cost_usd: float | None) -> None:
        self.max_cost_usd = max_cost_usd
        self.spent_usd = 0.0
        self._paid_requests = 0
        self._lock = Lock()

    def allows(self, in_flight: int) -> bool:
        """Whether another request may be sent beside those in flight.

        Requests in flight are assumed to cost the mean of the paid ones. Until one is paid, the
        cost is unknown and requests are sent one at a time.
        """
        if self.max_cost_usd is None:
            return True
        if not self._paid_requests:
            return in_flight == 0
        mean_usd = self.spent_usd / self._paid_requests
        return self.spent_usd + (in_flight + 1) * mean_usd <= self.max_cost_usd

    def pay(self, cost_usd: float | None) -> None:
        """Add the cost of a request, in US dollars; None, an unknown price, adds nothing."""
        if cost_usd is None:
            return
        with self._lock:
            self.spent_usd += cost_usd
            self._paid_requests += 1


class Traffic:
    """Counts the requests of a client object, and logs trouble with servers.

    Args:
        clock: Seconds, from any origin.

    Attributes:
        in_flight: Requests in flight now.
        retries: Requests that were sent again, so far.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.in_flight = 0
        self.retries = 0
        self._clock = clock
        self._logged_at: dict[str, float] = {}
        self._left_out: Counter[str] = Counter()

    def log_trouble(self, server: str, line: str, level: Literal["WARNING", "ERROR"] = "WARNING") -> None:
        """Log a line about a server unless the last one is less than `LINE_EVERY_S` ago.

        The next one that is logged says how many were left out.
        """
        now = self._clock()
        if now < self._logged_at.get(server, -inf) + LINE_EVERY_S:
            self._left_out[server] += 1
            return
        self._logged_at[server] = now
        left_out = self._left_out.pop(server, 0)
        more = f" ({left_out} more such lines since the last one.)" if left_out else ""
        logger.log(level, f"{line}{more}")

    def log_recovery(self, server: str, line: str) -> None:
        """Log that a server works again if its trouble was logged."""
        if not self._left_out[server]:
            logger.info(line)
