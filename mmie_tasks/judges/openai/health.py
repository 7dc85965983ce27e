"""Whether a server is worth asking: it rests after failures, is tried again, may be given up."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from mmie_tasks.judges.openai.pace import Pace

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
