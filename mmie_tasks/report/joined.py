"""The samples of several runs, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mmie_tasks.review import READINGS, ReadingName, Reviewed, Reviewer
from mmie_tasks.runs.run import Run, TaskRun
from mmie_tasks.verdict import Scored, Verdict

Row: TypeAlias = tuple[Reviewed | None, ...]
"""One sample in each run; None where a run does not have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """One task of several runs.

    Attributes:
        task: Its name in lmms-eval.
        review: What the benchmark knows of its logs.
        runs: Every run of the report; None where it does not have the task.
        rows: Every sample, in the order of the first run, then those that only later runs have.
    """

    task: str
    review: Reviewer
    runs: tuple[TaskRun | None, ...]
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        """For people; with the task's name where the task is a part of the benchmark."""
        whole = all(run is None or run.room.name == self.task for run in self.runs)
        return self.review.title if whole else f"{self.review.title} ({self.task})"

    @property
    def present(self) -> Iterator[tuple[int, TaskRun]]:
        """The runs that have the task, with their place in the report."""
        return ((index, run) for index, run in enumerate(self.runs) if run is not None)

    @property
    def signatures(self) -> list[str]:
        """Every signature of every run."""
        return list(dict.fromkeys(s for _, run in self.present for s in run.signatures))


def join(runs: Sequence[Run]) -> list[Joined]:
    """The tasks of the runs, in the order of the runs."""
    names = dict.fromkeys(name for run in runs for name in run.tasks)
    return [_joined(name, [run.tasks.get(name) for run in runs]) for name in names]


def _joined(task: str, runs: Sequence[TaskRun | None]) -> Joined:
    samples = [{} if run is None else run.by_id for run in runs]
    ids = dict.fromkeys(name for each in samples for name in each)
    rows = tuple(tuple(each.get(name) for each in samples) for name in ids)
    review = next(run.review for run in runs if run is not None)
    return Joined(task=task, review=review, runs=tuple(runs), rows=rows)


def any_of(row: Row) -> Reviewed:
    """The sample as the first run that has it logged it."""
    return next(sample for sample in row if sample is not None)


def disputed(row: Row, full_marks: float) -> float:
    """How far runs or readings are apart, as a fraction of full marks; 0 to 1.

    Where one has points and another has none, it is 1.
    """
    verdicts = list(verdicts_of(row, READINGS))
    points = [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]
    if not points:
        return 0.0
    return (max(points) - min(points)) / full_marks if len(points) == len(verdicts) else 1.0


def worth_a_look(row: Row, full_marks: float) -> float:
    """Higher for the worst and the most disputed samples; 0 to 2."""
    points = [v.points if isinstance(v, Scored) else 0.0 for v in verdicts_of(row, READINGS)]
    return disputed(row, full_marks) + 1 - min(points) / full_marks


def verdicts_of(row: Row, readings: Sequence[ReadingName]) -> Iterator[Verdict]:
    """The verdicts on a sample in every run that has it."""
    return (s.verdict(reading) for s in row if s is not None for reading in readings)
