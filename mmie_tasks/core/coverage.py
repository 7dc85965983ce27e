"""The setting of the floor of coverage: the least share of scored samples that has a mean."""

from __future__ import annotations

from collections.abc import Mapping

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.verdict import COVERAGE_FLOOR

SETTING = "MMIE_TASKS_MIN_COVERAGE"


def coverage_floor(environment: Mapping[str, str], default: float = COVERAGE_FLOOR) -> float:
    """The fraction of scored samples below which no mean is reported, 0 to 1.

    Args:
        environment: Read: ``MMIE_TASKS_MIN_COVERAGE``.
        default: The value if it is not set.

    Raises:
        SettingWrong: It is not a number from 0 to 1.

    >>> coverage_floor({}), coverage_floor({"MMIE_TASKS_MIN_COVERAGE": "0.5"})
    (0.9, 0.5)
    """
    if not (setting := environment.get(SETTING)):
        return default
    try:
        floor = float(setting)
    except ValueError:
        floor = -1.0
    if not 0 <= floor <= 1:
        hint = f"`export {SETTING}=0.5` reports the means of at least half of the samples"
        raise SettingWrong(f"`{SETTING}` is {setting!r}, not a number from 0 to 1.", hint=hint)
    return floor


def floor_signature(environment: Mapping[str, str]) -> str:
    """The floor as a part of a signature; empty if it is the default.

    Raises:
        SettingWrong: See `coverage_floor`.
    """
    floor = coverage_floor(environment)
    return "" if floor == COVERAGE_FLOOR else f"|min_coverage:{floor:g}"
