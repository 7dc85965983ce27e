"""Settings in environment variables."""

from __future__ import annotations

from collections.abc import Mapping

from mmie_tasks.core.errors import SettingWrong

COVERAGE_SETTING = "MMIE_TASKS_MIN_COVERAGE"

COVERAGE_FLOOR = 0.9
"""The default: no mean is reported below this fraction of scored samples."""


def coverage_floor(environment: Mapping[str, str]) -> float:
    """The fraction of scored samples below which no mean is reported, 0 to 1.

    Raises:
        SettingWrong: ``MMIE_TASKS_MIN_COVERAGE`` is not a number from 0 to 1.

    >>> coverage_floor({}), coverage_floor({"MMIE_TASKS_MIN_COVERAGE": "0.5"})
    (0.9, 0.5)
    """
    if not (setting := environment.get(COVERAGE_SETTING)):
        return COVERAGE_FLOOR
    try:
        floor = float(setting)
    except ValueError:
        floor = -1.0
    if not 0 <= floor <= 1:
        hint = f"`export {COVERAGE_SETTING}=0.5` reports the means of at least half of the samples"
        raise SettingWrong(
            f"`{COVERAGE_SETTING}` is {setting!r}, not a number from 0 to 1.", hint=hint
        )
    return floor


def choice_setting(
    environment: Mapping[str, str], variable: str, default: str, other: str, *, hint: str
) -> str:
    """The value of an environment variable with two valid values.

    Raises:
        SettingWrong: The value is neither.

    >>> choice_setting({}, "MMIE_TASKS_ROWS", "main", "all", hint="`export MMIE_TASKS_ROWS=all`")
    'main'
    """
    value = environment.get(variable) or default
    if value not in (default, other):
        raise SettingWrong(
            f"`{variable}` is {value!r}; valid are {default} and {other}.", hint=hint
        )
    return value


def is_first_process(environment: Mapping[str, str]) -> bool:
    """Whether this process is the first or only one of a run: the one that prints.

    Launchers such as torchrun set ``RANK``.

    >>> is_first_process({}), is_first_process({"RANK": "0"}), is_first_process({"RANK": "1"})
    (True, True, False)
    """
    return environment.get("RANK", "0") == "0"
