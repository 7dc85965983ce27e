"""When a run began, in UTC."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_DATE_FORMAT = "%Y%m%d_%H%M%S"  # in the names of the runner's logs
_MINUTES = "%Y-%m-%d %H:%M"


def start_text(date: str, time_zone: str) -> str:
    """The date for display: in UTC, or the local time if its zone is unknown.

    The runner writes local times into the names of logs, by default of Singapore
    (`get_datetime_str` of lmms_eval/utils.py), and the time zone only into the results file. A text
    that is not a date is returned unchanged.

    >>> start_text("20261122_181949", "Asia/Singapore"), start_text("20261122_181949", "")
    ('2026-11-22 10:19 UTC', '2026-11-22 18:19 (time zone not logged)')
    """
    if (local := _local_time(date)) is None:
        return date
    if time_zone:
        with suppress(ZoneInfoNotFoundError, ValueError, OSError):  # a zone that is unknown here
            zoned = local.replace(second=0, tzinfo=ZoneInfo(time_zone))
            return f"{zoned.astimezone(timezone.utc):{_MINUTES}} UTC"
    return f"{local:{_MINUTES}} (time zone {'not known here' if time_zone else 'not logged'})"


def _local_time(date: str) -> datetime | None:
    try:
        return datetime.strptime(date, _DATE_FORMAT)  # noqa: DTZ007 - its zone is elsewhere
    except ValueError:
        return None
