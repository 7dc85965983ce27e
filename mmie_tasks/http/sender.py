"""Sends many requests to one server: concurrency, retries, giving up, and a cost limit.

Every request waits for a slot and is sent; after a failure it waits and is sent again. The number
of slots starts at 16 and grows by one with every reply, until the server first answers 429: from
then on it is the number of requests that the server was serving, and grows by one per round. Only a
429 lowers it. After 30 failures in a row the requests that failed keep their slots while they wait,
so that a silent server gets few.

A request that fails for `patience_s`, otherwise than by a 429, is given up. If the server replied
to none in that time, all remaining requests are.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from queue import Empty, SimpleQueue
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar

from loguru import logger

from mmie_tasks.http.access import Access
from mmie_tasks.http.errors import Fault

if TYPE_CHECKING:
    from openai import AsyncOpenAI

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")

START = 16
"""Requests in flight before the server's limit is known."""

LONGEST_WAIT_S = 900.0
"""The longest wait that a server may demand, unless `patience_s` is longer."""

_MOST_DENIALS = 10
"""Denials without a reply in between, after which all remaining requests are given up."""

_MANY_FAILURES = 30
"""After so many failures in a row a server is silent; a request with so many waits longer, too.

A server that fails every second request may have fewer in a row by chance.
"""

_STOP_CHECK_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """A request without a reply. `reason` is for messages."""

    cause: Literal["unavailable", "denied", "rejected", "over_budget"]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Waiting times in seconds. Tests shorten them."""

    base_s: float = 0.5  # longest wait before the second attempt; doubles before every further one
    cap_s: float = 30.0  # longest wait while the server is silent
    short_cap_s: float = 0.25  # the same while it replies to other requests
    no_growth_s: float = 5.0  # how long the number of slots does not grow after a 429
    check_s: tuple[float, ...] = (0.5, 1.0, 1.5)  # between the attempts of a check before a run
    fraction: Callable[[], float] = random.random  # the share of the longest wait, 0 to 1

    def wait_s(self, failures: int, *, is_silent: bool) -> float:
        """The wait after this many failures of a request, with full jitter."""
        cap_s = self.cap_s
        if not is_silent and failures < _MANY_FAILURES:
            cap_s = self.short_cap_s
        elif not is_silent:
            failures -= _MANY_FAILURES - 1
        return self.fraction() * min(self.base_s * 2.0 ** min(failures - 1, 60), cap_s)


@dataclass(slots=True, kw_only=True)
class Budget:
    """The US dollars that one client may spend; `request_usd` is a high estimate of a request."""

    max_usd: float | None = None
    request_usd: float = 0.0
    spent_usd: float = 0.0
    paid: int = 0  # requests

    def allows(self, requests: int) -> bool:
        """Whether so many requests may be in flight at once: at most one more than were paid."""
        if self.max_usd is None:
            return True
        fits = self.spent_usd + requests * self.request_usd <= self.max_usd
        return fits and requests <= self.paid + 1

    def spend(self, cost_usd: float | None) -> None:
        """Add the cost of a request, if it is known."""
        self.paid += 1
        self.spent_usd += cost_usd or 0.0
        self.request_usd = max(self.request_usd, cost_usd or 0.0)


Send: TypeAlias = Callable[["AsyncOpenAI", RequestT], Awaitable[ReplyT]]
"""Sends a request once. Raises `Fault` without a reply."""


@dataclass(slots=True, kw_only=True, eq=False)
class Sender:
    """The server, its limits and the counts that all calls of one client object share."""

    access: Access
    max_concurrency: int
    patience_s: float
    budget: Budget = field(default_factory=Budget)
    pace: Pace = field(default_factory=Pace)
    in_flight: int = 0
    retries: int = 0  # requests that were sent again
    _stop: Event = field(default_factory=Event)

    @property
    def may_send_again(self) -> bool:
        """Whether the budget allows that a request in flight is sent once more."""
        return self.budget.allows(self.in_flight)

    def stop(self) -> None:
        """Make every running `send_all` raise KeyboardInterrupt. Takes no lock."""
        stopped, self._stop = self._stop, Event()
        stopped.set()

    def send_all(
        self, requests: Sequence[RequestT], send: Send[RequestT, ReplyT]
    ) -> Iterator[tuple[int, ReplyT | Undelivered]]:
        """Send all requests and yield one result per request, with its index, as it arrives.

        A thread with an event loop of its own sends them. Closing the iterator, an interruption or
        `stop` cancels the requests in flight; after `stop`, replies that have arrived are still
        yielded.

        Raises:
            KeyboardInterrupt: `stop` was called.
        """
        results: SimpleQueue[tuple[int, ReplyT | Undelivered] | None] = SimpleQueue()
        stop = self._stop

        async def main() -> None:
            async with self.access.async_client() as client:
                call = _Call(self, requests, lambda request: send(client, request), results.put)
                await call.run()

        with _LoopThread(main, at_end=lambda: results.put(None)) as thread:
            while True:
                with suppress(Empty):
                    if (result := results.get(timeout=_STOP_CHECK_S)) is None:
                        break
                    yield result
                if stop.is_set():
                    thread.cancel()
            thread.raise_error()
        if stop.is_set():
            raise KeyboardInterrupt


class _LoopThread:
    """Runs a coroutine in a thread with an event loop of its own; leaving the context cancels it.

    A notebook's thread has a loop already. `at_end` is called when the coroutine has ended.
    """

    def __init__(
        self, main: Callable[[], Coroutine[Any, Any, None]], at_end: Callable[[], object]
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(main())
        self._at_end = at_end
        self._is_cancelled = False
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="http")

    def __enter__(self) -> _LoopThread:
        self._ended = self._pool.submit(self._run)
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
        self._pool.shutdown()

    def cancel(self) -> None:
        """Cancel the coroutine, unless it has ended. A second time would break off its clean-up."""
        if not self._is_cancelled:
            self._is_cancelled = True
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._task.cancel)

    def raise_error(self) -> None:
        """Wait for the end, and raise the coroutine's error, if any."""
        self._ended.result()

    def _run(self) -> None:
        try:
            with suppress(asyncio.CancelledError):
                self._loop.run_until_complete(self._task)
        finally:
            self._loop.close()
            self._at_end()


