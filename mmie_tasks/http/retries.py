"""Sends many requests to one or several servers, and retries those that fail.

`send_all` is the entry. One loop decides which request goes where and when; every request in flight
is a task of its own, so a request's body is built only when it is sent. A failed request waits and
is sent again, to another server if possible. All remaining requests are given up if no server
replies for too long, or if all demand too long a wait.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from threading import Event
from time import monotonic
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from loguru import logger

from mmie_tasks.http.budget import Budget
from mmie_tasks.http.errors import ServerError
from mmie_tasks.http.rate_limit import (
    FAILURES_BEFORE_PAUSE,
    Health,
    Limiter,
    Pace,
    Ticket,
    Traffic,
    local_time,
)

MAX_FAILURES = FAILURES_BEFORE_PAUSE
MAX_TIMEOUTS = 3
"""A request that failed so often while others were answered is given up after the patience."""

MAX_REPLIES = 3
"""How often a request is answered at most, if its replies are not final; the last one counts."""

LONGEST_WAIT_S = 900.0
"""A server that demands a longer wait gets no more requests, unless the patience is longer."""

QUIET_S = 30.0
"""The log has a line about a server that gets no request for longer."""

_STOP_CHECK_S = 0.2  # between looks at whether a call is to end

FailureKind: TypeAlias = Literal[
    "busy",  # 429: retry, with fewer requests in flight
    "failed",  # 408, 409, 5xx, no connection, an unusable body: retry
    "timed_out",  # no response in time: retry, fewer times
    "denied",  # wrong key, unknown model, no credit left: does not concern this request alone
    "rejected",  # the server does not accept this request
    "invalid",  # the request cannot be built; nothing was sent
]

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Success(Generic[ReplyT]):
    """A reply.

    Attributes:
        reply: As the caller's `Endpoint.send` read it.
        is_final: False if the request may get a better reply when it is sent again.
        cost_usd: In US dollars; None if the price is unknown.
        pause_s: Seconds until the server's exhausted quota is reset, if it is exhausted.
    """

    reply: ReplyT
    is_final: bool = True
    cost_usd: float | None = None
    pause_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an attempt brought no reply.

    Attributes:
        kind: Decides what happens next.
        reason: For messages; holds no secret.
        wait_s: How long the server demands that this request waits, in seconds. Another server may
            get it before.
        pause_s: Seconds until the server's exhausted quota is reset, if it is exhausted.
        error: The server's error response, if there was one.
    """

    kind: FailureKind
    reason: str
    error: ServerError | None = None
    wait_s: float | None = None
    pause_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """A request without a reply, after all retries.

    Attributes:
        cause: ``unavailable``: failed too often, or no server replies, or all demand too long a
            wait. ``denied``: the same, and every server denied access last.
            ``over_budget``: not sent. ``rejected``, ``invalid``: as in `Failure`.
        reason: For messages; holds no secret.
    """

    cause: Literal["unavailable", "denied", "over_budget", "rejected", "invalid"]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint(Generic[RequestT, ReplyT]):
    """A server. Belongs to one event loop.

    Attributes:
        address: For messages; holds no secret.
        limiter: Its requests in flight.
        health: Whether it is working.
        send: Sends a request once, and reads the response.
    """

    address: str
    limiter: Limiter
    health: Health
    send: Callable[[RequestT], Awaitable[Success[ReplyT] | Failure]]

    def free_at(self) -> float:
        """When it may get another request, on the clock."""
        if self.health.on_probation and self.limiter.in_flight:
            return inf
        return max(self.health.ready_at(), self.limiter.free_at())


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPolicy:
    """How requests are sent and retried.

    Attributes:
        service: The subject of log lines: ``The judge `gpt-4o```.
        budget: What may be spent.
        pace: Waiting times.
        patience_s: Seconds without any reply after which all remaining requests are given up, and
            for which a request that fails while others are answered is retried at least. A wait
            that a server demands before they are over is waited for, and then as many seconds more.
        redact: Removes secrets from the text of an unexpected error.
        traffic: Counts the requests, and logs trouble with a server.
        clock: Seconds, from any origin.
    """

    service: str
    budget: Budget
    pace: Pace
    patience_s: float
    redact: Callable[[str], str]
    traffic: Traffic = field(default_factory=Traffic)
    clock: Callable[[], float] = monotonic


