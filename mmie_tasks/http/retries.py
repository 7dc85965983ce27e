"""All requests of one `ask`, to all servers: which goes where and when, and when to give up.

One loop decides; what is on its way is one task each, and only then are its images read. A request
that brought no answer waits its time and is sent again, to another server where there is one. All
is given up where every server refuses us, or none has answered anything for too long.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import TypeAlias

from loguru import logger

from mmie_tasks.http.budget import Budget
from mmie_tasks.http.client import Answered, Endpoint
from mmie_tasks.http.complaints import scrub
from mmie_tasks.http.errors import Trouble
from mmie_tasks.http.rate_limit import Pace, Ticket
from mmie_tasks.judges.base import (
    JudgeError,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    OutOfBudget,
    RequestBroken,
)
from mmie_tasks.judges.openai.settings import Settings

# The requests that have no outcome yet, in the order in which they are sent.

MAX_FAILURES = 6
MAX_TIMEOUTS = 3


@dataclass(slots=True, kw_only=True)
class Job:
    """One request, and how it fared.

    Attributes:
        index: Its place among the requests.
        tries: How often it came back without an answer.
        failures: How many of these were its own fault: the server answered others meanwhile.
        timeouts: How many of its failures were timeouts.
        sent_at: When it was sent last, on the clock.
        marked_at: When it failed last; before that, when it was first sent.
        avoid: The server that failed it.
        refused: Whether a server would not answer us when it was sent last.
    """

    index: int
    tries: int = 0
    failures: int = 0
    timeouts: int = 0
    sent_at: float = inf
    marked_at: float = inf
    avoid: Endpoint | None = None
    refused: bool = False

    def sent(self, now: float) -> None:
        """It is on its way."""
        self.sent_at = now
        self.marked_at = min(self.marked_at, now)

    def failed(self, now: float, endpoint: Endpoint, *, timed_out: bool) -> None:
        """It came back. A failure is its own only where the same server answered others since."""
        if endpoint.health.answered_at > self.marked_at:
            self.failures += 1
            self.timeouts += timed_out
        self.marked_at = now

    @property
    def hopeless(self) -> bool:
        """It has failed too often to be asked again."""
        return self.failures >= MAX_FAILURES or self.timeouts >= MAX_TIMEOUTS


class Jobs:
    """What is still to be sent: what was sent before first, then the others in their order."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._fresh = 0
        self._again: list[tuple[float, int, Job]] = []  # a heap, by when they may be sent

    def __len__(self) -> int:
        return self._count - self._fresh + len(self._again)

    def next_at(self) -> float:
        """When the next one may be sent, on the clock; infinite where there is none."""
        if self._fresh < self._count:
            return -inf
        return self._again[0][0] if self._again else inf

    def take(self, now: float, *, to_probe: bool = False) -> Job | None:
        """The next one that may be sent now.

        Args:
            now: On the clock.
            to_probe: It shall show whether a server answers us: rather one that was not refused,
                for the refusal may have been of that request alone.
        """
        if to_probe and (other := self._not_refused(now)) is not None:
            return other
        if self._again and self._again[0][0] <= now:
            return heapq.heappop(self._again)[2]
        return self._next_fresh()

    def _not_refused(self, now: float) -> Job | None:
        for entry in self._again:
            if entry[0] <= now and not entry[2].refused:
                self._again.remove(entry)
                heapq.heapify(self._again)
                return entry[2]
        return self._next_fresh()

    def _next_fresh(self) -> Job | None:
        if self._fresh == self._count:
            return None
        self._fresh += 1
        return Job(index=self._fresh - 1)

    def put_back(self, job: Job, at: float) -> None:
        """Send it again, not before this time."""
        heapq.heappush(self._again, (at, job.index, job))

    def take_all(self) -> Iterator[Job]:
        """Everything, at once."""
        while (job := self.take(inf)) is not None:
            yield job


