"""Logs warnings with a hint, and tracebacks without secrets; tells which process prints."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loguru import logger

if TYPE_CHECKING:
    from loguru import Record

_EXTRA = "mmie_tasks_warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedWarning:
    """A warning, and what to do about it; the hint may be empty."""

    message: str
    hint: str = ""


def warn(message: str, *, hint: str) -> None:
    """Log ``MESSAGE hint: HINT`` as a warning."""
    warning = LoggedWarning(message=message, hint=hint)
    bound = logger.opt(depth=1).bind(**{_EXTRA: warning})  # depth: the line names the caller
    bound.warning(f"{message} hint: {hint}")


def warning_of(record: Record) -> LoggedWarning:
    """The warning in a record of loguru."""
    warning = record["extra"].get(_EXTRA)
    if isinstance(warning, LoggedWarning):
        return warning
    return LoggedWarning(message=record["message"].strip())


def traceback_text(error: BaseException) -> str:
    """The traceback of an error, without the values of variables.

    loguru prints these values with an exception, and one of them may be an API key.
    """
    return "".join(traceback.format_exception(error)).rstrip()


def is_first_process(environment: Mapping[str, str]) -> bool:
    """Whether this process is the first or only one of a run: the one that prints.

    Launchers such as torchrun set ``RANK``.

    >>> is_first_process({}), is_first_process({"RANK": "0"}), is_first_process({"RANK": "1"})
    (True, True, False)
    """
    return environment.get("RANK", "0") == "0"