class ReplyStore(Protocol[ReplyT]):
    """Replies to the requests of one call, shared with other processes. No method raises.

    It is used in the thread that sends the requests, and in no other one at the same time.
    """

    def find(self, index: int) -> ReplyT | None:
        """The reply to a request if it has been stored meanwhile."""
        ...

    def put(self, index: int, reply: ReplyT) -> None:
        """Store a reply as soon as it has arrived."""
        ...


def send_all(
    requests: Sequence[RequestT],
    connect: Callable[[], AbstractAsyncContextManager[Sequence[Endpoint[RequestT, ReplyT]]]],
    policy: SendPolicy,
    store: ReplyStore[ReplyT] | None = None,
    stop: Event | None = None,
) -> Iterator[tuple[int, ReplyT | Undelivered]]:
    """Send all requests and yield one result per request, with its index, as they arrive.

    The requests are sent in an event loop of their own thread. Closing the iterator early, or an
    interruption, cancels the requests in flight and ends the thread.

    Args:
        requests: Not changed and not copied.
        connect: Opens the servers in the event loop that uses them, and closes them.
        policy: How requests are sent and retried.
        store: Where replies are looked up before a request is sent, and stored before they are
            yielded.
        stop: Set by another thread to end the call as Ctrl-C in its own thread would.

    Raises:
        KeyboardInterrupt: `stop` is set.
    """
    results: SimpleQueue[tuple[int, ReplyT | Undelivered] | Future[None]] = SimpleQueue()
    cancellation: Future[Callable[[], object]] = Future()

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a running coroutine is in a task
        loop = asyncio.get_running_loop()
        cancellation.set_result(lambda: loop.call_soon_threadsafe(task.cancel))
        async with connect() as endpoints:
            await Dispatcher(
                requests,
                endpoints,
                policy,
                lambda index, result: results.put((index, result)),
                store,
            ).run()

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="http") as pool:
        finished = pool.submit(lambda: asyncio.run(main()))
        finished.add_done_callback(results.put)  # the last result
        try:
            while not isinstance(result := _next_of(results, stop), Future):
                yield result
            finished.result()
        finally:
            if not finished.done():
                with suppress(RuntimeError):  # the loop has just ended
                    cancellation.result()()


def _next_of(queue: SimpleQueue[_T], stop: Event | None) -> _T:
    """The next entry of a queue; raises KeyboardInterrupt once `stop` is set."""
    while stop is None or not stop.is_set():
        with suppress(Empty):
            return queue.get(timeout=None if stop is None else _STOP_CHECK_S)
    raise KeyboardInterrupt


@dataclass(slots=True, kw_only=True)
class Job:
    """A request and its failed attempts.

    Attributes:
        index: Of the request.
        attempts: Failed attempts.
        replies: Replies so far.
        last_reply: The last one that was not final.
        failures: Those during which the same server replied to other requests.
        timeouts: Those of the failures that were timeouts.
        sent_at: When it was last sent, on the clock.
        first_sent_at: When it was first sent, on the clock.
        failed_at: When it last failed; before that, when it was first sent.
        last_endpoint: The server of the last failed attempt.
    """

    index: int
    attempts: int = 0
    replies: int = 0
    last_reply: Any = None
    failures: int = 0
    timeouts: int = 0
    sent_at: float = inf
    first_sent_at: float = inf
    failed_at: float = inf
    last_endpoint: Endpoint[Any, Any] | None = None

    def send(self, now: float) -> None:
        """Count it as sent."""
        self.sent_at = now
        self.first_sent_at = min(self.first_sent_at, now)
        self.failed_at = min(self.failed_at, now)

    def fail(self, now: float, endpoint: Endpoint[Any, Any], *, timed_out: bool) -> None:
        """Count a failure if the server has replied to another request since the last one."""
        if endpoint.health.replied_at > self.failed_at:
            self.failures += 1
            self.timeouts += timed_out
        self.failed_at = now

    @property
    def is_hopeless(self) -> bool:
        """Whether it has failed too often, while others were answered, to be retried for ever."""
        return self.timeouts >= MAX_TIMEOUTS or self.failures >= MAX_FAILURES


