"""Calls of a benchmark's functions, which may be code of another package."""

from __future__ import annotations

import sys
from collections.abc import Callable
from traceback import extract_tb
from typing import TypeVar

from mmie_tasks.core.errors import MmieTasksError

_T = TypeVar("_T")


def attempt(function: Callable[..., _T], subject: str, *arguments: object) -> _T | None:
    """Call one of our functions; returns None with a warning if a benchmark's code in it fails.

    Our own errors and file errors are raised.
    """
    try:
        return function(*arguments)
    except (MmieTasksError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - a benchmark may be code of another package
        frame = extract_tb(error.__traceback__)[-1]
        sys.stderr.write(
            f"warning: {subject}: `{frame.name}` in {frame.filename}, line {frame.lineno}, "
            f"failed with {type(error).__name__}: {printable(str(error))}\n"
        )
        return None


def printable(text: str) -> str:
    """Replace characters that control a terminal: logs hold untrusted text."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)
