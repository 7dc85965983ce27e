"""Logged runs: the samples of each task, and what the runner saved with them."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias, get_args

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.core.verdict import Scored, Unscored, Verdict
from mmie_tasks.core.wording import counted, numbered_names
from mmie_tasks.record.log_files import HINT, RunLogs, SampleLog, find_runs, read_lines
from mmie_tasks.record.metrics import Scale
from mmie_tasks.record.record import BadRecord, is_scored
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.signature import AnswerForm, Signature
from mmie_tasks.runs.answerers import with_answerers
from mmie_tasks.runs.saved_results import read_saved_results
from mmie_tasks.runs.start_time import start_text

_FindBenchmark: TypeAlias = Callable[[str], Benchmark | None]
"""Returns the benchmark of a task, by the task's name; None for other tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """One task of a run.

    Attributes:
        samples: In the order of the log; ids are unique.
        notes: Remarks for readers of the scores: a line that is cut off, duplicate samples.
        stored: The scores in the results file next to the log, metric to value.
        limit: ``--limit`` of the run, from the results file.
        offset: ``--offset`` of the run, from the results file.
    """

    task: str
    benchmark: Benchmark
    log: Path
    samples: tuple[LoggedSample, ...]
    notes: tuple[str, ...] = ()
    stored: Mapping[str, float] = field(default_factory=dict)
    limit: float | None = None
    offset: float | None = None

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """The distinct signatures of the samples; normally one."""
        return tuple(dict.fromkeys(sample.signature for sample in self.samples))

    @property
    def judge_name(self) -> str:
        """The names of the judges, by `Signature.name`; empty for a benchmark scored by rule."""
        names = (signature.name for signature in self.signatures)
        return ", ".join(dict.fromkeys(filter(None, names)))

    @property
    def answer_form(self) -> AnswerForm:
        """How the answers were made; ``drawn`` if some images were drawn."""
        forms = {signature.answer_form for signature in self.signatures}
        return max(forms, key=get_args(AnswerForm).index, default="plain")

    @property
    def by_id(self) -> dict[str, LoggedSample]:
        """The samples by their ids."""
        return {sample.id: sample for sample in self.samples}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The logged tasks of one tested model, by name.

    Attributes:
        name: For display; unique among the runs that are opened together.
        date: The date of the newest log, as the runner wrote it.
        time_zone: The time zone of the date; empty if the run did not log it.
        notes: What was ignored, and why.
    """

    name: str
    folder: Path
    date: str
    tasks: Mapping[str, TaskRun]
    time_zone: str = ""
    notes: tuple[str, ...] = ()

    @property
    def started_text(self) -> str:
        """The start of the evaluation for display, from `start_text`."""
        return start_text(self.date, self.time_zone)


def open_runs(
    words: Iterable[str], find_benchmark: _FindBenchmark, tasks: Sequence[str] = ()
) -> list[Run]:
    """Open every run that the words name; each gets a unique name.

    Args:
        words: ``PATH`` or ``NAME=PATH``; one path may contain several runs.
        find_benchmark: Returns the benchmark of a task name.
        tasks: The tasks to read; by default, every task with a benchmark.

    Raises:
        AnswersUnusable: A run cannot be read, or has none of the tasks.
        SettingWrong: One name is given to several runs.
    """
    was_enabled = gc.isenabled()
    gc.disable()  # the cycle collector would scan all samples read so far again and again
    try:
        runs = [_open(logs, find_benchmark, tasks) for word in words for logs in find_runs(word)]
    finally:
        if was_enabled:
            gc.enable()
    return with_unique_names(runs)


def with_unique_names(runs: Sequence[Run]) -> list[Run]:
    """The runs; those of one name are told apart by their dates, or else by numbers."""
    dated = [f"{run.name} ({run.started_text})" for run in runs]
    plain = [run.name for run in runs]
    names = [
        with_date if plain.count(name) > 1 and dated.count(with_date) == 1 else name
        for name, with_date in zip(plain, dated, strict=True)
    ]
    names = numbered_names(names)
    return [replace(run, name=name) for run, name in zip(runs, names, strict=True)]


