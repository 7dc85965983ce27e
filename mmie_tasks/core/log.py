"""Logs warnings with a hint, and tracebacks without secrets; tells which process prints."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping

from loguru import logger


def warn(message: str, *, hint: str) -> None:
    """Log ``MESSAGE hint: HINT`` as a warning."""
    logger.opt(depth=1).warning(f"{message} hint: {hint}")  # depth: the line names the caller


def plain_logs(level: str) -> None:
    """Log to stderr from this level, without times and lines of code: for commands of ours."""
    logger.remove()
    logger.add(sys.stderr, level=level, format="{message}")


def quiet_libraries() -> None:
    """Log warnings only, and no progress of `datasets`, if it is not imported yet."""
    plain_logs("WARNING")
    os.environ["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"


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
