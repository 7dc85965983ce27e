"""What a table and a report show of a task in addition to its scores: people's corrections.

The annotations come from `mmie_tasks.quality.annotator`, which the command line passes in, so that
this folder does not depend on judges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from mmie_tasks.results.arguments import IntervalsOf
from mmie_tasks.results.render import Cell
from mmie_tasks.runs.run import Run, TaskRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """The headline of one task of a run, corrected with people's scores, or None if people scored
    no answers of the benchmark.
    """

    corrected: Cell | None = None


class Annotator(Protocol):
    """Annotates the tasks of the runs that it was opened for."""

    @property
    def corrected_benchmarks(self) -> frozenset[str]:
        """The names of the benchmarks of which people have scored answers."""

    def annotation(self, task_run: TaskRun) -> Annotation:
        """The corrected headline of a task of a run."""

    @property
    def interval_note(self) -> str:
        """What the intervals of judged scores include."""


OpenAnnotator: TypeAlias = Callable[[Sequence[Run], Sequence[str], IntervalsOf], Annotator]
"""Opens the annotator of some runs, with people's scores from files.

Raises `AnswersUnusable` if a file of people's scores cannot be read or is not for these runs, and
`SettingWrong` if intervals of corrected scores are requested without people's scores.
"""
