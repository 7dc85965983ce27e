"""What a table and a report show of a task beside the scores of its run: how good its judge is.

The annotations come from `mmie_tasks.quality.annotator`, which the command line hands over: this
folder knows no judge.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, get_args

from mmie_tasks.results.render import Cell
from mmie_tasks.runs.run import Run, TaskRun

IntervalsOf: TypeAlias = Literal["larger", "run"]
"""What the interval of a corrected score is for: the benchmark, of which the run's samples are a
draw, as every other interval is; or the run's samples alone."""


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
    """The judges of one task of a run, none where it is scored by rule; and its headline, corrected
    with people's scores, or None if people scored no answers of the benchmark.
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


OpenAnnotator: TypeAlias = Callable[
    [Sequence[Run], Sequence[str], Mapping[str, str], IntervalsOf], Annotator
]
"""Opens the annotator of some runs: with people's scores from files, and with the grades of judges
from the cache folder that an environment names.

Raises `AnswersUnusable` if a file of people's scores cannot be read, or is not of these runs, and
`SettingWrong` if the intervals are to be those of corrected scores, and there are none.
"""


def add_people_options(parser: argparse.ArgumentParser) -> None:
    """``--people`` and ``--population``, for `OpenAnnotator`."""
    help_text = (
        "CSV files of people's scores, see `calibrate`: add the corrected scores; default: none"
    )
    parser.add_argument("--people", nargs="+", default=[], metavar="FILE", help=help_text)
    help_text = (
        "what the intervals of corrected scores are for: the benchmark, as all other intervals; or "
        "the run's samples alone, which shows corrected scores only; default: %(default)s"
    )
    parser.add_argument(
        "--population", choices=get_args(IntervalsOf), default="larger", help=help_text
    )


def judge_lines(judges: Iterable[JudgeNote]) -> tuple[str, ...]:
    """A line for each judge and grade, with the titles of its benchmarks."""
    titles: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for judge in judges:
        titles[judge.text][judge.benchmark] = None
    return tuple(
        f"Judge of {', '.join(benchmarks)}: {text}." for text, benchmarks in titles.items()
    )
