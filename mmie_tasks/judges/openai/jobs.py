"""The requests that have no outcome yet, in the order in which they are sent."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from mmie_tasks.judges.openai.endpoint import Endpoint

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
