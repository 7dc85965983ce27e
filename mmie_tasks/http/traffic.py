"""What one client object spends and sends over all its calls, and its log lines about servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import inf
from threading import Lock
from time import monotonic
from typing import Literal

from loguru import logger

LINE_EVERY_S = 60.0
"""A server in trouble gets one line in this time."""


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
