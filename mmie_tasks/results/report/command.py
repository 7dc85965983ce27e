"""The command ``mmie-tasks report``."""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeAlias

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.verdict import Scored, Verdict
from mmie_tasks.results.report.page import Json, cut, finite
from mmie_tasks.runs.benchmark import SCORE_KINDS, Benchmark, LoggedSample, ScoreKind
from mmie_tasks.runs.log_files import Run, TaskRun

_MOST_NOTES = 3


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Obey ``mmie-tasks report ARGUMENTS``: write the report, and say where.

    Raises:
        MmieTasksError: A run cannot be read, or the report cannot be written.
    """
    del environment  # nothing in it matters to a report
    from mmie_tasks.results.commands import open_runs
    from mmie_tasks.results.report.page import render
    from mmie_tasks.results.report.payload import Settings, payload

    asked = _parser().parse_args(arguments)
    target = _target(asked.output)
    runs = open_runs(asked.runs, [name for name in asked.tasks.split(",") if name])
    settings = Settings(
        title=asked.title or f"Results of {', '.join(run.name for run in runs)}",
        made=f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
        samples_with_thumbnails=0 if asked.no_thumbnails else asked.thumbnails,
    )
    _write(target, render(payload(runs, settings)))
    return "\n".join([_in_words(target, runs), *_notes(runs)])


def _parser() -> argparse.ArgumentParser:
    from mmie_tasks.results.report.details import SAMPLES_WITH_THUMBNAILS

    parser = argparse.ArgumentParser(
        prog="mmie-tasks report",
        description="One HTML file of what runs saved, with every sample; it opens offline.",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="a folder that `--output_path` named, a results file or a sample log; or NAME=PATH",
    )
    parser.add_argument(
        *("-o", "--output"), metavar="FILE", default="report.html", help="report.html if not given"
    )
    parser.add_argument("--tasks", metavar="A,B", default="", help="only these tasks")
    parser.add_argument("--title", metavar="TEXT", default="", help="of the page")
    pictures = parser.add_mutually_exclusive_group()
    pictures.add_argument(
        "--thumbnails",
        metavar="N",
        type=_count,
        default=SAMPLES_WITH_THUMBNAILS,
        help="show the images of at most N samples of a task, the worst and most disputed first, "
        "as far as there is room; %(default)s if not given",
    )
    pictures.add_argument("--no_thumbnails", action="store_true", help="show no images")
    return parser


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def _target(named: str) -> Path:
    """The file to write: one that ends like a page, so that no log is written over by mistake."""
    target = Path(named).expanduser()
    if target.suffix.lower() not in (".html", ".htm") or target.is_dir():
        raise SettingWrong(
            f"The report cannot be written to `{named}`: it is a page.",
            hint="name a file that ends in .html: `-o report.html`",
        )
    return target


def _write(target: Path, page: str) -> None:
    from mmie_tasks.core.files import atomic_write

    try:
        with atomic_write(target) as part:
            part.write_text(page, encoding="utf-8")
    except OSError as error:
        raise SettingWrong(
            f"The report cannot be written to `{target}`: {error.strerror}.",
            hint="name another file with `-o`",
        ) from error


def _in_words(target: Path, runs: Sequence[Run]) -> str:
    from mmie_tasks.core.files import readable_size
    from mmie_tasks.results.report.page import counted

    tasks = {task for run in runs for task in run.tasks}
    samples = sum(len(task.samples) for run in runs for task in run.tasks.values())
    size = readable_size(target.stat().st_size)
    found = (
        f"{counted(len(runs), 'run')}, {counted(len(tasks), 'task')}, {counted(samples, 'sample')}"
    )
    return f"{target}: {size}; {found}"


def _notes(runs: Sequence[Run]) -> list[str]:
    """The first notes on the runs; all are in the report."""
    notes = [f"{run.name}: {note}" for run in runs for note in run.notes]
    notes += [
        f"{run.name}, {task.task}: {note}"
        for run in runs
        for task in run.tasks.values()
        for note in task.notes
    ]
    more = ["and more notes, in the report"]
    return [*notes[:_MOST_NOTES], *(more if len(notes) > _MOST_NOTES else [])]


# The samples of several runs, side by side.

Row: TypeAlias = tuple[LoggedSample | None, ...]
"""One sample in each run; None where a run does not have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """One task of several runs.

    Attributes:
        task: Its name in lmms-eval.
        benchmark: What the benchmark knows of its logs.
        runs: Every run of the report; None where it does not have the task.
        rows: Every sample, in the order of the first run, then those that only later runs have.
    """

    task: str
    benchmark: Benchmark
    runs: tuple[TaskRun | None, ...]
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        """For people; with the task's name where the task is a part of the benchmark."""
        whole = all(run is None or run.benchmark.name == self.task for run in self.runs)
        return self.benchmark.title if whole else f"{self.benchmark.title} ({self.task})"

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
    benchmark = next(run.benchmark for run in runs if run is not None)
    return Joined(task=task, benchmark=benchmark, runs=tuple(runs), rows=rows)


def any_of(row: Row) -> LoggedSample:
    """The sample as the first run that has it logged it."""
    return next(sample for sample in row if sample is not None)


def disputed(row: Row, full_marks: float) -> float:
    """How far runs or readings are apart, as a fraction of full marks; 0 to 1.

    Where one has points and another has none, it is 1.
    """
    verdicts = list(verdicts_of(row, SCORE_KINDS))
    points = [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]
    if not points:
        return 0.0
    return (max(points) - min(points)) / full_marks if len(points) == len(verdicts) else 1.0


def worth_a_look(row: Row, full_marks: float) -> float:
    """Higher for the worst and the most disputed samples; 0 to 2."""
    points = [v.points if isinstance(v, Scored) else 0.0 for v in verdicts_of(row, SCORE_KINDS)]
    return disputed(row, full_marks) + 1 - min(points) / full_marks


def verdicts_of(row: Row, readings: Sequence[ScoreKind]) -> Iterator[Verdict]:
    """The verdicts on a sample in every run that has it."""
    return (s.verdict(reading) for s in row if s is not None for reading in readings)


# What the judge's replies of a run took: tokens and money.

_NAME = 100  # characters of a model's name


def spend(task: Joined) -> list[list[object]]:
    """Of each run with replies: its place, and what they took when they were new."""
    return [
        [index, _of(run)]
        for index, run in task.present
        if any(sample.replies for sample in run.samples)
    ]


def _of(run: TaskRun) -> Json:
    replies = [reply for sample in run.samples for reply in sample.replies]
    costs = [reply.usage.cost_usd for reply in replies]
    known = [cost for cost in costs if cost is not None and math.isfinite(cost)]
    models = Counter(cut(reply.model, _NAME) for reply in replies)
    return {
        "replies": len(replies),
        "remembered": sum(reply.cached for reply in replies),
        "models": dict(models.most_common()),
        "input_tokens": sum(reply.usage.input_tokens for reply in replies),
        "output_tokens": sum(reply.usage.output_tokens for reply in replies),
        "cost_usd": finite(math.fsum(known)) if len(known) == len(costs) else None,
    }
