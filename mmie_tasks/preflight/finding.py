"""A line of the report of ``doctor``."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.wording import WIDTH

_INDENT = " " * 9  # below the status


@dataclass(frozen=True, slots=True)
class Finding:
    """What was checked, the result, and what to do: only a problem has a hint."""

    subject: str
    message: str
    hint: str = ""

    @classmethod
    def of_error(cls, subject: str, error: MmieTasksError) -> Finding:
        """An error as a problem."""
        return cls(subject, error.message.rstrip("."), error.hint)

    @property
    def text(self) -> str:
        """``mmie: data: 11 samples``."""
        return f"{self.subject}: {self.message}"

    @property
    def lines(self) -> str:
        """The finding as it is printed. Lines of a hint stay as they are, unless too long."""
        status = "problem" if self.hint else "ok"
        lines = [f"{status:<9}{self.text}"]
        if self.hint:
            lines += [f"{_INDENT}{line}" for line in f"hint: {self.hint}".split("\n")]
        return "\n".join(map(_wrapped, lines))


def _wrapped(line: str) -> str:
    return textwrap.fill(
        line, WIDTH, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
    )


def checked(subject: str, check: Callable[[], str | None]) -> Iterator[Finding]:
    """The result of a check, if it has one, or the problem that it raises."""
    try:
        if result := check():
            yield Finding(subject, result.rstrip("."))
    except MmieTasksError as error:
        yield Finding.of_error(subject, error)
