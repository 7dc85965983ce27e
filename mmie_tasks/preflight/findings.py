"""The findings of ``doctor``, and its report as text."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.hub.asset import Check

_wrap = partial(textwrap.wrap, width=100, break_long_words=False, break_on_hyphens=False)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. A run fails if there is a problem."""

    status: Literal["ok", "problem"]
    subject: str  # what was checked: `mmie: data`
    message: str  # the result, one sentence without a full stop
    hint: str = ""  # what to do, if anything


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The findings of ``doctor``."""

    findings: tuple[Finding, ...]

    @property
    def text(self) -> str:
        """Findings with their hints, and a summary, in at most 100 columns."""
        subject_width = max((len(finding.subject) for finding in self.findings), default=0)
        lines: list[str] = []
        for finding in self.findings:
            start = f"{finding.status:<9}{finding.subject:<{subject_width}}  "
            indent = " " * len(start)
            for line in finding.message.splitlines():
                lines += _wrap(line, initial_indent=start, subsequent_indent=indent)
                start = indent
            if finding.hint:
                start, indent = f"{indent}hint: ", f"{indent}      "
                lines += _wrap(finding.hint, initial_indent=start, subsequent_indent=indent)
        summary = f"Problems: {self._problems}. A run would fail."
        return "\n".join([*lines, "", summary if self._problems else "A run can begin."])

    @property
    def status(self) -> int:
        """The exit status: 1 if there is a problem, otherwise 0."""
        return int(self._problems > 0)

    @property
    def _problems(self) -> int:
        return sum(finding.status == "problem" for finding in self.findings)


def problem_from(subject: str, error: MmieTasksError) -> Finding:
    """An error as a problem."""
    return Finding("problem", subject, error.message.rstrip("."), error.hint)


def or_problem(subject: str, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """The findings of a check; a `MmieTasksError` ends them with a problem.

    >>> from mmie_tasks.core.errors import DataMissing
    >>> def check():
    ...     yield Finding("ok", "a", "is here")
    ...     raise DataMissing("No folder `x`.", hint="`mkdir x`")
    >>> [finding.message for finding in or_problem("data", check)]
    ['is here', 'No folder `x`']
    """
    try:
        yield from check()
    except MmieTasksError as error:
        yield problem_from(subject, error)


def run_check(check: Check) -> Iterator[Finding]:
    """The result of a check."""

    def result() -> Iterator[Finding]:
        if message := check.describe().rstrip("."):
            yield Finding("ok", check.subject, message)

    yield from or_problem(check.subject, result)
