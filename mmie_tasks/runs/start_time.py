"""When a run began, in UTC."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_DATE_FORMAT = "%Y%m%d_%H%M%S"  # in the names of the runner's logs
_MINUTES = "%Y-%m-%d %H:%M"


def utc_time(date: str, time_zone: str) -> datetime | None:
    """The runner's date in UTC, to the minute; None if it is not a date or its zone is unknown.

    The runner writes local times into the names of logs, by default of Singapore
    (`get_datetime_str` of lmms_eval/utils.py), and the time zone only into the results file.

    >>> utc_time("20261122_181949", "Asia/Singapore").isoformat()
    '2026-11-22T10:19:00+00:00'
    """
    local = _local_time(date)
    if local is None or not time_zone:
        return None
    with suppress(ZoneInfoNotFoundError, ValueError, OSError):  # a zone that is unknown here
        return local.replace(second=0, tzinfo=ZoneInfo(time_zone)).astimezone(timezone.utc)
    return None


def start_text(date: str, time_zone: str) -> str:
    """The date for display: in UTC, or the local time if its zone is unknown.

    A text that is not a date is returned unchanged.

    >>> start_text("20261122_181949", "Asia/Singapore"), start_text("20261122_181949", "")
    ('2026-11-22 10:19 UTC', '2026-11-22 18:19 (time zone not logged)')
    """
    if (utc := utc_time(date, time_zone)) is not None:
        return f"{utc:{_MINUTES}} UTC"
    if (local := _local_time(date)) is None:
        return date
    return f"{local:{_MINUTES}} (time zone {'not known here' if time_zone else 'not logged'})"


def _local_time(date: str) -> datetime | None:
    try:
        return datetime.strptime(date, _DATE_FORMAT)  # noqa: DTZ007 - its zone is elsewhere
    except ValueError:
        return None
