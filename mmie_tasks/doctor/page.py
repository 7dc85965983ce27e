"""The report: for people, aligned and no wider than 100 columns, or as JSON."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from mmie_tasks.doctor.findings import Finding

_WIDTH = 100


def page(findings: Sequence[Finding]) -> str:
    """One line a finding, its hint below it, and the count at the end."""
    subject_width = max((len(finding.subject) for finding in findings), default=0)
    lines = [line for finding in findings for line in _lines(finding, subject_width)]
    return "\n".join([*lines, "", _count(findings)])


def as_json(findings: Iterable[Finding]) -> str:
    """A JSON array of objects with ``status``, ``subject``, ``found`` and ``hint``."""
    return json.dumps([asdict(finding) for finding in findings], indent=1, ensure_ascii=False)


def _lines(finding: Finding, subject_width: int) -> list[str]:
    start = f"{finding.status:<9}{finding.subject:<{subject_width}}  "
    lines = _wrapped(finding.found, start, " " * len(start))
    if finding.hint:
        indent = " " * len(start)
        lines += _wrapped(finding.hint, f"{indent}hint: ", f"{indent}      ")
    return lines


def _wrapped(text: str, first: str, then: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _count(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.status for finding in findings)
    if not counts["problem"]:
        warnings = f" Warnings: {counts['warning']}." if counts["warning"] else ""
        return f"A run can begin.{warnings}"
    return f"Problems: {counts['problem']}. Warnings: {counts['warning']}. A run would fail."