Tell: TypeAlias = Callable[[int, Outcome], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    """A request on its way."""

    job: Job
    endpoint: Endpoint
    ticket: Ticket


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quiet:
    """Since when nothing was answered although something failed, and what failed last."""

    since: float = inf
    why: str = ""


class Dispatch:
    """See the top of the module. Belongs to one event loop.

    Args:
        requests: What is asked.
        endpoints: Who is asked.
        settings: How.
        budget: What may be spent.
        pace: How long to wait.
        tell: Is given every outcome, once.
    """

    def __init__(
        self,
        requests: Sequence[JudgeRequest],
        endpoints: Sequence[Endpoint],
        *,
        settings: Settings,
        budget: Budget,
        pace: Pace,
        tell: Tell,
    ) -> None:
        self._requests = requests
        self._endpoints = endpoints
        self._settings = settings
        self._budget = budget
        self._pace = pace
        self._tell = tell
        self._jobs = Jobs(len(requests))
        self._under_way: dict[asyncio.Task[Answered | Trouble], _Sent] = {}
        self._changed = asyncio.Event()
        self._quiet = _Quiet()

    async def run(self) -> None:
        """Return when every request has its outcome."""
        try:
            while True:
                self._changed.clear()
                wake_at = self._send_what_fits()
                if not self._under_way and not self._jobs:
                    return
                if (error := self._why_give_up()) is not None:
                    self._give_up(error)
                    return
                await self._change_or(min(wake_at, self._patience_ends()))
        finally:
            tasks = list(self._under_way)
            self._under_way.clear()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # Sending.

    def _send_what_fits(self) -> float:
        """Send all that may be sent now; when to look again if nothing changes before."""
        while True:
            now = monotonic()
            free_at = min(endpoint.free_at() for endpoint in self._endpoints)
            wake_at = max(self._jobs.next_at(), free_at)
            if wake_at > now:
                return wake_at
            if not self._budget.allows(len(self._under_way)):
                if not self._under_way:
                    self._stop_spending()
                return inf  # what is on its way may turn out cheap
            free = [endpoint for endpoint in self._endpoints if endpoint.free_at() <= now]
            to_probe = all(endpoint.health.shaky for endpoint in free)
            if (job := self._jobs.take(now, to_probe=to_probe)) is not None:
                self._send(job, self._best_for(job, free), now)

    def _best_for(self, job: Job, free: Sequence[Endpoint]) -> Endpoint:
        return min(
            free,
            key=lambda endpoint: (
                endpoint.health.shaky,
                endpoint is job.avoid,
                endpoint.limiter.in_flight / endpoint.limiter.limit,
            ),
        )

    def _send(self, job: Job, endpoint: Endpoint, now: float) -> None:
        job.sent(now)
        ticket = endpoint.limiter.sent()
        task = asyncio.create_task(endpoint.ask(self._requests[job.index]))
        self._under_way[task] = _Sent(job=job, endpoint=endpoint, ticket=ticket)
        task.add_done_callback(self._came_back)

    # What came back.

    def _came_back(self, task: asyncio.Task[Answered | Trouble]) -> None:
        if task.cancelled() or task not in self._under_way:
            return
        sent = self._under_way.pop(task)
        sent.endpoint.limiter.came_back()
        self._changed.set()
        match task.exception():
            case None:
                self._settle(sent, task.result())
            case RequestBroken() as broken:
                self._tell(sent.job.index, broken)
            case error:
                # No error we know of. One request must not cost the others theirs.
                why = scrub(f"{type(error).__name__}: {error}", self._settings.secrets)
                self._settle(sent, Trouble(kind="failed", why=why))

    def _settle(self, sent: _Sent, came: Answered | Trouble) -> None:
        job, endpoint = sent.job, sent.endpoint
        match came:
            case Answered():
                endpoint.limiter.served()
                self._budget.pay(self._requests[job.index], came.usage, self._settings.max_tokens)
                self._answered(job, endpoint, came.outcome)
            case Trouble(kind="content"):
                self._answered(job, endpoint, JudgeRefused(came.why))
            case Trouble():
                self._tell_endpoint(sent, came)
                self._again(job, endpoint, came)

    def _answered(self, job: Job, endpoint: Endpoint, outcome: Outcome) -> None:
        if endpoint.health.shaky:
            logger.info(f"The judge at {endpoint.place} answers again.")
        endpoint.health.answered()
        self._quiet = _Quiet()
        self._tell(job.index, outcome)

    def _tell_endpoint(self, sent: _Sent, trouble: Trouble) -> None:
        endpoint, sent_at = sent.endpoint, sent.job.sent_at
        match trouble.kind:
            case "busy":
                endpoint.limiter.too_many(sent.ticket, trouble.wait_s)
            case "setup":
                endpoint.health.refused_us(sent_at, trouble.why)
            case _:
                endpoint.limiter.stumbled()
                if endpoint.health.failed(sent_at):
                    logger.warning(
                        f"The judge at {endpoint.place} does not answer: {trouble.why}. "
                        "It is asked again from time to time."
                    )
        if trouble.pause_s is not None:
            endpoint.limiter.pause(trouble.pause_s)

    def _again(self, job: Job, endpoint: Endpoint, trouble: Trouble) -> None:
        now = monotonic()
        why = f"{endpoint.place}: {trouble.why}"
        self._quiet = _Quiet(since=min(self._quiet.since, now), why=why)
        job.tries += 1
        job.refused = trouble.kind == "setup"
        if trouble.kind != "busy":
            job.failed(now, endpoint, timed_out=trouble.kind == "timed_out")
        if job.hopeless:
            words = f"gave up after {job.tries} tries while others were answered; {why}"
            self._tell(job.index, JudgeUnavailable(words))
            return
        job.avoid = endpoint
        wait_s = self._pace.wait_s(job.tries)
        self._jobs.put_back(job, now + max(wait_s, trouble.wait_s or 0.0))

    # Waiting and giving up.

    async def _change_or(self, until: float) -> None:
        timer = None
        if until < inf:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(max(0.0, until - monotonic()), self._changed.set)
        await self._changed.wait()
        if timer is not None:
            timer.cancel()

    def _patience_ends(self) -> float:
        """When to give up, on the clock. Not while a request is on its way from better times."""
        since = self._quiet.since
        if any(sent.job.sent_at < since for sent in self._under_way.values()):
            return inf
        return since + self._settings.patience_s

    def _why_give_up(self) -> JudgeError | None:
        dead = [f"{place.place}: {place.health.dead}" for place in self._endpoints]
        if all(endpoint.health.dead is not None for endpoint in self._endpoints):
            logger.error(f"The judge will not answer us any more. {'; '.join(dead)}")
            return JudgeMisconfigured(
                f"the judge `{self._settings.model}` will not answer us: {'; '.join(dead)}",
                hint="put that right, then run again: the replies so far are kept in the cache",
            )
        if monotonic() < self._patience_ends():
            return None
        words = f"no reply at all for {self._settings.patience_s:g} s; {self._quiet.why}"
        logger.error(f"The judge `{self._settings.model}` is given up: {words}.")
        return JudgeUnavailable(words)

    def _give_up(self, error: JudgeError) -> None:
        left = [sent.job for sent in self._under_way.values()]
        for job in (*left, *self._jobs.take_all()):
            self._tell(job.index, error)

    def _stop_spending(self) -> None:
        spent, limit = self._budget.spent_usd, self._budget.max_cost_usd
        words = f"{spent:.4f} of {limit:.4f} US dollars are spent"
        logger.warning(f"The judge is asked no more: {words} (`max_cost`).")
        for job in self._jobs.take_all():
            self._tell(job.index, OutOfBudget(words))
