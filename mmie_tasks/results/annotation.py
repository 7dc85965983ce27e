"""What a table and a report show of a task in addition to its scores: the quality of its judge.

The annotations come from `mmie_tasks.quality.annotator`, which the command line passes in, so that
this folder does not depend on judges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from mmie_tasks.results.arguments import IntervalsOf
from mmie_tasks.results.render import Cell
from mmie_tasks.runs.run import Run, TaskRun


class JudgeNote(Protocol):
    """A judge of a task, with its grade; a dataclass whose fields are written to JSON."""

    @property
    def benchmark(self) -> str:
        """The title of the task's benchmark."""

    @property
    def judge(self) -> str:
        """The judge's model, or else its kind."""

    @property
    def text(self) -> str:
        """Judge and grade, or that the judge is ungraded."""

    @property
    def short_text(self) -> str:
        """The grade for a cell that names the judge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """The judges of one task of a run, empty if it is scored by rule; and its headline, corrected
    with people's scores, or None if people scored no answers of the benchmark.
    """

    judges: tuple[JudgeNote, ...] = ()
    corrected: Cell | None = None


class Annotator(Protocol):
    """Annotates the tasks of the runs that it was opened for."""

    @property
    def corrected_benchmarks(self) -> frozenset[str]:
        """The names of the benchmarks of which people have scored answers."""

    def annotation(self, task_run: TaskRun) -> Annotation:
        """The judges and the corrected headline of a task of a run."""

    @property
    def interval_note(self) -> str:
        """What the intervals of judged scores include."""


OpenAnnotator: TypeAlias = Callable[
    [Sequence[Run], Sequence[str], Mapping[str, str], IntervalsOf], Annotator
]
"""Opens the annotator of some runs, with people's scores from files, and judges' grades from the
cache folder that the environment names.

Raises `AnswersUnusable` if a file of people's scores cannot be read or is not for these runs, and
`SettingWrong` if intervals of corrected scores are requested without people's scores.
"""


def judge_lines(judges: Iterable[JudgeNote]) -> tuple[str, ...]:
    """A line for each judge and grade, with the titles of its benchmarks."""
    titles: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for judge in judges:
        titles[judge.text][judge.benchmark] = None
    return tuple(
        f"Judge of {', '.join(benchmarks)}: {text}." for text, benchmarks in titles.items()
    )
