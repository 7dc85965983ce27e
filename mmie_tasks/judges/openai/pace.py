"""How long to wait: between tries, and as long as a server's headers ask for."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timezone
from email.utils import parsedate_to_datetime
from math import inf

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Waiting times, in seconds. Tests shorten them.

    Attributes:
        base_s: The longest wait before the second try; doubled before each further one.
        cap_s: No wait of ours is longer. What a server asks for is not cut.
        no_growth_s: How long after a 429 or 5xx no more requests at once are tried.
        check_s: The waits between the tries of `check`.
        fraction: Where between nothing and the longest wait: any number from 0 to 1.
    """

    base_s: float = 0.5
    cap_s: float = 30.0
    no_growth_s: float = 5.0
    check_s: tuple[float, ...] = (0.5, 1.0, 1.5)
    fraction: Callable[[], float] = random.random

    def wait_s(self, tries: int) -> float:
        """Full jitter: so many clients that fail together do not come back together."""
        return self.fraction() * self.longest_s(tries)

    def longest_s(self, tries: int) -> float:
        """The longest wait after so many failed tries.

        >>> Pace().longest_s(1), Pace().longest_s(3), Pace().longest_s(99)
        (0.5, 2.0, 30.0)
        """
        return min(self.cap_s, self.base_s * 2.0 ** min(tries - 1, 60))


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """How long a server asks to be left alone; None where it does not say.

    Args:
        headers: Of its response, names in lower case.
        now: Seconds since 1970.

    >>> retry_after_s({"retry-after": "2"}, 0.0), retry_after_s({"retry-after-ms": "120"}, 0.0)
    (2.0, 0.12)
    """
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _number(headers.get(name))
        if seconds is not None:
            return seconds * unit_s
    if (date := headers.get("retry-after")) is not None:
        return _until_s(date, now)
    return None


def exhausted_s(headers: Mapping[str, str]) -> float | None:
    """Until when nothing remains of what may be asked, in seconds; None where something does.

    >>> exhausted_s({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"})
    360.0
    """
    waits = [
        span_s(headers.get(f"x-ratelimit-reset-{what}", ""))
        for what in ("requests", "tokens")
        if _number(headers.get(f"x-ratelimit-remaining-{what}")) == 0
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def span_s(text: str) -> float | None:
    """A span of time as the provider writes it, in seconds; None for anything else.

    >>> span_s("1s"), span_s("6m0s"), span_s("120ms"), span_s("soon")
    (1.0, 360.0, 0.12, None)
    """
    if (plain := _number(text)) is not None:
        return plain
    text = text.strip()
    if not text or _SPAN.sub("", text):
        return None
    return sum(float(number) * _UNITS_S[unit] for number, unit in _SPAN.findall(text))


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else -1.0
    except ValueError:
        return None
    return number if 0 <= number < inf else None


def _until_s(date: str, now: float) -> float | None:
    try:
        then = parsedate_to_datetime(date)
        aware = then if then.tzinfo else then.replace(tzinfo=timezone.utc)
        return max(0.0, aware.timestamp() - now)
    except (ValueError, OverflowError):
        return None
