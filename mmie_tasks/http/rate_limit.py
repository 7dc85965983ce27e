"""Reads the waits that servers demand in headers, fields and words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from math import inf

LONGEST_WAIT_S = 900.0
"""A run does not wait longer than this for a server, unless its patience is longer."""

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = (
    r"(\d+(?:\.\d+)?|\b(?:an?|one)\b)\s*"
    r"(ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])"
)
_DURATION = rf"{_PART}(?:(?:,|\s|\band\b)*{_PART})*"
_CLOCK = r"(\d+):(\d\d):(\d\d)"
_MOMENT = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:\s?(?:Z|UTC|GMT)|[+-]\d\d:\d\d)?"
_SECONDS = r"\d{1,6}(?=[.!\s]*(?:[\"'}]|\Z))"  # without a unit, at the end of a sentence
_BETWEEN = r"[\s\"':=-]*"
_DEMAND = re.compile(
    r"\b(?:(?:try (?:(?:your|the|this) request )?again|retry(?:ing)?(?: (?:your|the|this) request)?"
    r"|wait)\b"
    r"|(?:resets?|replenished|available(?: again)?) (?=(?:in|after|at|on)\b))"
    rf"{_BETWEEN}(?:\b(?:in|after|for|at|until|on|about|around|approximately|least|another)\b"
    rf"{_BETWEEN})*(?P<wait>{_MOMENT}|{_CLOCK}|{_DURATION}|{_SECONDS})",
    re.IGNORECASE,
)
_FIELD = re.compile(
    r"\b(retry[-_ ]?(?:after|delay)(?:[-_ ]?(?:ms|s|secs|seconds))?|x-ratelimit-[\w-]{1,40})"
    r"[\"']?\s*[:=]\s*[\"']?([^\"',}\s][^\"',}]{0,60})",
    re.IGNORECASE,
)
_MAX_BODY = 2**16  # bytes of a body that are looked at

_LONGEST_IN_SECONDS = 1e6  # a larger number of seconds in a header is a Unix time
_LATEST_IN_SECONDS = 1e11  # a larger Unix time is in milliseconds


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """The wait in seconds that a response demands; None if it demands none.

    Headers have names in lower case, unless the mapping ignores case; `now` is in Unix seconds.

    >>> retry_after_s({"retry-after": "2"}, 0.0), retry_after_s({"retry-after-ms": "120"}, 0.0)
    (2.0, 0.12)
    """
    if (milliseconds := _number(headers.get("retry-after-ms", ""))) is not None:
        return milliseconds / 1000
    return duration_s(headers.get("retry-after", ""), now)


def wait_in_body_s(body: bytes, now: float) -> float | None:
    """The wait in seconds that the body of an error demands; None if it demands none.

    A field (Gemini's ``retryDelay``, ``retry_after``) comes first, then words, then the reset of an
    exhausted quota in headers that a gateway quotes (OpenRouter).

    >>> wait_in_body_s(b'{"error": {"message": "Please try again in 6m0s."}}', 0.0)
    360.0
    >>> wait_in_body_s(b'[{"details": [{"retryDelay": "37s"}]}]', 0.0)
    37.0
    """
    text = re.sub(r"\\{1,8}(?=[\"'/])", "", body[:_MAX_BODY].decode(errors="replace"))
    text = re.sub(r"\\{1,8}[nrt]", " ", text)  # JSON, perhaps in JSON
    fields = {_header(name): value.strip() for name, value in _FIELD.findall(text)}
    wait_s = retry_after_s(fields, now)
    if wait_s is None and (demand := _DEMAND.search(text)) is not None:
        wait_s = duration_s(demand["wait"], now)
    return quota_reset_s(fields, now) if wait_s is None else wait_s


def quota_reset_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds until an exhausted quota is reset; None if quota is left or the time is unknown.

    A quota is a pair of headers such as ``x-ratelimit-remaining-tokens`` and
    ``x-ratelimit-reset-tokens``, or ``anthropic-ratelimit-tokens-remaining`` and ``-reset``.

    >>> used_up = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}
    >>> quota_reset_s(used_up, 0.0)
    360.0
    """
    waits = [
        duration_s(headers.get(name.replace("remaining", "reset"), ""), now)
        for name, remaining in headers.items()
        if "ratelimit" in name and "remaining" in name and _number(remaining) == 0
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def duration_s(text: str, now: float) -> float | None:
    """A duration in the notation of headers or of messages, in seconds; None for other text.

    The text may also be the end of the wait: a Unix time in seconds or milliseconds, or a date of
    HTTP or ISO 8601. An end in the past gives None.

    >>> [duration_s(text, 0.0) for text in ("1s", "6m0s", "120ms", "2 hours and 1 minute", "soon")]
    [1.0, 360.0, 0.12, 7260.0, None]
    >>> duration_s("1790741520", 1790741500.0), duration_s("1790741520000", 1790741500.0)
    (20.0, 20.0)
    """
    text = text.strip()
    if (number := _number(text)) is not None:
        return _wait_s(number, now)
    if clock := re.fullmatch(_CLOCK, text):
        hours, minutes, seconds = map(float, clock.groups())
        return 3600 * hours + 60 * minutes + seconds
    if re.fullmatch(_DURATION, text, re.IGNORECASE):
        parts = re.findall(_PART, text, re.IGNORECASE)
        return sum(_part_s(number, unit.lower()) for number, unit in parts)
    try:
        if re.fullmatch(_MOMENT, text):
            iso = re.sub(r"\.\d+|\s?(?:Z|UTC|GMT)$", "", text)
            moment = datetime.fromisoformat(iso)
        else:
            moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return _until(aware.timestamp(), now)


def demand_text(wait_s: float, longest_s: float) -> str:
    """A clause for messages: until when, how long, and whether that is longer than a run waits."""
    text = f"it demands a wait until {local_time(wait_s)} ({_length(wait_s)})"
    return f"{text}, longer than `patience={longest_s:g}`" if wait_s > longest_s else text


def local_time(wait_s: float) -> str:
    """The local time after a wait: ``14:05 CET``, with the date if it is on another day."""
    now = datetime.now(timezone.utc)
    try:
        moment = (now + timedelta(seconds=wait_s)).astimezone()
    except OverflowError:
        return "after the year 9999"
    is_today = moment.date() == now.astimezone().date()
    return f"{moment:%H:%M %Z}" if is_today else f"{moment:%Y-%m-%d %H:%M %Z}"


def _length(wait_s: float) -> str:
    """A duration to read: ``40 s``, ``20 min``, ``6 h 12 min``, ``3 days``."""
    if wait_s < 120:
        return f"{wait_s:.0f} s"
    if wait_s < 3600:
        return f"{wait_s / 60:.0f} min"
    hours, seconds = divmod(wait_s, 3600)
    return f"{hours:.0f} h {seconds // 60:.0f} min" if hours < 48 else f"{hours / 24:,.0f} days"


def _header(field: str) -> str:
    """The header with the meaning of a field."""
    name = field.lower().replace("_", "-").replace(" ", "-")
    if not name.startswith("retry"):
        return name
    return "retry-after-ms" if name.endswith("ms") else "retry-after"


def _part_s(number: str, unit: str) -> float:
    """The seconds of one part of a duration, such as ``6 minutes`` or ``an hour``."""
    unit_s = _UNITS_S["ms" if unit.startswith(("ms", "mil")) else unit[0]]
    return unit_s * (float(number) if number[0].isdigit() else 1.0)


def _wait_s(number: float, now: float) -> float | None:
    """The wait that a number means: seconds, or until a Unix time."""
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
