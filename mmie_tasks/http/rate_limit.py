"""How many requests a server gets, and when: concurrency, waiting times, and the server's health.

The concurrency starts low and grows with every reply until the server first answers 429. Then the
limit is the number of requests that it was serving at that moment, and grows by one per round
(additive increase). Other errors do not lower the limit; they only cancel the growth of replies.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from math import inf
from time import monotonic
from typing import Literal

from loguru import logger

START = 16
"""Requests in flight to a server before its limit is known."""

FAILURES_BEFORE_PAUSE = 30
"""Failures or denials in a row after which a server is paused. Fewer are chance if it fails every
second time.
"""

LINE_EVERY_S = 60.0
"""A server in trouble gets one log line in this time."""

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_LONGEST_IN_SECONDS = 1e6  # a larger number of seconds in a header is a Unix time
_LATEST_IN_SECONDS = 1e11  # a larger Unix time is in milliseconds


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
        self._first_results: list[
            bool
        ] = []  # whether they were replies; with at most `START` in flight
        self._failures_to_offset = 0.0
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
        self._note_first(replied=True)
        if self._failures_to_offset >= 1:
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
        capacity = max(
            self.in_flight, min(ticket.others, self.in_flight + self._served - ticket.served)
        )
        self._limit = max(1.0, min(self._limit, float(capacity)))
        self._growth_from = max(
            self._growth_from, self._clock() + max(retry_after_s or 0.0, self._no_growth_s)
        )
        if capacity == 0 and retry_after_s is not None:
            self.pause(retry_after_s)

    def fail(self) -> None:
        """Report a server error: the next reply does not make the limit grow.

        A server that failed before the limit grew does not fail because of the limit: then an error
        cancels only a part of a reply's growth, the square of the share of replies among its first
        results. So where it goes on like that, at least three of four replies make the limit grow.
        """
        self._note_first(replied=False)
        part = (sum(self._first_results) / len(self._first_results)) ** 2
        self._failures_to_offset = min(self._failures_to_offset + part, self._limit)

    def _note_first(self, *, replied: bool) -> None:
        if len(self._first_results) < START:
            self._first_results.append(replied)

    def pause(self, seconds: float) -> None:
        """Send nothing for this long."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Waiting times in seconds. Tests shorten them.

    Attributes:
        base_s: The longest wait before the second attempt; doubles before every further one.
        cap_s: The longest wait of all. A wait that a server demands is not shortened.
        short_cap_s: The longest wait of a request that fails on a server that works.
        busy_cap_s: The same after a 429: the server is not to be asked as soon as after an error.
        no_growth_s: How long the concurrency does not grow after a 429.
        check_s: The waits between the attempts of a check before a run.
        fraction: Chooses between no wait and the longest one: a number from 0 to 1.
    """

    base_s: float = 0.5
    cap_s: float = 30.0
    short_cap_s: float = 0.25
    busy_cap_s: float = 1.0
    no_growth_s: float = 5.0
    check_s: tuple[float, ...] = (0.5, 1.0, 1.5)
    fraction: Callable[[], float] = random.random

    def wait_s(self, attempts: int, cap_s: float = inf) -> float:
        """The wait after this many failed attempts, with full jitter: clients do not retry in
        step.
        """
        return self.fraction() * min(self.longest_s(attempts), cap_s)

    def longest_s(self, attempts: int) -> float:
        """The longest wait after this many failed attempts.

        >>> Pace().longest_s(1), Pace().longest_s(3), Pace().longest_s(99)
        (0.5, 2.0, 30.0)
        """
        return min(self.cap_s, self.base_s * 2.0 ** min(attempts - 1, 60))


class Health:
    """Whether a server is working: a circuit breaker.

    After `FAILURES_BEFORE_PAUSE` failures or denials in a row, the server gets no requests for a
    cooldown, then one probe at a time; every failed probe begins a longer cooldown. A denial is a
    wrong key, an unknown model, no credit left.

    Attributes:
        closed: Why it gets no more requests; None if it may get some.
        denial: The reason of the last failure if it was a denial.
        replied_at: When it last replied, on the clock.
    """

    def __init__(self, *, pace: Pace, clock: Callable[[], float]) -> None:
        self.closed: str | None = None
        self.denial: str | None = None
        self.replied_at = -inf
        self._pace = pace
        self._clock = clock
        self._failures = 0
        self._cooldowns = 0
        self._cooldown_start = -inf
        self._cooldown_end = 0.0

    @property
    def on_probation(self) -> bool:
        """Whether it has not replied since its last cooldown began: it gets one probe at a time."""
        return self._cooldowns > 0

    @property
    def works(self) -> bool:
        """Whether it has replied, and not failed too often in a row since then."""
        return self.replied_at > -inf and not self.on_probation

    def ready_at(self) -> float:
        """When it may get a request, on the clock."""
        return inf if self.closed is not None else self._cooldown_end

    def reply(self) -> None:
        """Report a reply of any content."""
        self.replied_at = self._clock()
        self.denial = None
        self._failures = self._cooldowns = 0
        self._cooldown_end = 0.0

    def fail(self, sent_at: float, *, denial: str | None = None) -> bool:
        """Report a failure of a request sent at that time.

        Args:
            sent_at: On the clock.
            denial: The server's words if it refuses the account, the key or the model.

        Returns:
            Whether the server has just stopped working: its first cooldown begins.
        """
        if sent_at < self._cooldown_start:
            return False
        self.denial = denial
        self._failures += 1
        if self._failures < FAILURES_BEFORE_PAUSE:
            return False
        self._cooldowns += 1
        self._cooldown_start = self._clock()
        # At least half of the longest wait: full jitter could make a cooldown of nothing.
        half_s = self._pace.longest_s(self._cooldowns) / 2
        self._cooldown_end = self._cooldown_start + half_s + self._pace.wait_s(self._cooldowns) / 2
        return self._cooldowns == 1

    def close(self, reason: str) -> None:
        """Send no more requests to the server."""
        self.closed = reason


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """The wait in seconds that a response demands; None if it demands none.

    Args:
        headers: Names in lower case, or in any case if the mapping ignores it.
        now: Seconds since 1970.

    >>> retry_after_s({"retry-after": "2"}, 0.0), retry_after_s({"retry-after-ms": "120"}, 0.0)
    (2.0, 0.12)
    """
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "")
    if (number := _number(text)) is not None:
        return _wait_s(number, now)
    try:
        moment = parsedate_to_datetime(text)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        return _until(aware.timestamp(), now)
    except (ValueError, OverflowError):
        return None


def quota_reset_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until an exhausted quota is reset; None if quota is left, or if its reset is not
    known.

    Args:
        headers: As in `retry_after_s`.
        now: Seconds since 1970.

    >>> used_up = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}
    >>> quota_reset_s(used_up, 0.0)
    360.0
    """
    waits = [
        duration_s(headers.get(f"x-ratelimit-reset-{quota}", ""), now)
        for quota in ("requests", "tokens")
        if _number(headers.get(f"x-ratelimit-remaining-{quota}")) == 0
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def duration_s(text: str, now: float) -> float | None:
    """A duration in the notation of the rate-limit headers, in seconds; None for other text.

    Some gateways write the Unix time of the end instead, in seconds or milliseconds.

    >>> [duration_s(text, 0.0) for text in ("1s", "6m0s", "120ms", "soon")]
    [1.0, 360.0, 0.12, None]
    >>> duration_s("1790741520", 1790741500.0), duration_s("1790741520000", 1790741500.0)
    (20.0, 20.0)
    """
    if (number := _number(text)) is not None:
        return _wait_s(number, now)
    text = text.strip()
    if not text or _DURATION.sub("", text):
        return None
    return sum(float(number) * _UNITS_S[unit] for number, unit in _DURATION.findall(text))


def local_time(wait_s: float) -> str:
    """The local time after a wait, for messages: ``14:05``, on another day with the date."""
    now = datetime.now(timezone.utc)
    try:
        moment = (now + timedelta(seconds=wait_s)).astimezone()
    except OverflowError:
        return "after the year 9999"
    return (
        f"{moment:%H:%M}"
        if moment.date() == now.astimezone().date()
        else f"{moment:%Y-%m-%d %H:%M}"
    )


def _wait_s(number: float, now: float) -> float | None:
    """The wait that a number in seconds means: itself, or the rest of the time until a Unix
    time.
    """
    if number <= _LONGEST_IN_SECONDS:
        return number
    return _until(number / 1000 if number > _LATEST_IN_SECONDS else number, now)


def _until(moment: float, now: float) -> float | None:
    """Seconds until a Unix time; None if it is past."""
    return moment - now if moment >= now else None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else -1.0
    except ValueError:
        return None
    return number if 0 <= number < inf else None


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

    def log_trouble(
        self, server: str, line: str, level: Literal["WARNING", "ERROR"] = "WARNING"
    ) -> None:
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
