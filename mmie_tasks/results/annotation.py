"""What a table and a report show of a task beside the scores of its run: how good its judge is.

The annotations come from `mmie_tasks.quality`, which this folder knows by name only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mmie_tasks.core.options import import_factory
from mmie_tasks.results.render import Cell
from mmie_tasks.runs.run import Run, TaskRun

_ANNOTATOR = "mmie_tasks.quality.annotator:open_annotator"


class JudgeNote(Protocol):
    """A judge of a task, with its grades; a dataclass, whose fields are written to JSON."""

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
    """What is known of the judges of one task of a run.

    Attributes:
        judges: With their grades; none for a benchmark that is scored by rule.
        corrected: The headline, corrected with people's scores, and on how many samples people
            scored the answer; None if people scored no answers of the benchmark.
    """

    judges: tuple[JudgeNote, ...] = ()
    corrected: Cell | None = None


class Annotator(Protocol):
    """Annotates the tasks of the runs that it was opened for."""

    @property
    def corrected_benchmarks(self) -> frozenset[str]:
        """The names of the benchmarks that people have scored answers of."""

    def annotation(self, task_run: TaskRun) -> Annotation:
        """What is known of the judges of a task of a run."""

    @property
    def interval_note(self) -> str:
        """What the intervals of judged scores hold."""


def open_annotator(
    runs: Sequence[Run], people: Sequence[str], environment: Mapping[str, str]
) -> Annotator:
    """The annotator of some runs.

    Args:
        runs: To be annotated.
        people: Files of people's scores.
        environment: Names the cache folder with the grades of judges.

    Raises:
        AnswersUnusable: A file of people's scores cannot be read, or is not of these runs.
    """
    annotator: Annotator = import_factory(_ANNOTATOR)(runs, people, environment)
    return annotator


def judge_lines(judges: Iterable[JudgeNote]) -> tuple[str, ...]:
    """A line for each judge and grade, with the titles of its benchmarks."""
    titles: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for judge in judges:
        titles[judge.text][judge.benchmark] = None
    return tuple(
        f"Judge of {', '.join(benchmarks)}: {text}." for text, benchmarks in titles.items()
    )
