"""What the readers of this version say of a task's saved replies, beside what the log says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from mmie_tasks.review import READINGS, BadRecord, Line, ReadingName, Reviewed
from mmie_tasks.runs.lines import lines
from mmie_tasks.runs.run import TaskRun
from mmie_tasks.verdict import Unscored, Verdict, differ

NOT_HELD = "the log does not hold what it was read from"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A verdict that is another now, on the benchmark's own scale."""

    id: str
    reading: ReadingName
    before: Verdict
    after: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescored:
    """A task, read again.

    Attributes:
        task: As it was logged.
        samples: As they are now; those that cannot be read again are as they were.
        changes: In the order of the log.
        unread: Ids of samples that cannot be read again, to why.
    """

    task: TaskRun
    samples: tuple[Reviewed, ...]
    changes: tuple[Change, ...]
    unread: Mapping[str, str]

    @property
    def changed(self) -> Counter[ReadingName]:
        """How many verdicts changed in each reading."""
        return Counter(change.reading for change in self.changes)


def rescore(task: TaskRun) -> Rescored:
    """Read a task's log once more, and its replies with it.

    Raises:
        AnswersUnusable: The log cannot be read.
    """
    known = task.by_id
    after: dict[str, Reviewed] = {}
    unread: dict[str, str] = {}
    for numbered in lines(task.log):
        sample = sample_of(task, numbered.line)
        if sample is None or numbered.line is None or sample.id in after:
            continue
        verdicts, why_not = _reread(task, numbered.line)
        if verdicts is None:
            unread[sample.id] = why_not
            after[sample.id] = known[sample.id]
        else:
            after[sample.id] = _with(known[sample.id], verdicts)
    return Rescored(
        task=task,
        samples=tuple(after.values()),
        changes=tuple(
            change for name, sample in after.items() for change in _changes(known[name], sample)
        ),
        unread=unread,
    )


def sample_of(task: TaskRun, line: Line | None) -> Reviewed | None:
    """The sample of a line; None for a line that is cut off, or was never scored."""
    if line is None or ("bypass" in line and "coverage" not in line):
        return None
    return task.review.read(line)


def _reread(task: TaskRun, line: Line) -> tuple[Mapping[str, Verdict] | None, str]:
    """Both verdicts, or None and why not."""
    try:
        verdicts = task.review.reread(line)
    except BadRecord as error:
        return None, str(error)
    return verdicts, "" if verdicts else NOT_HELD


def _with(sample: Reviewed, verdicts: Mapping[str, Verdict]) -> Reviewed:
    """The sample with its new verdicts. Where one says what it said, it stays as it was logged."""
    official, robust = (
        verdicts[name] if is_changed(sample.verdict(name), verdicts[name]) else sample.verdict(name)
        for name in READINGS
    )
    return replace(sample, official=official, robust=robust)


def is_changed(before: Verdict, after: Verdict) -> bool:
    """Whether the points are others, or the reason why there are none."""
    if isinstance(before, Unscored) and isinstance(after, Unscored):
        return before.reason != after.reason
    return differ(before, after)


def _changes(before: Reviewed, after: Reviewed) -> list[Change]:
    return [
        Change(id=before.id, reading=name, before=before.verdict(name), after=after.verdict(name))
        for name in READINGS
        if is_changed(before.verdict(name), after.verdict(name))
    ]