def _open(logs: RunLogs, find_benchmark: _FindBenchmark, tasks: Sequence[str]) -> Run:
    notes = [f"older logs of the same tasks, ignored: {logs.older}"] if logs.older else []
    opened: dict[str, TaskRun] = {}
    for log in logs.logs:
        if tasks and log.task not in tasks:
            continue
        benchmark = find_benchmark(log.task)
        if benchmark is None:
            notes.append(f"`{log.task}` is not a task of a registered benchmark, ignored")
        elif task := _read_task(log, benchmark):
            opened[log.task] = task
        else:
            notes.append(f"`{log.path.name}` has no scored samples (`--predict_only`?)")
    if not opened:
        requested = [f"none of {', '.join(tasks)}"] if tasks else []
        reason = "; ".join(requested + notes) or "no log of a task"
        raise AnswersUnusable(f"`{logs.folder}` has no readable task: {reason}.", hint=HINT)
    newest = max(logs.logs, key=lambda log: log.date)
    return Run(
        name=logs.name,
        folder=logs.folder,
        date=newest.date,
        tasks=opened,
        time_zone=read_saved_results(newest.path).time_zone,
        notes=tuple(notes),
    )


def _read_task(log: SampleLog, benchmark: Benchmark) -> TaskRun | None:
    """Read the samples of one log; None if no line was scored."""
    samples: dict[str, LoggedSample] = {}
    notes: list[str] = []
    repeated = off_scale = unscored = 0
    for numbered in read_lines(log.path):
        if numbered.line is None:
            notes.append(f"line {numbered.number}, the last, is cut off and was ignored")
            continue
        if not is_scored(numbered.line):
            unscored += 1
            continue
        try:
            logged = benchmark.read_line(numbered.line)
        except BadRecord as error:
            where = f"`{log.path}`, line {numbered.number}"
            raise AnswersUnusable(f"{where}: {error}.", hint=HINT) from error
        on_scale = without_off_scale_points(logged, benchmark.scale)
        off_scale += on_scale is not logged
        sample = with_answerers(on_scale)
        first = samples.setdefault(sample.id, sample)
        repeated += first is not sample
        if first != sample:
            raise AnswersUnusable(
                f"`{log.path}` has two different results of the sample {sample.id}.",
                hint="the runner appends to an existing log: keep one run per file",
            )
    if not samples:
        return None
    for count, remark in (
        (repeated, "logged twice with equal results: counted once"),
        (off_scale, "with points outside the scale: counted as unscored"),
        (unscored, "never scored (`--predict_only`): ignored"),
    ):
        notes += [f"{counted(count, 'sample')} {remark}"] if count else []
    saved = read_saved_results(log.path)
    return TaskRun(
        task=log.task,
        benchmark=benchmark,
        log=log.path,
        samples=tuple(samples.values()),
        notes=tuple(notes),
        stored=saved.scores.get(log.task, {}),
        limit=saved.limit,
        offset=saved.offset,
    )


def without_off_scale_points(sample: LoggedSample, scale: Scale) -> LoggedSample:
    """The sample; a verdict with points that are not finite or not on the scale becomes unscored.

    An open-ended scale has no limits: the official script does not clamp.
    """

    def checked(verdict: Verdict) -> Verdict:
        if not isinstance(verdict, Scored):
            return verdict
        outside = not (scale.open_ended or 0 <= verdict.points <= scale.full_marks)
        if outside or not math.isfinite(verdict.points):
            return Unscored("off_scale", "the log has points that are not on the scale")
        return verdict

    official, robust = checked(sample.official), checked(sample.robust)
    if (official, robust) == (sample.official, sample.robust):
        return sample
    return replace(sample, official=official, robust=robust)
