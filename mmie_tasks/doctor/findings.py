"""What a check found, and how an error of ours becomes a finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from loguru import logger

from mmie_tasks.errors import MmieTasksError

Status = Literal["ok", "warning", "problem"]

GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report.

    Attributes:
        status: A run works, works with something to know, or does not work.
        subject: What was looked at.
        found: What was found, in a sentence without its full stop.
        hint: What to do; empty where nothing is to be done.
    """

    status: Status
    subject: str
    found: str
    hint: str = ""


def ok(subject: str, found: str) -> Finding:
    """Nothing is to be done."""
    return Finding(status="ok", subject=subject, found=found)


def warning(subject: str, found: str, hint: str = "") -> Finding:
    """A run works, and this should be known."""
    return Finding(status="warning", subject=subject, found=found, hint=hint)


def problem(subject: str, found: str, hint: str) -> Finding:
    """A run does not work."""
    return Finding(status="problem", subject=subject, found=found, hint=hint)


def problem_of(subject: str, error: MmieTasksError) -> Finding:
    """The problem that an error tells of.

    >>> from mmie_tasks.errors import DataMissing
    >>> problem_of("data", DataMissing("No folder `x`.", hint="`mkdir x`")).hint
    '`mkdir x`'
    """
    found, _, hint = str(error).partition("\n\nhint: ")
    return problem(subject, found.rstrip("."), hint)


def looked(subject: str, look: Callable[[], str]) -> Iterator[Finding]:
    """What a look finds: its words, a problem where it raises, and what it warned of.

    Args:
        subject: What is looked at.
        look: Gives the words for a good end; raises a `MmieTasksError` otherwise.
    """
    warned: list[str] = []
    sink = logger.add(lambda line: warned.append(str(line).strip()), level="WARNING", format=_plain)
    try:
        finding = ok(subject, look().rstrip("."))
    except MmieTasksError as error:
        finding = problem_of(subject, error)
    finally:
        with suppress(ValueError):  # the runner takes all sinks away when it is imported
            logger.remove(sink)
    yield finding
    for line in dict.fromkeys(warned):
        found, _, hint = line.partition(" hint: ")
        yield warning(subject, found.rstrip("."), hint)


def _plain(_record: object) -> str:
    return "{message}"


def gib(size_bytes: float) -> str:
    """A size in words.

    >>> gib(3 * 2**30), gib(2**20), gib(8204)
    ('3.0 GiB', '1.0 MiB', '8.0 KiB')
    """
    if size_bytes >= GIB:
        return f"{size_bytes / GIB:.1f} GiB"
    small = 0 < size_bytes < 2**16
    return f"{size_bytes / 2**10:.1f} KiB" if small else f"{size_bytes / 2**20:.1f} MiB"