class _Call(Generic[RequestT, ReplyT]):
    """One `send_all`, in its event loop; `report` gets the index and result of each request."""

    def __init__(
        self,
        sender: Sender,
        requests: Sequence[RequestT],
        send: Callable[[RequestT], Awaitable[ReplyT]],
        report: Callable[[tuple[int, ReplyT | Undelivered]], object],
    ) -> None:
        self._sender, self._requests, self._send, self._report = sender, requests, send, report
        self._now = asyncio.get_running_loop().time
        self._taken = 0  # slots
        self._limit = float(min(START, sender.max_concurrency))  # slots
        self._grows_from = -inf  # the limit does not grow before
        self._was_throttled = False
        self._paused_until = -inf
        self._waiting: deque[asyncio.Future[None]] = deque()  # requests without a slot
        self._sent_at: dict[int, float] = {}  # of the requests in flight, by index
        self._silent_since = inf  # the first failure since the last reply
        self._failures = self._denials = 0  # without a reply in between
        self._longest_wait_s = 0.0  # that the server has demanded and may demand
        self._end: Undelivered | None = None  # why no further request is sent
        self._logged_at = -inf

    async def run(self) -> None:
        """Return when every request has its result."""
        indices = iter(range(len(self._requests)))

        async def work() -> None:
            for index in indices:
                await self._take_slot()
                result = await self._deliver(index)
                self._report((index, result))
                self._free_slot()

        count = min(self._sender.max_concurrency, len(self._requests))
        workers = [asyncio.ensure_future(work()) for _ in range(count)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _deliver(self, index: int) -> ReplyT | Undelivered:
        """Send a request until it has a reply or is given up. It has a slot before and after."""
        first_failed_at, failures = inf, 0
        while self._end is None:
            self._sender.retries += failures > 0
            try:
                reply = await self._attempt(index)
            except Fault as fault:
                failures += 1
                now = self._now()
                first_failed_at = min(first_failed_at, now)
                if (end := self._end_after(fault, now, first_failed_at)) is not None:
                    return end
                is_silent = self._failures >= _MANY_FAILURES
                wait_s = self._sender.pace.wait_s(failures, is_silent=is_silent)
                wait_s = max(wait_s, fault.wait_s or 0.0)
                if is_silent and fault.kind != "busy":
                    await asyncio.sleep(wait_s)  # keeps its slot: a server that is down gets few
                else:
                    if fault.kind == "busy":
                        self._throttle(fault.wait_s or 0.0)
                    self._free_slot()
                    await asyncio.sleep(wait_s)
                    await self._take_slot()
            else:
                self._note_response()
                return reply
        return self._end

    async def _attempt(self, index: int) -> ReplyT:
        self._sent_at[index] = self._now()
        self._sender.in_flight += 1
        try:
            return await self._send(self._requests[index])
        finally:
            self._sender.in_flight -= 1
            del self._sent_at[index]

    # The slots.

    async def _take_slot(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._call_next()
        await turn

    def _free_slot(self) -> None:
        self._taken -= 1
        self._call_next()

    def _call_next(self) -> None:
        """Give free slots to the requests that wait for one, in their order."""
        while self._waiting and self._has_slot():
            turn = self._waiting.popleft()
            if not turn.done():
                self._taken += 1
                turn.set_result(None)

    def _has_slot(self) -> bool:
        if self._end is not None:
            return True  # all waiting requests end
        if self._now() < self._paused_until:
            return False
        if not self._sender.budget.allows(self._taken + 1):
            if self._taken == 0:
                self._stop_spending()
            return self._taken == 0
        return self._taken < int(self._limit)

    def _note_response(self) -> None:
        self._silent_since = inf
        self._failures = self._denials = 0
        if self._now() >= self._grows_from:
            step = 1 / self._limit if self._was_throttled else 1.0
            self._limit = min(self._limit + step, float(self._sender.max_concurrency))

    def _throttle(self, wait_s: float) -> None:
        """Lower the limit to the number of requests that the server was serving."""
        served = self._taken - 1
        self._was_throttled = True
        self._limit = max(1.0, min(self._limit, float(served)))
        self._grows_from = self._now() + max(wait_s, self._sender.pace.no_growth_s)
        if served == 0 and wait_s:
            self._paused_until = max(self._paused_until, self._now() + wait_s)
            asyncio.get_running_loop().call_at(self._paused_until, self._call_next)

    # The end.

    def _end_after(self, fault: Fault, now: float, first_failed_at: float) -> Undelivered | None:
        """Why a request is given up after a fault; None if it is to be sent again."""
        address, wait_s = self._sender.access.address, fault.wait_s or 0.0
        longest_s = max(LONGEST_WAIT_S, self._sender.patience_s)
        if fault.kind == "rejected":
            self._note_response()
            return Undelivered(cause="rejected", reason=str(fault))
        if fault.kind == "denied":
            self._denials += 1
            end = Undelivered(cause="denied", reason=f"{address}: {fault}")
            return self._finish(end) if self._denials >= _MOST_DENIALS else end
        if wait_s > longest_s:
            said, demand = str(fault).rstrip("."), f"it demands a wait of {wait_s / 60:,.0f} min"
            reason = f"{address}: {said}; {demand}"
            return self._finish(Undelivered(cause="unavailable", reason=reason))
        self._longest_wait_s = max(self._longest_wait_s, wait_s)
        return self._end_of_patience(fault, now, first_failed_at, wait_s)

    def _end_of_patience(
        self, fault: Fault, now: float, first_failed_at: float, wait_s: float
    ) -> Undelivered | None:
        """The same for a fault that may pass; the longest demanded wait is added to the patience.

        A request from before the silence, which is still in flight, may yet be answered.
        """
        sender = self._sender
        reason = f"{sender.access.address}: {fault}"
        patience_s = sender.patience_s + self._longest_wait_s
        self._silent_since = min(self._silent_since, now)
        self._failures += 1
        silent_s = now - self._silent_since
        self._warn(fault, silent_s, wait_s)
        is_over = silent_s >= patience_s or 0.0 < silent_s >= patience_s - wait_s
        if is_over and min(self._sent_at.values(), default=inf) > self._silent_since:
            reason = f"no reply at all for {sender.patience_s:g} s; {reason}"
            return self._finish(Undelivered(cause="unavailable", reason=reason))
        if fault.kind == "failed" and now - first_failed_at >= patience_s > silent_s:
            reason = f"gave up while others were answered; {reason}"
            return Undelivered(cause="unavailable", reason=reason)
        return None

    def _stop_spending(self) -> None:
        budget = self._sender.budget
        reason = (
            f"{budget.spent_usd:.4f} of {budget.max_usd:.4f} US dollars are spent, and a request "
            f"costs up to {budget.request_usd:.4f} (`max_cost`)"
        )
        self._finish(Undelivered(cause="over_budget", reason=reason))

    def _finish(self, end: Undelivered) -> Undelivered:
        """Give up all remaining requests."""
        if self._end is None:
            self._end = end
            logger.error(f"{self._sender.access.service} gets no more requests: {end.reason}")
            asyncio.get_running_loop().call_soon(self._call_next)
        return self._end

    def _warn(self, fault: Fault, silent_s: float, wait_s: float) -> None:
        """Warn of a server that is silent or demands a long wait, at most once a minute."""
        if (silent_s > 10.0 or wait_s > 30.0) and self._now() >= self._logged_at + 60.0:
            self._logged_at = self._now()
            access = self._sender.access
            demand = f" It demands a wait of {wait_s:.0f} s." if wait_s else ""
            logger.warning(
                f"{access.service} at {access.address} fails: {str(fault).rstrip('.')}. Its "
                f"requests are sent again.{demand}"
            )
