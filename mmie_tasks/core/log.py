"""Logs warnings with a hint, and tracebacks without secrets."""

from __future__ import annotations

import traceback
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
