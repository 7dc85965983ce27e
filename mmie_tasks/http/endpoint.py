"""One server: how many requests it gets, and when.

Its concurrency starts low and grows with every reply until the server first answers 429. From then
on the limit is the number of requests that it was serving at that moment, and grows by one per
round (additive increase). Other errors do not lower the limit; they only cancel growth.

After many failures in a row the server is paused, and then gets one probe at a time (a circuit
breaker).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from typing import Generic

from mmie_tasks.http.attempt import Failure, ReplyT, RequestT, Success
from mmie_tasks.http.pace import Pace

START = 16
"""Requests in flight to a server before its limit is known."""

FAILURES_BEFORE_PAUSE = 30
"""Failures or denials in a row after which a server is paused. A server that fails every second
time may have fewer in a row by chance.
"""


class Endpoint(Generic[RequestT, ReplyT]):
    """A server, for one event loop. Every time is on that loop's clock.

    `send` sends a request once and reads the response. At most `ceiling` requests are in flight.
    """

    def __init__(
        self,
        *,
        send: Callable[[RequestT], Awaitable[Success[ReplyT] | Failure]],
        ceiling: int,
        pace: Pace,
    ) -> None:
        self.send = send
        self.in_flight = 0
        self.served = 0  # replies that are not errors
        self.replied_at = -inf  # the last time
        self.denial: str | None = None  # the reason for the last failure, if that was a denial
        self.paused_until = -inf  # the server demands no request before
        self.demand = ""  # for messages: the longest demanded wait, if it is too long
        self._pace = pace
        self._ceiling = ceiling
        self._limit = float(min(START, ceiling))
        self._was_throttled = False
        self._growth_from = -inf
        self._first_results: list[bool] = []  # with at most `START` in flight: was it a reply?
        self._failures_to_offset = 0.0
        self._failures_in_a_row = 0
        self._pauses_in_a_row = 0
        self._rests_from = self._rests_until = -inf

    @property
    def limit(self) -> int:
        """Requests that may be in flight."""
        return 1 if self.on_probation else int(self._limit)

    @property
    def on_probation(self) -> bool:
        """Whether the server was paused and has not replied since: it gets one probe at a time."""
        return self._pauses_in_a_row > 0

    def free_at(self) -> float:
        """When the server may get another request; infinite while only a response can free it."""
        if self.in_flight >= self.limit:
            return inf
        return max(self.paused_until, self._rests_until)

    def pause(self, until: float) -> None:
        """Send nothing before this time."""
        self.paused_until = max(self.paused_until, until)

    def reply(self, now: float) -> None:
        """Note a response that shows that the server works."""
        self.replied_at = now
        self.denial = None
        self._failures_in_a_row = self._pauses_in_a_row = 0
        self._rests_until = -inf

    def grow(self, now: float) -> None:
        """Note a reply that is not an error: the limit may grow."""
        self.served += 1
        self._note_first(replied=True)
        if self._failures_to_offset >= 1:
            self._failures_to_offset -= 1
        elif now >= self._growth_from:
            step = 1 / self._limit if self._was_throttled else 1.0
            self._limit = min(self._limit + step, float(self._ceiling))

    def throttle(self, now: float, wait_s: float | None, others: int, served: int) -> None:
        """Note a 429: lower the limit to the number of requests that the server was serving.

        It was serving those still in flight; if replies arrived in a wave before the 429, also
        those served since this request was sent, up to the number in flight at that time. `others`
        (the other requests in flight) and `served` are of the time when it was sent.
        """
        self._was_throttled = True
        capacity = max(self.in_flight, min(others, self.in_flight + self.served - served))
        self._limit = max(1.0, min(self._limit, float(capacity)))
        self._growth_from = max(self._growth_from, now + max(wait_s or 0.0, self._pace.no_growth_s))
        if capacity == 0 and wait_s is not None:
            self.pause(now + wait_s)

    def fail(self, now: float, sent_at: float, denial: str | None = None) -> bool:
        """Note a failure, or the reason of a denial; returns whether the first pause begins.

        After `FAILURES_BEFORE_PAUSE` failures in a row the server is paused; every failed probe
        begins a longer pause.
        """
        if denial is None:
            self._offset_growth()
        if sent_at < self._rests_from:
            return False
        self.denial = denial
        self._failures_in_a_row += 1
        if self._failures_in_a_row < FAILURES_BEFORE_PAUSE:
            return False
        self._pauses_in_a_row += 1
        # At least half of the longest wait: full jitter could make a pause of nothing.
        half_s = self._pace.longest_s(self._pauses_in_a_row) / 2
        self._rests_from = now
        self._rests_until = now + half_s + self._pace.wait_s(self._pauses_in_a_row) / 2
        return self._pauses_in_a_row == 1

    def _offset_growth(self) -> None:
        """Cancel the growth of the next reply, or a part of it."""
        # A server that failed before the limit grew does not fail because of the limit: an error
        # then cancels the square of the share of replies among its first results. If it goes on
        # like that, at least three of four replies make the limit grow.
        self._note_first(replied=False)
        part = (sum(self._first_results) / len(self._first_results)) ** 2
        self._failures_to_offset = min(self._failures_to_offset + part, self._limit)

    def _note_first(self, *, replied: bool) -> None:
        if len(self._first_results) < START:
            self._first_results.append(replied)
