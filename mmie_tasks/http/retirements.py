"""Days on which models are shut down or answered by another one, and the notice before a run.

An entry in a server's own list of models may have a ``shutdown_date``, which comes first. The table
holds what no server says. A model in neither gets no notice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone

_WARN_DAYS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """The end of a model at its provider."""

    day: date  # the first one without the model
    successor: str | None = None  # as the provider says; None if sources differ
    azure_day: date | None = None  # the first one without the model at Azure, if it is known
    is_rerouted: bool = False  # whether the successor answers requests for the model from `day` on
    source: str
    read: date  # when the source was read


_GPT_4O_SOURCES = "dev.to/max_bob (compared with `GET /v1/models`), codersera, bigcircle"
_GPT_4 = Retirement(
    day=date(2027, 1, 14),
    azure_day=date(2027, 4, 14),
    source=_GPT_4O_SOURCES,
    read=date(2026, 11, 26),
)
_GPT_4O = Retirement(
    day=_GPT_4.day,
    successor="gpt-6-luna",
    azure_day=_GPT_4.azure_day,
    source=f"{_GPT_4O_SOURCES}; successor: copies of OpenAI's page of deprecations",
    read=_GPT_4.read,
)
_GPT_5 = Retirement(
    day=date(2026, 12, 11),
    source="copies of OpenAI's page of deprecations, whose successors differ",
    read=date(2026, 11, 26),
)
_IMAGE = Retirement(
    day=date(2026, 12, 1),
    successor="gpt-image-2",
    source="importstatic, Fabric v1.4.534; successor: aiweekly.co",
    read=date(2026, 11, 27),
)
RETIREMENTS: Mapping[str, Retirement] = {
    **dict.fromkeys(("gpt-4o", "gpt-4o-2024-08-06", "gpt-4o-2024-11-20"), _GPT_4O),
    **dict.fromkeys(("gpt-4o-mini", "gpt-4.1", "gpt-4.1-mini"), _GPT_4),
    **dict.fromkeys(("gpt-5", "gpt-5-2025-08-07", "gpt-5-mini", "gpt-5-nano"), _GPT_5),
    "gemini-2.5-pro": Retirement(
        day=date(2026, 12, 1),
        successor="gemini-3.8-flash",
        is_rerouted=True,
        source="dev.to/aideprecations",
        read=date(2026, 11, 10),
    ),
    "gpt-image-1": Retirement(
        day=date(2026, 10, 23),
        source="importstatic, Fabric v1.4.534; two name different successors: weighmyprompt.com, "
        "unifically.com",
        read=date(2026, 11, 27),
    ),
    **dict.fromkeys(("gpt-image-1-mini", "gpt-image-1.5"), _IMAGE),
}
"""Name of each model, without a prefix, to its retirement."""


def retirement_notice(
    model: str, today: date, *, is_at_azure: bool = False, shutdown: date | None = None
) -> str | None:
    """A notice if a model was shut down or rerouted, or will be within `_WARN_DAYS` days.

    The prefix of a gateway or maker in its name is ignored. `shutdown`, the day that its server
    names, wins over the table.

    >>> retirement_notice("gpt-4o-2024-11-20", date(2026, 12, 1))
    '`gpt-4o-2024-11-20` is shut down on 2027-01-14; its provider names `gpt-6-luna` instead'
    >>> retirement_notice("google/gemini-2.5-pro", date(2026, 12, 1))
    '`google/gemini-2.5-pro` is answered by `gemini-3.8-flash` since 2026-12-01'
    >>> retirement_notice("m", date(2026, 12, 2), shutdown=date(2026, 12, 1))
    '`m` was shut down on 2026-12-01, as its server says'
    """
    listed = RETIREMENTS.get(model.rpartition("/")[2])
    day = shutdown
    if day is None and listed is not None:
        day = listed.azure_day if is_at_azure else listed.day
    if day is None or today < day - timedelta(days=_WARN_DAYS):
        return None
    successor = listed.successor if listed else None
    if listed is not None and listed.is_rerouted and shutdown is None:
        when = f"from {day} on" if today < day else f"since {day}"
        return f"`{model}` is answered by `{successor}` {when}"
    verb = "is shut down" if today < day else "was shut down"
    source = "" if shutdown is None else ", as its server says"
    instead = f"; its provider names `{successor}` instead" if successor else ""
    return f"`{model}` {verb} on {day}{source}{instead}"


def shutdown_day(value: object) -> date | None:
    """The day in a field ``shutdown_date``: an ISO date or time, or Unix seconds; None for others.

    >>> shutdown_day("2027-01-14"), shutdown_day(1799884800)
    (datetime.date(2027, 1, 14), datetime.date(2027, 1, 14))
    >>> shutdown_day("soon")
    """
    text = str(value).strip()
    with suppress(ValueError, OverflowError, OSError):
        if re.fullmatch(r"[1-9]\d{8,10}(?:\.\d+)?", text):
            return datetime.fromtimestamp(float(text), timezone.utc).date()
        if isinstance(value, str):
            return date.fromisoformat(text[:10])
    return None
