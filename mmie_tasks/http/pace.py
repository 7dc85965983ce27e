"""How long to wait between attempts."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Waiting times in seconds. Tests shorten them."""

    base_s: float = 0.5  # longest wait before the second attempt; doubles before every further one
    cap_s: float = 30.0  # longest wait of all, unless a server demands a longer one
    short_cap_s: float = 0.25  # longest wait of a request that fails while its server works
    busy_cap_s: float = 1.0  # longest wait after a 429
    no_growth_s: float = 5.0  # how long the concurrency does not grow after a 429
    check_s: tuple[float, ...] = (0.5, 1.0, 1.5)  # between the attempts of a check before a run
    fraction: Callable[[], float] = random.random  # the share of the longest wait, 0 to 1

    def wait_s(self, attempts: int, cap_s: float = inf) -> float:
        """The wait after this many failed attempts, with full jitter."""
        return self.fraction() * min(self.longest_s(attempts), cap_s)

    def longest_s(self, attempts: int) -> float:
        """The longest wait after this many failed attempts.

        >>> Pace().longest_s(1), Pace().longest_s(3), Pace().longest_s(99)
        (0.5, 2.0, 30.0)
        """
        return min(self.cap_s, self.base_s * 2.0 ** min(attempts - 1, 60))
