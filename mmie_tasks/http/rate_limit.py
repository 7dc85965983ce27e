"""The waits that servers demand: `Retry-After`, and the headers of exhausted quotas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from math import inf

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = r"(\d+(?:\.\d+)?)(ms|s|m|h|d)"
_LONGEST_IN_SECONDS = 1e6  # a larger number of seconds in a header is a Unix time
_LATEST_IN_SECONDS = 1e11  # a larger Unix time is in milliseconds


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """The wait in seconds that a response demands; None if it demands none.

    Args:
        headers: Names in lower case, or in any case if the mapping ignores it.
        now: Seconds since 1970.

    >>> retry_after_s({"retry-after": "2"}, 0.0), retry_after_s({"retry-after-ms": "120"}, 0.0)
    (2.0, 0.12)
    """
    if (milliseconds := _number(headers.get("retry-after-ms", ""))) is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "")
    if (number := _number(text)) is not None:
        return _wait_s(number, now)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return _until(aware.timestamp(), now)


def quota_reset_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until an exhausted quota is reset; None if quota is left, or if its reset is not
    known.

    >>> used_up = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}
    >>> quota_reset_s(used_up, 0.0)
    360.0
    """
    waits = [
        duration_s(headers.get(f"x-ratelimit-reset-{quota}", ""), now)
        for quota in ("requests", "tokens")
        if _number(headers.get(f"x-ratelimit-remaining-{quota}", "")) == 0
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def duration_s(text: str, now: float) -> float | None:
    """A duration in the notation of the rate-limit headers, in seconds; None for other text.

    Some gateways write the Unix time of the end instead, in seconds or milliseconds.

    >>> [duration_s(text, 0.0) for text in ("1s", "6m0s", "120ms", "soon")]
    [1.0, 360.0, 0.12, None]
    >>> duration_s("1790741520", 1790741500.0), duration_s("1790741520000", 1790741500.0)
    (20.0, 20.0)
    """
    if (number := _number(text)) is not None:
        return _wait_s(number, now)
    if not re.fullmatch(f"(?:{_PART})+", text):
        return None
    return sum(float(number) * _UNITS_S[unit] for number, unit in re.findall(_PART, text))


def local_time(wait_s: float) -> str:
    """The local time after a wait, for messages: ``14:05``, on another day with the date."""
    now = datetime.now(timezone.utc)
    try:
        moment = (now + timedelta(seconds=wait_s)).astimezone()
    except OverflowError:
        return "after the year 9999"
    is_today = moment.date() == now.astimezone().date()
    return f"{moment:%H:%M}" if is_today else f"{moment:%Y-%m-%d %H:%M}"


def _wait_s(number: float, now: float) -> float | None:
    """The wait that a number means: so many seconds, or until a Unix time."""
    if number <= _LONGEST_IN_SECONDS:
        return number
    return _until(number / 1000 if number > _LATEST_IN_SECONDS else number, now)


def _until(moment: float, now: float) -> float | None:
    return moment - now if moment >= now else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < inf else None
