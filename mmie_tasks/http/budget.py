"""A limit on what requests may cost."""

from __future__ import annotations

from threading import Lock


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
