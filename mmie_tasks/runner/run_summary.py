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
from itertools import chain
from typing import Any

from loguru import logger
from tabulate import tabulate

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.core.command import as_called
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.core.wording import counted
from mmie_tasks.record.record import RECORD_KEY, Record
from mmie_tasks.results.run import TaskRun, as_counted, in_order
from mmie_tasks.results.summary import (
    COLUMNS,
    differing_notes,
    last_line,
    notes_of,
    numbers_of,
    unscored_notes,
)

# Reasons of unscored samples that the judge's next reply may remove.
_BY_THE_JUDGE = frozenset(
    ("unavailable", "refused", "budget", "empty_reply", "cut_off", "unparsed", "off_scale")
)

_MANY = 0.5  # of the samples: then the judge writes in a form that the official reader misreads

KEY = "mmie_tasks"
"""The key of the details in the results file."""


@dataclass(slots=True)
class RunSummary:
    """Collects the summaries of an evaluation's tasks."""

    _runs: dict[str, TaskRun] = field(default_factory=dict)
    _details: dict[str, dict[str, float]] = field(default_factory=dict)
    _warnings: dict[str, list[str]] = field(default_factory=dict)  # below the scores, by task
    _notes: dict[str, list[str]] = field(default_factory=dict)  # the same, of `score` only

    @property
    def scores(self) -> dict[str, float | None]:
        """Task to its official score in percent."""
        headlines = {task: run.headline() for task, run in self._runs.items()}
        return {task: None if one is None else one.percent for task, one in headlines.items()}

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
            scale = benchmark.scale
            records = [Record.of_line({RECORD_KEY: record}) for record in logged]
            run = TaskRun(
                task=task,
                benchmark=benchmark,
                records=tuple(as_counted(record, scale) for record in records),
                limit=part.get("limit"),
                offset=part.get("offset"),
            )
            details, notes = numbers_of(run), list(notes_of(run))
            last_line(run, "")
            self._warnings[task] = [*unscored_notes(run), *differing_notes(run, _MANY)]
            self._notes[task] = [*benchmark.notes(run.records), *map(str, run.signatures)]
            if lines:
                pairs = zip(lines, records, strict=True)
                lines[:] = [record.line(line, scale.full_marks) for line, record in pairs]
        except Exception as error:  # noqa: BLE001 - a plugin: its summary is lost, not the run
            reason = f"{type(error).__name__}: {error}"
            logger.warning(f"{benchmark.title}: no summary of `{task}`: {reason}.")
            return
        self._runs[task], self._details[task] = run, details
        logger.info("\n  ".join([f"{benchmark.title} ({task})", *notes]))

    def add_details(self, results: dict[str, Any]) -> None:
        """Add the details to the runner's results, under `KEY`, and remove from its table what has
        no value.
        """
        if self._details:
            results[KEY] = self._details.copy()
        for task in self._details:
            _remove_empty(results["results"][task])

    def block(
        self,
        name: str,
        report: str,
        tasks: object = None,
        *,
        folder: str = "RUN",
        has_notes: bool = False,
    ) -> str:
        """One line per task, why samples are unscored, a report (see `report_command`), and how a
        judge is asked again; empty without a task of ours.

        `name` and `folder` are those of the run; `tasks` are those of its command, which give the
        order. With notes, those of the benchmarks and the signatures are above the report.
        """
        if not self._runs:
            return ""
        lines = [last_line(self._runs[task], name) for task in in_order(self._runs, tasks)]
        table = tabulate(lines, COLUMNS, tablefmt="plain", disable_numparse=True)
        title = "mmie-tasks: scores in percent; the intervals hold the sampling error only"
        shown = [
            f"{task}: {note}"
            for task in in_order(self._runs, tasks)
            for note in (*self._warnings[task], *(self._notes[task] if has_notes else ()))
        ]
        text = "\n\n".join(filter(None, (f"\n{title}", table, "\n".join(shown), report)))
        judged = [run.records for run in self._runs.values() if run.benchmark.judge is not None]
        if failed := sum(map(_lacks_verdict, chain(*judged))):
            again = as_called(f"mmie-tasks rejudge {shlex.quote(folder)} --failed")
            samples = counted(failed, "sample")
            text += f"\n\nthe judge gave {samples} no points; `{again}` asks again about these only"
        return text


def _lacks_verdict(record: Record) -> bool:
    """Whether a sample has no official score because the judge gave none that can be read."""
    return isinstance(record.official, Unscored) and record.official.reason in _BY_THE_JUDGE


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
