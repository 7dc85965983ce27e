"""The summary at the end of a run: notes in the log, details in the results file, and headlines.

The runner's table has the rows that people quote. Everything else about a task (counts, intervals,
groups) is saved in the results file under ``mmie_tasks``. A run from the command line prints one
line per task at the very end.
"""

from __future__ import annotations

import atexit
import functools
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loguru import logger
from tabulate import tabulate

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.core.command import as_called
from mmie_tasks.record.record import RECORD_KEY, BadRecord, Line, Record
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.sample_line import sample_line
from mmie_tasks.runs.answerers import with_answerers
from mmie_tasks.runs.details import details_of
from mmie_tasks.runs.headline import Headline, headline_of
from mmie_tasks.runs.log_notes import notes_of
from mmie_tasks.runs.run import TaskRun, without_off_scale_points

KEY = "mmie_tasks"
"""The key of the details in the results file."""

_COLUMNS = ("task", "model", "official [95 %]", "robust", "scored", "judge", "unlike the paper")


@dataclass(slots=True)
class RunSummary:
    """Collects the summaries of an evaluation's tasks."""

    _headlines: dict[str, Headline] = field(default_factory=dict)
    _details: dict[str, dict[str, float]] = field(default_factory=dict)
    _notes: dict[str, list[str]] = field(default_factory=dict)

    @property
    def scores(self) -> dict[str, float | None]:
        """Task to its official score in percent."""
        return {
            task: None if line.official is None else line.official.percent
            for task, line in self._headlines.items()
        }

    def add(
        self,
        task: str,
        benchmark: Benchmark,
        logged: Sequence[Mapping[str, Any]],
        part: Mapping[str, float],
        lines: list[dict[str, Any]] | None = None,
    ) -> None:
        """Summarise the records of a task, log its notes, and add columns to its lines.

        `part` is the run's ``limit`` and ``offset``, if it has them. If the code of another
        package's benchmark fails, only summary and columns are lost.
        """
        try:
            records = [benchmark.read_record({RECORD_KEY: record}) for record in logged]
            samples = tuple(
                with_answerers(without_off_scale_points(_sample(record, line), benchmark.scale))
                for record, line in zip(records, lines or [{}] * len(records), strict=True)
            )
            run = TaskRun(
                task=task,
                benchmark=benchmark,
                log=Path(),
                samples=samples,
                limit=part.get("limit"),
                offset=part.get("offset"),
            )
            headline, details = headline_of(run), details_of(run, records)
            notes = list(notes_of(run, records))
            why = [note for note in notes if note.startswith(("unscored: ", "without official"))]
            self._notes[task] = [*why, *map(str, run.signatures)]
            if lines:
                scale = benchmark.scale
                pairs = zip(lines, records, strict=True)
                lines[:] = [sample_line(line, record, scale) for line, record in pairs]
        except Exception as error:  # noqa: BLE001 - a plugin: its summary is lost, not the run
            reason = f"{type(error).__name__}: {error}"
            logger.warning(f"{benchmark.title}: no summary of `{task}`: {reason}.")
            return
        self._headlines[task], self._details[task] = headline, details
        logger.info("\n  ".join([f"{benchmark.title} ({task})", *notes]))

    def add_details(self, results: dict[str, Any]) -> None:
        """Add the details to the runner's results, under `KEY`, and remove from its table what has
        no value.
        """
        if self._details:
            results[KEY] = self._details.copy()
        for task in self._details:
            _remove_empty(results["results"][task])

    def block(self, name: str, report: str, *, has_notes: bool = False) -> str:
        """One line per task, and a report (see `report_command`); empty without a task of ours.

        `name` is that of the run. With notes, reasons of unscored samples and signatures follow.
        """
        if not self._headlines:
            return ""
        lines = [(task, name, *line.cells[1:]) for task, line in self._headlines.items()]
        table = tabulate(lines, _COLUMNS, tablefmt="plain", disable_numparse=True)
        title = "mmie-tasks: scores in percent; the intervals hold the sampling error only"
        notes = [f"{task}: {note}" for task in self._headlines for note in self._notes[task]]
        below = ["\n".join(notes)] if has_notes else []
        return "\n\n".join([f"\n{title}", table, *below, report])


def _sample(record: Record, line: Line) -> LoggedSample:
    try:
        return record.sample(line)
    except BadRecord:  # the answer is not a text
        return record.sample({})


def _remove_empty(rows: dict[str, Any]) -> None:
    """Remove means without a value, with their standard errors, and standard errors of ``N/A``.

    The runner computes a standard error whatever the mean is (``evaluator_utils.py``).

    >>> rows = {"a,none": None, "a_stderr_clt,none": 1.0, "b,none": 2.0, "b_stderr,none": "N/A"}
    >>> _remove_empty(rows)
    >>> rows
    {'b,none': 2.0}
    """
    empty = {name for name, value in rows.items() if value is None or value != value}  # NaN
    for name, value in list(rows.items()):
        metric, _, filter_key = name.partition(",")
        mean = f"{metric.partition('_stderr')[0]},{filter_key}"
        if value == "N/A" or mean in empty:
            del rows[name]


def report_command(output_path: str | None, *, has_samples: bool) -> str:
    """The command that makes a report of a run, or a hint if the run has no log of samples."""
    if output_path and has_samples:
        return f"{as_called('mmie-tasks report')} {shlex.quote(output_path)} -o report.html"
    command = as_called("mmie-tasks report")
    return (
        f"hint: with `--output_path DIR --log_samples`, `{command} DIR -o report.html` shows every "
        "sample"
    )


def print_at_exit(text: str) -> None:
    """Print a text when the process ends, which is after the runner's table."""
    if text:
        atexit.register(functools.partial(print, text, flush=True))
