"""What the page must know of every sample at once, to filter and sort: columns, not details."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mmie_tasks.report.joined import Joined, Row, any_of, disputed
from mmie_tasks.report.plain import Json, finite, plain
from mmie_tasks.review import READINGS, ReadingName, Reviewed
from mmie_tasks.verdict import Scored, Unscored

FIRST = 100
"""Characters of a question that are shown in a list."""


def columns(task: Joined) -> Json:
    """The columns of a task's samples, as the page reads them."""
    full = task.review.scale.full_marks
    return {
        "ids": [plain(any_of(row).id) for row in task.rows],
        "first": [_first(row) for row in task.rows],
        "points": {reading: _points(task, reading) for reading in READINGS},
        "reasons": {reading: _reasons(task, reading) for reading in READINGS},
        "missing": [[row[run] is None for row in task.rows] for run in _runs(task)],
        "groups": _groups(task),
        "disputed": [finite(disputed(row, full)) for row in task.rows],
    }


def _runs(task: Joined) -> range:
    return range(len(task.runs))


def _first(row: Row) -> str:
    """The beginning of the question in one line."""
    question = next((s.question for s in row if s is not None and s.question), ())
    words: list[str] = []
    for segment in question:
        words += segment.text[: 4 * FIRST].split()
        if sum(map(len, words)) >= FIRST:
            break
    line = " ".join(words)
    return plain(line if len(line) <= FIRST else f"{line[: FIRST - 1]}…")


def _points(task: Joined, reading: ReadingName) -> list[list[float | None]]:
    return [[_given(row[run], reading) for row in task.rows] for run in _runs(task)]


def _given(sample: Reviewed | None, reading: ReadingName) -> float | None:
    verdict = None if sample is None else sample.verdict(reading)
    return finite(verdict.points) if isinstance(verdict, Scored) else None


def _reasons(task: Joined, reading: ReadingName) -> list[list[str]]:
    return [[_why_not(row[run], reading) for row in task.rows] for run in _runs(task)]


def _why_not(sample: Reviewed | None, reading: ReadingName) -> str:
    verdict = None if sample is None else sample.verdict(reading)
    return plain(verdict.reason) if isinstance(verdict, Unscored) else ""


def _groups(task: Joined) -> Json:
    first = [any_of(row) for row in task.rows]
    kinds = dict.fromkeys(kind for sample in first for kind in sample.groups)
    return {plain(kind): _group(task, kind, first) for kind in kinds}


def _group(task: Joined, kind: str, samples: Sequence[Reviewed]) -> Json:
    found = {name for sample in samples for name in sample.names(kind)}
    known = [name for name in _in_order(task, kind) if name in found]
    names = [*known, *sorted(found.difference(known))]
    place = {name: index for index, name in enumerate(names)}
    return {
        "names": [plain(name) for name in names],
        "of": [[place[name] for name in sample.names(kind)] for sample in samples],
    }


def _in_order(task: Joined, kind: str) -> Iterator[str]:
    """The names of a kind's groups in the order in which the benchmark has its numbers."""
    by_kind = [number for number in task.review.numbers if number.by == kind]
    singles = [number for number in by_kind if len(number.weights) == 1]
    yield from dict.fromkeys(name for number in singles for name in number.weights)
