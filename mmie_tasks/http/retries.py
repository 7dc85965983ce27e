"""Sends many requests to one or several servers, and retries those that fail.

`send_all` is the entry. One loop decides which request goes where and when; every request in flight is a task of its
own, so a request's body is built only when it is sent. A failed request waits and is sent again, to another server if
possible. All remaining requests are given up if every server denies access, or if no server replies for too long.
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
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from mmie_tasks.http.rate_limit import Budget, Health, Limiter, Pace, Ticket, Traffic

if TYPE_CHECKING:  # it imports the SDK
    from mmie_tasks.http.client import ServerError

MAX_FAILURES = 6
MAX_TIMEOUTS = 3
MAX_REPLIES = 3
"""How often a request is answered at most, if its replies are not final; the last one counts."""

_ELSEWHERE_S = 0.25  # until it is checked again whether another process still sends a request

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
        wait_s: How long the server demands that this request waits, in seconds.
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
        cause: ``unavailable``: failed too often, or no server replies. ``denied``: every server
            denies access. ``over_budget``: not sent. ``rejected``, ``invalid``: as in `Failure`.
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
            for which a request that fails while others are answered is retried at least.
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

    def reserve(self, index: int) -> bool:
        """Reserve a request before it is sent; False while another process has reserved it."""
        ...

    def find(self, index: int) -> ReplyT | None:
        """The reply to a reserved request if it has been stored meanwhile."""
        ...

    def finish(self, index: int, reply: ReplyT | None) -> None:
        """Store the reply as soon as it has arrived, None for none, and end the reservation."""
        ...


def send_all(
    requests: Sequence[RequestT],
    connect: Callable[[], AbstractAsyncContextManager[Sequence[Endpoint[RequestT, ReplyT]]]],
    policy: SendPolicy,
    store: ReplyStore[ReplyT] | None = None,
) -> Iterator[tuple[int, ReplyT | Undelivered]]:
    """Send all requests and yield one result per request, with its index, as they arrive.

    The requests are sent in an event loop of their own thread. Closing the iterator early, or an
    interruption, cancels the requests in flight and ends the thread.

    Args:
        requests: Not changed and not copied.
        connect: Opens the servers in the event loop that uses them, and closes them.
        policy: How requests are sent and retried.
        store: Where replies are looked up before a request is sent, and stored before they are yielded.
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
                requests, endpoints, policy, lambda index, result: results.put((index, result)), store
            ).run()

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="http") as pool:
        finished = pool.submit(lambda: asyncio.run(main()))
        finished.add_done_callback(results.put)  # the last result
        try:
            while not isinstance(result := results.get(), Future):
                yield result
            finished.result()
        finally:
            if not finished.done():
                with suppress(RuntimeError):  # the loop has just ended
                    cancellation.result()()


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
        was_denied: Whether the last attempt was denied.
        elsewhere_at: When another process was first seen sending the same request.
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
    was_denied: bool = False
    elsewhere_at: float = inf

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
        """Whether it has failed too often to be retried."""
        return self.failures >= MAX_FAILURES or self.timeouts >= MAX_TIMEOUTS


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

    def take(self, now: float, *, as_probe: bool = False) -> Job | None:
        """The next request that may be sent now.

        Args:
            now: On the clock.
            as_probe: It tests whether a server denies everything: prefer a request that was not denied itself.
        """
        if as_probe:
            for entry in self._retries:
                if entry[0] <= now and not entry[2].was_denied:
                    self._retries.remove(entry)
                    heapq.heapify(self._retries)
                    return entry[2]
        is_due = bool(self._retries) and self._retries[0][0] <= now
        if is_due and not (as_probe and self._started < self._count):
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
                await self._wait_until(min(wake_at, self._patience_end()))
        finally:
            tasks = list(self._tasks)
            self._policy.traffic.in_flight -= len(tasks)
            self._tasks.clear()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _send_ready(self) -> float:
        """Send every request that may be sent now; returns when, on the clock, to try again if nothing changes."""
        while True:
            now = self._policy.clock()
            wake_at = max(self._queue.next_at(), min(endpoint.free_at() for endpoint in self._endpoints))
            if wake_at > now:
                return wake_at
            if not self._policy.budget.allows(len(self._tasks)):
                if not self._tasks:
                    self._stop_spending()
                return inf  # the requests in flight may turn out cheaper than assumed
            free = [endpoint for endpoint in self._endpoints if endpoint.free_at() <= now]
            job = self._queue.take(now, as_probe=all(endpoint.health.on_probation for endpoint in free))
            if job is None or self._is_answered_elsewhere(job, now):
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
        if self._store is not None:
            self._store.finish(index, None if isinstance(result, Undelivered) else result)
        self._on_result(index, result)

    def _is_answered_elsewhere(self, job: Job, now: float) -> bool:
        """Whether there is no need to send a request now: another process has or had sent it.

        The other process is waited for at most for the patience of the policy.
        """
        if self._store is None:
            return False
        if not self._store.reserve(job.index):
            job.elsewhere_at = min(job.elsewhere_at, now)
            if now < job.elsewhere_at + self._policy.patience_s:
                self._queue.put_back(job, now + _ELSEWHERE_S)
                return True
        if (reply := self._store.find(job.index)) is None:
            return False
        self._report(job.index, reply)
        return True

    def _finish(
        self, endpoint: Endpoint[RequestT, ReplyT], ticket: Ticket, task: asyncio.Future[Success[ReplyT] | Failure]
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
                if success.pause_s is not None:
                    endpoint.limiter.pause(success.pause_s)
                self._policy.budget.pay(success.cost_usd)
                self._note_reply(endpoint)
                job.replies += 1
                if success.is_final or job.replies == MAX_REPLIES:
                    self._report(job.index, success.reply)
                else:
                    job.last_reply, job.last_endpoint = success.reply, endpoint
                    self._queue.put_back(job, self._policy.clock() + self._policy.pace.wait_s(job.replies))
            case Failure() as failure:
                self._handle_failure(job, endpoint, ticket, failure)

    def _note_reply(self, endpoint: Endpoint[RequestT, ReplyT]) -> None:
        if endpoint.health.on_probation:
            line = f"{self._policy.service} at {endpoint.address} answers again."
            self._policy.traffic.log_recovery(endpoint.address, line)
        endpoint.health.reply()
        self._silence_start = inf

    def _handle_failure(self, job: Job, endpoint: Endpoint[RequestT, ReplyT], ticket: Ticket, failure: Failure) -> None:
        if failure.kind == "rejected":
            self._note_reply(endpoint)
        if failure.kind == "rejected" or failure.kind == "invalid":
            self._report(job.index, Undelivered(cause=failure.kind, reason=failure.reason))
            return
        if failure.kind == "busy":
            endpoint.limiter.throttle(ticket, failure.wait_s)
            endpoint.health.throttle()
        elif failure.kind == "denied":
            endpoint.health.deny(job.sent_at, failure.reason)
        else:
            endpoint.limiter.fail()
            if endpoint.health.fail(job.sent_at):
                line = (
                    f"{self._policy.service} at {endpoint.address} does not answer: "
                    f"{failure.reason}. It gets a request from time to time."
                )
                self._policy.traffic.log_trouble(endpoint.address, line)
        if failure.pause_s is not None:
            endpoint.limiter.pause(failure.pause_s)
        self._retry(job, endpoint, failure)

    def _retry(self, job: Job, endpoint: Endpoint[RequestT, ReplyT], failure: Failure) -> None:
        now = self._policy.clock()
        reason = f"{endpoint.address}: {failure.reason}"
        self._silence_start = min(self._silence_start, now)
        self._last_failure = reason
        job.attempts += 1
        job.was_denied = failure.kind == "denied"
        if failure.kind != "busy":
            job.fail(now, endpoint, timed_out=failure.kind == "timed_out")
        if job.is_hopeless and now - job.first_sent_at >= self._policy.patience_s:
            message = f"gave up after {job.attempts} tries while others were answered; {reason}"
            self._report(job.index, Undelivered(cause="unavailable", reason=message))
            return
        job.last_endpoint = endpoint
        wait_s = self._policy.pace.wait_s(job.attempts, by_chance=endpoint.health.explains(job.attempts))
        self._queue.put_back(job, now + max(wait_s, failure.wait_s or 0.0))

    async def _wait_until(self, time: float) -> None:
        """Wait for a result, at most until this time on the clock."""
        timer = None
        if time < inf:
            timer = asyncio.get_running_loop().call_later(max(0.0, time - self._policy.clock()), self._changed.set)
        await self._changed.wait()
        if timer is not None:
            timer.cancel()

    def _patience_end(self) -> float:
        """When to give up, on the clock; never while a request from before the silence runs."""
        start = self._silence_start
        if any(job.sent_at < start for job in self._tasks.values()):
            return inf
        return start + self._policy.patience_s

    def _reason_to_give_up(self) -> Undelivered | None:
        service = self._policy.service
        if all(endpoint.health.closed is not None for endpoint in self._endpoints):
            reason = "; ".join(f"{endpoint.address}: {endpoint.health.closed}" for endpoint in self._endpoints)
            self._policy.traffic.log_trouble("", f"{service} denies access. {reason}", "ERROR")
            return Undelivered(cause="denied", reason=reason)
        if self._policy.clock() < self._patience_end():
            return None
        reason = f"no reply at all for {self._policy.patience_s:g} s; {self._last_failure}"
        self._policy.traffic.log_trouble("", f"{service} is given up: {reason}.", "ERROR")
        return Undelivered(cause="unavailable", reason=reason)

    def _give_up(self, undelivered: Undelivered) -> None:
        for job in (*self._tasks.values(), *self._queue.take_all()):
            self._report(job.index, undelivered if job.last_reply is None else job.last_reply)

    def _stop_spending(self) -> None:
        budget = self._policy.budget
        reason = f"{budget.spent_usd:.4f} of {budget.max_cost_usd:.4f} US dollars are spent"
        self._policy.traffic.log_trouble("", f"{self._policy.service} gets no more requests: {reason} (`max_cost`).")
        self._give_up(Undelivered(cause="over_budget", reason=reason))
