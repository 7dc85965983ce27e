"""The cost limit of a client."""

from __future__ import annotations

from threading import Lock


class Budget:
    """The US dollars that one client object may spend in its lifetime; None for no limit.

    `price_usd` is the price of a request, if it is known before the first one is paid.
    """

    def __init__(self, *, max_cost_usd: float | None, price_usd: float | None = None) -> None:
        self.max_cost_usd = max_cost_usd
        self.spent_usd = 0.0
        self.largest_usd = price_usd or 0.0  # of a request so far
        self._estimate_usd = 0.0
        self._paid_requests = 0
        self._lock = Lock()

    def expect(self, estimate_usd: float) -> None:
        """Note that a request may cost as much as this high estimate."""
        self._estimate_usd = max(self._estimate_usd, estimate_usd)

    def allows(self, in_flight: int) -> bool:
        """Whether another request may be sent in addition to those in flight.

        Each of several requests in flight is assumed to cost the largest cost so far, and at least
        the estimate; a request that is sent alone, the largest cost so far. The first costs may be
        exceptions, so at most one more request is in flight than were paid.
        """
        if self.max_cost_usd is None:
            return True
        if in_flight > self._paid_requests:
            return False
        request_usd = max(self.largest_usd, self._estimate_usd) if in_flight else self.largest_usd
        return self.spent_usd + (in_flight + 1) * request_usd <= self.max_cost_usd

    def pay(self, cost_usd: float | None) -> None:
        """Add the cost of a request; None, an unknown price, adds nothing."""
        if cost_usd is None:
            return
        with self._lock:
            self.spent_usd += cost_usd
            self.largest_usd = max(self.largest_usd, cost_usd)
            self._paid_requests += 1
