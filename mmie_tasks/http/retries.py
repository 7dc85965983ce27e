"""Decides which request is sent when: one loop for all requests of a call.

Every request in flight is a task of its own, so a request's body is built only when it is sent. A
failed request waits and is sent again. All remaining requests are given up if the server does not
reply for too long, or demands too long a wait. A 429 is a failure of the kind ``busy``, or
``denied`` if there is no credit (`mmie_tasks.http.client`).
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Generic

from loguru import logger

from mmie_tasks.core.log import traceback_text
from mmie_tasks.http.attempt import Failure, ReplyT, RequestT, Success
from mmie_tasks.http.endpoint import FAILURES_BEFORE_PAUSE, Endpoint
from mmie_tasks.http.errors import redact, without_secrets
from mmie_tasks.http.rate_limit import LONGEST_WAIT_S, demand_text
from mmie_tasks.http.sender import LOGGED_WAIT_S, ReplyStore, Sender, Undelivered

MAX_FAILURES = FAILURES_BEFORE_PAUSE
"""A request that failed this often while others were answered is given up after the patience."""

MAX_TIMEOUTS = 3
"""The same limit for timeouts: each counts as ten failures."""

_MAX_REPLIES = 3
"""A request gets at most so many replies that are not final; the last one counts."""


@dataclass(slots=True, eq=False)
class _Job:
    """A request and its attempts. Times are on the loop's clock."""

    index: int
    attempts: int = 0  # failed ones
    replies: int = 0  # only the last one can be final
    last_reply: Any = None
    failures: int = 0  # while the server replied to other requests
    sent_at: float = inf
    first_sent_at: float = inf
    failed_at: float = inf  # the last time; before the first failure, `first_sent_at`
    others: int = 0  # other requests in flight when this one was sent
    served: int = 0  # the server's replies when this one was sent


