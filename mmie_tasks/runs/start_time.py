"""When a run began, in UTC: the text that is shown, and the same in ISO 8601."""

from __future__ import annotations

from datetime import datetime, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_DATE_FORMAT = "%Y%m%d_%H%M%S"  # in the names of the runner's logs
_MINUTES = "%Y-%m-%d %H:%M"
_UTC_MINUTES = f"{_MINUTES} UTC"


def utc_time(date: str, time_zone: object) -> str:
    """The runner's date in UTC; with the name of its zone where that cannot be converted.

    The runner writes local times, by default of Singapore (`get_datetime_str` of
    lmms_eval/utils.py), and notes the zone in the results file only.

    Args:
        date: As in the name of a log; other texts are returned unchanged.
        time_zone: Of the run's ``--timezone``; None if it was not logged.

    >>> utc_time("20261122_181949", "Asia/Singapore"), utc_time("20261122_181949", None)
    ('2026-11-22 10:19 UTC', '2026-11-22 18:19 (time zone not logged)')
    """
    try:
        local = datetime.strptime(date, _DATE_FORMAT)  # noqa: DTZ007 - the zone follows
    except ValueError:
        return date
    if not (isinstance(time_zone, str) and time_zone):
        return f"{local:{_MINUTES}} (time zone not logged)"
    try:
        utc = local.replace(tzinfo=ZoneInfo(time_zone)).astimezone(timezone.utc)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # unknown here
        return f"{local:{_MINUTES}} (time zone not known here)"
    return f"{utc:{_UTC_MINUTES}}"


def iso_time(started: str) -> str | None:
    """A text of `utc_time` in ISO 8601; None if it is not in UTC.

    >>> iso_time("2026-11-22 10:19 UTC")
    '2026-11-22T10:19:00+00:00'
    """
    try:
        utc = datetime.strptime(started, _UTC_MINUTES)  # noqa: DTZ007 - the zone follows
    except ValueError:
        return None
    return utc.replace(tzinfo=timezone.utc).isoformat()