class Queue:
    """The requests to send: retries first, then new requests in their order."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._started = 0
        self._retries: list[tuple[float, int, Job]] = []  # a heap, by the earliest sending time

    def __len__(self) -> int:
        return self._count - self._started + len(self._retries)

    def next_at(self) -> float:
        """When the next request may be sent, on the clock; infinite if none is left."""
        if self._started < self._count:
            return -inf
        return self._retries[0][0] if self._retries else inf

    def take(self, now: float) -> Job | None:
        """The next request that may be sent now, on the clock."""
        if self._retries and self._retries[0][0] <= now:
            return heapq.heappop(self._retries)[2]
        if self._started == self._count:
            return None
        self._started += 1
        return Job(index=self._started - 1)

    def put_back(self, job: Job, at: float) -> None:
        """Retry a request, not before this time."""
        heapq.heappush(self._retries, (at, job.index, job))

    def take_all(self) -> Iterator[Job]:
        """Every remaining request."""
        while (job := self.take(inf)) is not None:
            yield job


class Dispatcher(Generic[RequestT, ReplyT]):
    """Sends the requests of one `send_all`. Belongs to one event loop.

    Args:
        requests: To send.
        endpoints: The servers.
        policy: How requests are sent and retried.
        report: Called once per request, with its index and result.
        store: Replies shared with other processes.
    """

    def __init__(
        self,
        requests: Sequence[RequestT],
        endpoints: Sequence[Endpoint[RequestT, ReplyT]],
        policy: SendPolicy,
        report: Callable[[int, ReplyT | Undelivered], object],
        store: ReplyStore[ReplyT] | None = None,
    ) -> None:
        self._requests = requests
        self._endpoints = endpoints
        self._policy = policy
        self._on_result = report
        self._store = store
        self._queue = Queue(len(requests))
        self._tasks: dict[asyncio.Future[Success[ReplyT] | Failure], Job] = {}
        self._changed = asyncio.Event()
        self._silence_start = inf  # when requests began to fail without any reply
        self._demanded_until = -inf  # when the longest wait ends that a server has demanded
        self._quiet_until: dict[
            str, float
        ] = {}  # by address: until when the log says that it gets no request
        self._last_failure = ""

    async def run(self) -> None:
        """Return when every request has its result."""
        try:
            while True:
                self._changed.clear()
                wake_at = self._send_ready()
                if not self._tasks and not self._queue:
                    return
                if (undelivered := self._reason_to_give_up()) is not None:
                    self._give_up(undelivered)
                    return
                self._log_quiet()
                await self._wait_until(min(wake_at, self._patience_end()))
        finally:
            tasks = list(self._tasks)
            self._policy.traffic.in_flight -= len(tasks)
            self._tasks.clear()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _send_ready(self) -> float:
        """Send every request that may be sent now; returns when, on the clock, to try again if
        nothing changes.
        """
        while True:
            now = self._policy.clock()
            wake_at = max(
                self._queue.next_at(), min(endpoint.free_at() for endpoint in self._endpoints)
            )
            if wake_at > now:
                return wake_at
            if not self._policy.budget.allows(len(self._tasks)):
                if not self._tasks:
                    self._stop_spending()
                return inf  # the requests in flight may turn out cheaper than assumed
            free = [endpoint for endpoint in self._endpoints if endpoint.free_at() <= now]
            job = self._queue.take(now)
            if job is None or self._is_stored(job):
                continue
            endpoint = min(
                free,
                key=lambda endpoint: (
                    endpoint.health.on_probation,
                    endpoint is job.last_endpoint,
                    endpoint.limiter.in_flight / endpoint.limiter.limit,
                ),
            )
            self._policy.traffic.retries += job.first_sent_at < inf
            self._policy.traffic.in_flight += 1
            job.send(now)
            ticket = endpoint.limiter.send()
            task = asyncio.ensure_future(endpoint.send(self._requests[job.index]))
            self._tasks[task] = job
            task.add_done_callback(partial(self._finish, endpoint, ticket))

    def _report(self, index: int, result: ReplyT | Undelivered) -> None:
        if self._store is not None and not isinstance(result, Undelivered):
            self._store.put(index, result)
        self._on_result(index, result)

    def _is_stored(self, job: Job) -> bool:
        """Whether another process has the reply to a request meanwhile; reports it."""
        reply = None if self._store is None else self._store.find(job.index)
        if reply is None:
            return False
        self._on_result(job.index, reply)
        return True

    def _finish(
        self,
        endpoint: Endpoint[RequestT, ReplyT],
        ticket: Ticket,
        task: asyncio.Future[Success[ReplyT] | Failure],
    ) -> None:
        if task.cancelled() or task not in self._tasks:
            return
        job = self._tasks.pop(task)
        self._policy.traffic.in_flight -= 1
        endpoint.limiter.finish()
        self._changed.set()
        if (error := task.exception()) is not None:
            # An unexpected error must not cost the other requests their replies.
            reason = self._policy.redact(f"{type(error).__name__}: {error}")
            self._handle_failure(job, endpoint, ticket, Failure(kind="failed", reason=reason))
            return
        match task.result():
            case Success() as success:
                endpoint.limiter.succeed()
                self._policy.budget.pay(success.cost_usd)
                self._note_reply(endpoint)
                self._pause(endpoint, success.pause_s, "its quota is used up")
                job.replies += 1
                if success.is_final or job.replies == MAX_REPLIES:
                    self._report(job.index, success.reply)
                else:
                    job.last_reply, job.last_endpoint = success.reply, endpoint
                    self._queue.put_back(
                        job, self._policy.clock() + self._policy.pace.wait_s(job.replies)
                    )
            case Failure() as failure:
                self._handle_failure(job, endpoint, ticket, failure)

    def _note_reply(self, endpoint: Endpoint[RequestT, ReplyT]) -> None:
        if endpoint.health.on_probation:
            line = f"{self._policy.service} at {endpoint.address} answers again."
            self._policy.traffic.log_recovery(endpoint.address, line)
        endpoint.health.reply()
        self._silence_start = inf

    def _handle_failure(
        self, job: Job, endpoint: Endpoint[RequestT, ReplyT], ticket: Ticket, failure: Failure
    ) -> None:
        if failure.kind == "rejected":
            self._note_reply(endpoint)
        if failure.kind == "rejected" or failure.kind == "invalid":
            self._report(job.index, Undelivered(cause=failure.kind, reason=failure.reason))
            return
        if failure.kind == "busy":
            endpoint.limiter.throttle(ticket, failure.wait_s)
        else:
            self._note_failure(job, endpoint, failure)
        self._heed(endpoint, failure.wait_s, failure.reason)
        self._pause(endpoint, failure.pause_s, failure.reason)
        self._retry(job, endpoint, failure)

    def _note_failure(
        self, job: Job, endpoint: Endpoint[RequestT, ReplyT], failure: Failure
    ) -> None:
        is_denial = failure.kind == "denied"
        if not is_denial:
            endpoint.limiter.fail()
        if endpoint.health.fail(job.sent_at, denial=failure.reason if is_denial else None):
            line = (
                f"{self._policy.service} at {endpoint.address} "
                f"{'denies access' if is_denial else 'does not answer'}: "
                f"{failure.reason}. It gets a request from time to time."
            )
            self._policy.traffic.log_trouble(endpoint.address, line)

    def _pause(
        self, endpoint: Endpoint[RequestT, ReplyT], pause_s: float | None, reason: str
    ) -> None:
        """Send nothing to a server until its quota is reset."""
        if pause_s is not None:
            endpoint.limiter.pause(pause_s)
        self._heed(endpoint, pause_s, reason)

    def _heed(
        self, endpoint: Endpoint[RequestT, ReplyT], wait_s: float | None, reason: str
    ) -> None:
        """Be patient for as long as a server demands; close it if that is too long."""
        now = self._policy.clock()
        if wait_s is None or endpoint.health.closed is not None:
            return
        if wait_s > max(LONGEST_WAIT_S, self._policy.patience_s):
            endpoint.health.close(f"{reason}; it demands a wait until {local_time(wait_s)}")
            if self._has_others(endpoint):
                service = f"{self._policy.service} at {endpoint.address}"
                logger.warning(f"{service} gets no more requests: {endpoint.health.closed}.")
        elif now <= self._silence_start + self._policy.patience_s:  # else it has broken its word
            self._demanded_until = max(self._demanded_until, now + wait_s)

    def _has_others(self, endpoint: Endpoint[RequestT, ReplyT]) -> bool:
        """Whether requests may go to a server other than this one."""
        return any(
            other.health.closed is None for other in self._endpoints if other is not endpoint
        )

    def _retry(self, job: Job, endpoint: Endpoint[RequestT, ReplyT], failure: Failure) -> None:
        now = self._policy.clock()
        reason = f"{endpoint.address}: {failure.reason}"
        self._silence_start = min(self._silence_start, now)
        self._last_failure = reason
        job.attempts += 1
        if failure.kind != "busy":
            job.fail(now, endpoint, timed_out=failure.kind == "timed_out")
        if job.is_hopeless and now - job.first_sent_at >= self._policy.patience_s:
            message = f"gave up after {job.attempts} tries while others were answered; {reason}"
            self._report(job.index, Undelivered(cause="unavailable", reason=message))
            return
        job.last_endpoint = endpoint
        demanded_s = 0.0 if self._has_others(endpoint) else failure.wait_s or 0.0
        self._queue.put_back(
            job, now + max(self._wait_s(job, endpoint.health, failure), demanded_s)
        )

    def _wait_s(self, job: Job, health: Health, failure: Failure) -> float:
        """The wait before a request that has failed is sent again, unless the server demands a
        longer one.

        It is short if the server works, unless this request alone fails again and again.
        """
        pace = self._policy.pace
        if not health.works:
            return pace.wait_s(job.attempts)
        if failure.kind == "busy":
            return pace.wait_s(job.attempts, pace.busy_cap_s)
        if job.attempts <= MAX_FAILURES:
            return pace.wait_s(job.attempts, pace.short_cap_s)
        return pace.wait_s(job.attempts - MAX_FAILURES)

    def _log_quiet(self) -> None:
        """Log once until when a server gets no request, if that is long and there are requests."""
        now = self._policy.clock()
        for endpoint in self._endpoints:
            paused_until = endpoint.free_at()
            until = max(paused_until, self._queue.next_at())
            is_quiet = not endpoint.limiter.in_flight and now + QUIET_S < until < inf
            if is_quiet and now >= self._quiet_until.get(endpoint.address, -inf):
                self._quiet_until[endpoint.address] = until
                why = "for the quota" if paused_until > now else "as it demands"
                service = f"{self._policy.service} at {endpoint.address}"
                logger.warning(f"{service} waits until {local_time(until - now)} {why}.")

    async def _wait_until(self, time: float) -> None:
        """Wait for a result, at most until this time on the clock."""
        timer = None
        if time < inf:
            timer = asyncio.get_running_loop().call_later(
                max(0.0, time - self._policy.clock()), self._changed.set
            )
        await self._changed.wait()
        if timer is not None:
            timer.cancel()

    def _patience_end(self) -> float:
        """When to give up, on the clock; never while a request from before the silence runs."""
        start = self._silence_start
        if any(job.sent_at < start for job in self._tasks.values()):
            return inf
        return max(start, self._demanded_until) + self._policy.patience_s

    def _reason_to_give_up(self) -> Undelivered | None:
        if not self._tasks and all(
            endpoint.health.closed is not None for endpoint in self._endpoints
        ):
            reason = "; ".join(
                f"{endpoint.address}: {endpoint.health.closed}" for endpoint in self._endpoints
            )
        elif self._policy.clock() < self._patience_end():
            return None
        else:
            reason = f"no reply at all for {self._policy.patience_s:g} s; {self._last_failure}"
        denials = [endpoint.health.denial for endpoint in self._endpoints]
        if None not in denials:
            reason = "; ".join(
                f"{endpoint.address}: {endpoint.health.denial}" for endpoint in self._endpoints
            )
        verb = "is given up" if None in denials else "denies access"
        self._policy.traffic.log_trouble("", f"{self._policy.service} {verb}: {reason}.", "ERROR")
        return Undelivered(cause="unavailable" if None in denials else "denied", reason=reason)

    def _give_up(self, undelivered: Undelivered) -> None:
        for job in (*self._tasks.values(), *self._queue.take_all()):
            self._report(job.index, undelivered if job.last_reply is None else job.last_reply)

    def _stop_spending(self) -> None:
        budget = self._policy.budget
        reason = (
            f"{budget.spent_usd:.4f} of {budget.max_cost_usd:.4f} US dollars are spent, "
            f"and a request costs up to {budget.largest_usd:.4f}"
        )
        self._policy.traffic.log_trouble(
            "", f"{self._policy.service} gets no more requests: {reason} (`max_cost`)."
        )
        self._give_up(Undelivered(cause="over_budget", reason=reason))