class Dispatcher(Generic[RequestT, ReplyT]):
    """Sends the requests of one `send_all`, in the running event loop.

    ``report`` is called once per request, with its index and result.
    """

    def __init__(
        self,
        requests: Sequence[RequestT],
        endpoint: Endpoint[RequestT, ReplyT],
        sender: Sender,
        report: Callable[[int, ReplyT | Undelivered], object],
        store: ReplyStore[ReplyT] | None = None,
    ) -> None:
        self._requests = requests
        self._endpoint = endpoint
        self._sender = sender
        self._on_result = report
        self._store = store
        self._now = asyncio.get_running_loop().time
        self._new = deque(_Job(index) for index in range(len(requests)))
        self._retries: list[tuple[float, int, _Job]] = []  # a heap, by the earliest sending time
        self._tasks: dict[_Job, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._silence_start = inf  # when requests began to fail without any reply
        self._demanded_until = -inf  # when the longest wait ends that a server has demanded
        self._last_failure = ""
        self._has_failed = False  # by an error of our own
        self._longest_wait_s = max(LONGEST_WAIT_S, sender.patience_s)

    async def run(self) -> None:
        """Return when every request has its result."""
        try:
            while True:
                self._changed.clear()
                wake_at = self._send_ready()
                if not self._tasks and self._next_at() == inf:
                    return
                if (undelivered := self._reason_to_give_up()) is not None:
                    self._give_up(undelivered)
                    return
                await self._wait_until(min(wake_at, self._patience_end()))
        finally:
            tasks = list(self._tasks.values())
            self._sender.in_flight -= len(tasks)
            self._tasks.clear()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _next_at(self) -> float:
        """When the next request may be sent; infinite if none is left."""
        if self._new:
            return -inf
        return self._retries[0][0] if self._retries else inf

    def _send_ready(self) -> float:
        """Send retries, then new requests, if they may be sent; returns when to try again."""
        while True:
            now = self._now()
            if (wake_at := max(self._next_at(), self._endpoint.free_at())) > now:
                return wake_at
            if not self._sender.budget.allows(len(self._tasks)):
                if not self._tasks:
                    self._stop_spending()
                return inf  # the requests in flight may turn out cheaper than assumed
            is_retry = self._retries and self._retries[0][0] <= now
            job = heapq.heappop(self._retries)[2] if is_retry else self._new.popleft()
            if self._store is not None and (reply := self._store.find(job.index)) is not None:
                self._on_result(job.index, reply)  # another process has it meanwhile
            else:
                self._send(job, now)

    def _send(self, job: _Job, now: float) -> None:
        endpoint = self._endpoint
        self._sender.retries += job.sent_at < inf
        self._sender.in_flight += 1
        job.sent_at = now
        job.first_sent_at, job.failed_at = min(job.first_sent_at, now), min(job.failed_at, now)
        job.others, job.served = endpoint.in_flight, endpoint.served
        endpoint.in_flight += 1
        self._tasks[job] = asyncio.ensure_future(self._attempt(job))

    async def _attempt(self, job: _Job) -> None:
        result: Success[ReplyT] | Failure | Undelivered
        try:
            result = await self._endpoint.send(self._requests[job.index])
        except Exception as error:  # noqa: BLE001 - our own: it costs no other request its reply
            result = self._undelivered_by_us(error)
        if self._tasks.pop(job, None) is None:
            return  # given up meanwhile
        self._sender.in_flight -= 1
        self._endpoint.in_flight -= 1
        self._changed.set()
        match result:
            case Undelivered():
                self._report(job, result)
            case Success():
                self._handle_reply(job, result)
            case Failure(kind="rejected" | "invalid" as cause):
                if cause == "rejected":
                    self._note_response()
                self._report(job, Undelivered(cause=cause, reason=result.reason))
            case Failure():
                self._handle_failure(job, result)

    def _undelivered_by_us(self, error: Exception) -> Undelivered:
        """The result of a request for which our code failed; the first such error is logged."""
        secrets = self._sender.access.secrets
        if not self._has_failed:
            self._has_failed = True
            text = without_secrets(traceback_text(error), secrets)
            logger.error("A request failed by an error of mmie-tasks.\n{}", text)
        reason = redact(f"{type(error).__name__}: {error}", secrets)
        return Undelivered(cause="unavailable", reason=reason)

    def _handle_reply(self, job: _Job, success: Success[ReplyT]) -> None:
        self._sender.budget.pay(success.cost_usd)
        self._endpoint.grow(self._now())
        self._note_response()
        self._heed("its quota is used up", 0.0, success.pause_s or 0.0)
        job.replies += 1
        if success.is_final or job.replies == _MAX_REPLIES:
            self._report(job, success.reply)
        else:
            job.last_reply = success.reply
            self._put_back(job, self._sender.pace.wait_s(job.replies))

    def _note_response(self) -> None:
        if self._endpoint.on_probation:
            self._sender.log_recovery(f"{self._name} answers again.")
        self._endpoint.reply(self._now())
        self._silence_start = inf

    def _handle_failure(self, job: _Job, failure: Failure) -> None:
        now = self._now()
        job.attempts += 1
        if failure.kind == "busy":
            self._endpoint.throttle(now, failure.wait_s, job.others, job.served)
        else:
            self._note_failure(job, failure)
        demanded_s = failure.wait_s or 0.0
        self._heed(failure.reason, demanded_s, failure.pause_s or 0.0)
        self._silence_start = min(self._silence_start, now)
        self._last_failure = f"{self._sender.access.address}: {failure.reason}"
        if job.failures >= MAX_FAILURES and now - job.first_sent_at >= self._sender.patience_s:
            reason = f"gave up after {job.attempts} tries while others were answered"
            reason = f"{reason}; {self._last_failure}"
            self._report(job, Undelivered(cause="unavailable", reason=reason))
            return
        self._put_back(job, max(self._wait_s(job, failure), demanded_s))

    def _note_failure(self, job: _Job, failure: Failure) -> None:
        endpoint, now = self._endpoint, self._now()
        if endpoint.replied_at > job.failed_at:  # it answered others meanwhile
            is_timeout = failure.kind == "timed_out"
            job.failures += MAX_FAILURES // MAX_TIMEOUTS if is_timeout else 1
        job.failed_at = now
        denial = failure.reason if failure.kind == "denied" else None
        if endpoint.fail(now, job.sent_at, denial):
            verb = "does not answer" if denial is None else "denies access"
            line = f"{self._name} {verb}: {failure.reason}. It gets a request from time to time."
            self._sender.log_trouble(line, now)

    def _heed(self, reason: str, wait_s: float, pause_s: float) -> None:
        """Note the demands to hold back this request (`wait_s`) and all requests (`pause_s`)."""
        now, demanded_s = self._now(), max(wait_s, pause_s)
        if demanded_s == 0:
            return
        demand = f"{reason.rstrip('.')}; {demand_text(demanded_s, self._longest_wait_s)}"
        is_too_long, end = demanded_s > self._longest_wait_s, now + demanded_s
        if is_too_long and end >= self._endpoint.paused_until:
            self._endpoint.demand = demand
        self._endpoint.pause(end if is_too_long else now + pause_s)
        if is_too_long:
            return  # the reason for giving up names it
        if demanded_s > LOGGED_WAIT_S:
            self._sender.log_wait(f"{self._name} gets fewer requests: {demand}.", end)
        if now <= self._silence_start + self._sender.patience_s:
            self._demanded_until = max(self._demanded_until, end)

    def _put_back(self, job: _Job, wait_s: float) -> None:
        heapq.heappush(self._retries, (self._now() + wait_s, job.index, job))

    def _wait_s(self, job: _Job, failure: Failure) -> float:
        """The wait before a retry: short if the server works and this request failed rarely."""
        pace = self._sender.pace
        if self._endpoint.on_probation or self._endpoint.replied_at == -inf:
            return pace.wait_s(job.attempts)
        if failure.kind == "busy":
            return pace.wait_s(job.attempts, pace.busy_cap_s)
        if job.attempts <= MAX_FAILURES:
            return pace.wait_s(job.attempts, pace.short_cap_s)
        return pace.wait_s(job.attempts - MAX_FAILURES)

    async def _wait_until(self, time: float) -> None:
        """Wait for a result, until this time at most."""
        if time < inf:
            timer = asyncio.get_running_loop().call_at(time, self._changed.set)
            await self._changed.wait()
            timer.cancel()
        else:
            await self._changed.wait()

    def _patience_end(self) -> float:
        """When to give up; never while a request from before the silence is in flight."""
        start = self._silence_start
        if any(job.sent_at < start for job in self._tasks):
            return inf
        return max(start, self._demanded_until) + self._sender.patience_s

    def _reason_to_give_up(self) -> Undelivered | None:
        endpoint, now = self._endpoint, self._now()
        if not self._tasks and endpoint.free_at() > now + self._longest_wait_s:
            reason = f"{self._sender.access.address}: {endpoint.demand}"
        elif now < self._patience_end():
            return None
        else:
            reason = f"no reply at all for {self._sender.patience_s:g} s; {self._last_failure}"
        is_denied = endpoint.denial is not None
        if is_denied:
            reason = f"{self._sender.access.address}: {endpoint.denial}"
        verb = "denies access" if is_denied else "is given up"
        self._sender.log_end(f"{self._sender.access.service} {verb}: {reason}.", now, "ERROR")
        return Undelivered(cause="denied" if is_denied else "unavailable", reason=reason)

    def _stop_spending(self) -> None:
        budget = self._sender.budget
        reason = (
            f"{budget.spent_usd:.4f} of {budget.max_cost_usd:.4f} US dollars are spent, "
            f"and a request costs up to {budget.largest_usd:.4f}"
        )
        line = f"{self._sender.access.service} gets no more requests: {reason} (`max_cost`)."
        self._sender.log_end(line, self._now(), "WARNING")
        self._give_up(Undelivered(cause="over_budget", reason=reason))

    def _give_up(self, undelivered: Undelivered) -> None:
        for job in (*self._tasks, *(job for _, _, job in self._retries), *self._new):
            self._report(job, undelivered if job.last_reply is None else job.last_reply)
        self._retries.clear()
        self._new.clear()

    def _report(self, job: _Job, result: ReplyT | Undelivered) -> None:
        if self._store is not None and not isinstance(result, Undelivered):
            self._store.put(job.index, result)
        self._on_result(job.index, result)

    @property
    def _name(self) -> str:
        return f"{self._sender.access.service} at {self._sender.access.address}"
