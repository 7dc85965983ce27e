"""Days on which models are shut down, as of 2026-11.

A model that is not in the table gets no notice.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta

from mmie_tasks.judges.openai.model_names import without_prefix

WARN_DAYS = 60

# The provider's deprecations page, as of 2026-11: days of shutdown, and one successor for all. It
# names no day for the undated alias.
SUCCESSOR = "gpt-6-luna"
RETIREMENTS: Mapping[str, date] = {
    "gpt-4o-2024-05-13": date(2026, 10, 23),
    "gpt-4o-2024-08-06": date(2027, 1, 14),
    "gpt-4o-2024-11-20": date(2027, 1, 14),
    "gpt-5": date(2026, 12, 11),
    "gpt-5-mini": date(2026, 12, 11),
    "gpt-5-nano": date(2026, 12, 11),
}


def retirement_notice(model: str, today: date) -> str | None:
    """A notice if a model was shut down, or will be within `WARN_DAYS` days.

    >>> retirement_notice("gpt-4o-2024-11-20", date(2026, 12, 1))
    '`gpt-4o-2024-11-20` is shut down on 2027-01-14; its provider names `gpt-6-luna` instead'
    """
    day = RETIREMENTS.get(without_prefix(model))
    if day is None or today < day - timedelta(days=WARN_DAYS):
        return None
    verb = "is shut down" if today < day else "was shut down"
    return f"`{model}` {verb} on {day}; its provider names `{SUCCESSOR}` instead"
