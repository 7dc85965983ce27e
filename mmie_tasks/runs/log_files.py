"""Finds and reads the sample logs of runs: ``PATH`` or ``NAME=PATH`` to `Run` objects.

lmms-eval writes ``<output_path>/<model>/<date>_samples_<task>.jsonl`` and, beside it,
``<date>_results.json``. A log of 20,000 samples has about 100 MB, so lines are read one by one.
"""

from __future__ import annotations

import gc
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.verdict import Scored, Unscored, Verdict
from mmie_tasks.runs.benchmark import (
    SCORE_KINDS,
    BadRecord,
    Benchmark,
    Line,
    LoggedSample,
    Scale,
    ScoreKind,
)
from mmie_tasks.runs.log_line import number

FindBenchmark: TypeAlias = Callable[[str], Benchmark | None]
"""Finds the benchmark of a task name; None if the task belongs to none."""

HINT = "pass the folder given as `--output_path`, of a run with `--log_samples`"

_DATE_FORMAT = "%Y%m%d_%H%M%S"
_MINUTES = "%Y-%m-%d %H:%M"
_MAX_ZONE = 40  # characters of a zone's name that is not known here
_LOG_NAME = re.compile(r"(?P<date>.*?)_?samples_(?P<task>.+)\.jsonl")
_RESULTS_NAME = re.compile(r"(?P<date>.*?)_?results\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleLog:
    """A sample log, identified by its file name.

    Attributes:
        path: The file.
        date: As the runner wrote it; later dates sort later.
        task: The task's name in lmms-eval.
    """

    path: Path
    date: str
    task: str

    @property
    def results(self) -> Path:
        """The results file of the same evaluation."""
        return self.path.with_name(f"{self.date}_results.json" if self.date else "results.json")


@dataclass(frozen=True, slots=True)
class RunLogs:
    """The logs of one run: the newest log of each task.

    Attributes:
        name: The name given on the command line, or that of the tested model's folder.
        folder: The folder of the logs.
        logs: Sorted by task.
        older: Number of older logs of the same tasks, which are ignored.
    """

    name: str
    folder: Path
    logs: tuple[SampleLog, ...]
    older: int = 0


def find_runs(word: str) -> list[RunLogs]:
    """Find the runs that a command-line word names: ``PATH`` or ``NAME=PATH``.

    A path is a folder that contains runs at any depth, a results file, or one sample log.

    Raises:
        AnswersUnusable: The path does not exist, or contains no sample log.
        SettingWrong: The name stands for several runs.
    """
    try:
        named = split_name(word)
        name, path = named.name, named.path
        if not path.exists():
            raise AnswersUnusable(f"`{path}` does not exist.", hint=HINT)
        runs = []
        for folder, logs in sorted(_by_folder(path).items()):
            newest = {log.task: log for log in sorted(logs, key=lambda log: (log.task, log.date))}
            run_name = name or folder.resolve().name  # `.` has no name
            runs.append(RunLogs(run_name, folder, tuple(newest.values()), len(logs) - len(newest)))
    except (OSError, RuntimeError) as error:  # no permission, name too long, unknown `~user`
        reason = error.strerror if isinstance(error, OSError) else error
        raise AnswersUnusable(f"`{word[:200]}` cannot be opened: {reason}.", hint=HINT) from error
    if not runs:
        raise AnswersUnusable(f"`{path}` contains no log of samples.", hint=HINT)
    if name and len(runs) > 1:
        folders = ", ".join(f"`{run.folder}`" for run in runs)
        raise SettingWrong(f"`{name}` names {len(runs)} runs: {folders}.", hint="name one of them")
    return runs


@dataclass(frozen=True, slots=True)
class NamedPath:
    """A path, and its name on the command line; empty if it has none."""

    name: str
    path: Path


def split_name(word: str) -> NamedPath:
    """The name and path of a command-line word: ``PATH`` or ``NAME=PATH``.

    Raises:
        AnswersUnusable: The path is empty.
    """
    name, equals, path = word.partition("=")
    if not equals or Path(word).expanduser().exists():
        return NamedPath("", Path(word).expanduser())
    if not path:
        raise AnswersUnusable(f"`{word}` has no path after `=`.", hint=HINT)
    return NamedPath(name.strip(), Path(path).expanduser())


def numbered_names(names: Sequence[str]) -> list[str]:
    """The names, those that occur several times with a number.

    >>> numbered_names(["a", "b", "a"])
    ['a (1)', 'b', 'a (2)']
    """
    seen = Counter[str]()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(f"{name} ({seen[name]})" if names.count(name) > 1 else name)
    return unique


def _by_folder(path: Path) -> dict[Path, list[SampleLog]]:
    match = _RESULTS_NAME.fullmatch(path.name) if path.is_file() else None
    if match:
        files = sorted(path.parent.glob("*samples_*.jsonl"))
    else:
        files = sorted(path.rglob("*samples_*.jsonl")) if path.is_dir() else [path]
    by_folder: dict[Path, list[SampleLog]] = defaultdict(list)
    for file in files:
        log = parse_log_name(file)
        if log is not None and (match is None or log.date == match["date"]):
            by_folder[file.parent].append(log)
    return dict(by_folder)


def parse_log_name(path: Path) -> SampleLog | None:
    """The date and task in a log's file name; None if the file is not named like a sample log.

    >>> parse_log_name(Path("out/m/20261121_101500_samples_mmie_sa.jsonl")).task
    'mmie_sa'
    """
    match = _LOG_NAME.fullmatch(path.name)
    return match and SampleLog(path=path, date=match["date"], task=match["task"])


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """A line of a log and its number, from 1; `line` is None if the last line was cut off."""

    number: int
    line: Line | None


def read_lines(log: Path) -> Iterator[NumberedLine]:
    """Read every line of a log that is not blank.

    Raises:
        AnswersUnusable: The log cannot be opened, or a line is not a JSON object; names file and
            line. A last line without line break is reported as cut off instead.
    """
    try:
        with log.open("rb") as file:
            for line_number, text in enumerate(file, 1):
                if text.strip():
                    yield NumberedLine(line_number, _parse_line(log, line_number, text))
    except OSError as error:
        message = f"`{log}` cannot be read: {error.strerror}."
        raise AnswersUnusable(message, hint="check the path and its permissions") from error


def _parse_line(log: Path, line_number: int, text: bytes) -> Line | None:
    cause: Exception | None = None
    try:
        value: object = json.loads(text.decode())
        if isinstance(value, dict):
            return value
        reason = f"it holds {type(value).__name__}, not an object"
    except (ValueError, RecursionError) as error:
        if not text.endswith(b"\n"):
            return None
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        cause = error
    message = f"`{log}`, line {line_number}, is not a logged sample: {reason}."
    raise AnswersUnusable(message, hint="remove the line, or run the evaluation again") from cause


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """One task of a run.

    Attributes:
        task: Its name in lmms-eval.
        benchmark: The benchmark it belongs to.
        log: The file that was read.
        samples: In the order of the log; ids are unique.
        notes: Remarks for readers of the scores: lines cut off, duplicate samples.
        stored: The scores in the results file beside the log, metric to value; empty if there is
            no such file.
        limit: ``--limit`` of the run, from the same file; None without.
    """

    task: str
    benchmark: Benchmark
    log: Path
    samples: tuple[LoggedSample, ...]
    notes: tuple[str, ...] = ()
    stored: Mapping[str, float] = field(default_factory=dict)
    limit: float | None = None

    @property
    def signatures(self) -> tuple[str, ...]:
        """The distinct signatures of the samples, in the order of the log; normally one."""
        return tuple(dict.fromkeys(sample.signature for sample in self.samples))

    @property
    def by_id(self) -> dict[str, LoggedSample]:
        """The samples by their ids."""
        return {sample.id: sample for sample in self.samples}

    @property
    def score_kinds(self) -> tuple[ScoreKind, ...]:
        """The kinds of its scores: official and robust, and expected if a sample has an expected
        score.
        """
        has_expected = any(isinstance(sample.expected, Scored) for sample in self.samples)
        return (*SCORE_KINDS, "expected") if has_expected else SCORE_KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The logged tasks of one tested model.

    Attributes:
        name: For display; unique among the runs that are opened together.
        folder: The folder of its logs.
        date: Of its newest log, as the runner wrote it.
        started: When the evaluation of its newest log began, for display: see `utc_time`.
        tasks: Name to task, sorted by name.
        notes: What was ignored, and why.
    """

    name: str
    folder: Path
    date: str
    tasks: Mapping[str, TaskRun]
    notes: tuple[str, ...] = ()
    started: str = ""


def open_runs(
    words: Iterable[str], find_benchmark: FindBenchmark, tasks: Sequence[str] = ()
) -> list[Run]:
    """Open every run that the words name, and give runs of the same name distinct names.

    Args:
        words: ``PATH`` or ``NAME=PATH``; one path may contain several runs.
        find_benchmark: Finds the benchmark of a task name.
        tasks: The tasks to read; every task with a benchmark if none is named.

    Raises:
        AnswersUnusable: A run cannot be read, or has none of the tasks.
        SettingWrong: A name stands for several runs.
    """
    was_enabled = gc.isenabled()
    gc.disable()  # the cycle collector would scan all samples read so far again and again
    try:
        runs = [_open(logs, find_benchmark, tasks) for word in words for logs in find_runs(word)]
    finally:
        if was_enabled:
            gc.enable()
    names = numbered_names([run.name for run in runs])
    return [replace(run, name=name) for run, name in zip(runs, names, strict=True)]


def _open(logs: RunLogs, find_benchmark: FindBenchmark, tasks: Sequence[str]) -> Run:
    notes = [f"older logs of the same tasks, ignored: {logs.older}"] if logs.older else []
    opened: dict[str, TaskRun] = {}
    for log in logs.logs:
        if tasks and log.task not in tasks:
            continue
        benchmark = find_benchmark(log.task)
        if benchmark is None:
            notes.append(f"`{log.task}` is not a task of a registered benchmark, ignored")
        elif task := read_task(log, benchmark):
            opened[log.task] = task
        else:
            notes.append(f"`{log.path.name}` has no scored samples (`--predict_only`?)")
    if not opened:
        requested = [f"none of {', '.join(tasks)}"] if tasks else []
        reason = "; ".join(requested + notes) or "no log of a task"
        raise AnswersUnusable(f"`{logs.folder}` has no readable task: {reason}.", hint=HINT)
    newest = max(logs.logs, key=lambda log: log.date)
    arguments = _object(_object(_results_file(newest), "config"), "resolved_cli_args")
    return Run(
        name=logs.name,
        folder=logs.folder,
        date=newest.date,
        tasks=opened,
        notes=tuple(notes),
        started=utc_time(newest.date, arguments.get("timezone")),
    )


def utc_time(date: str, time_zone: object) -> str:
    """The runner's date in UTC; with the name of its zone where that cannot be converted.

    The runner writes local times, by default of Singapore (`get_datetime_str` of
    lmms_eval/utils.py), and notes the zone in the results file only.

    Args:
        date: As in the name of a log; other texts are returned unchanged.
        time_zone: Of the run's ``--timezone``; None if it was not logged.

    >>> utc_time("20261122_181949", "Asia/Singapore"), utc_time("20261122_181949", None)
    ('2026-11-22 10:19 UTC', '2026-11-22 18:19 (time zone not logged)')
    """
    try:
        local = datetime.strptime(date, _DATE_FORMAT)  # noqa: DTZ007 - the zone follows
    except ValueError:
        return date
    if not (isinstance(time_zone, str) and time_zone):
        return f"{local:{_MINUTES}} (time zone not logged)"
    try:
        return (
            f"{local.replace(tzinfo=ZoneInfo(time_zone)).astimezone(timezone.utc):{_MINUTES}} UTC"
        )
    except (
        ZoneInfoNotFoundError,
        ValueError,
        OSError,
        OverflowError,
    ):  # no such zone, or no database of zones on this machine
        return f"{local:{_MINUTES}} ({time_zone[:_MAX_ZONE]})"


def read_task(log: SampleLog, benchmark: Benchmark) -> TaskRun | None:
    """Read the samples of one log; None if no line was scored.

    Raises:
        AnswersUnusable: A line cannot be read, or two lines give one id different results.
    """
    samples: dict[str, LoggedSample] = {}
    notes: list[str] = []
    repeated = off_scale = unscored = 0
    for numbered in read_lines(log.path):
        if numbered.line is None:
            notes.append(f"line {numbered.number}, the last, is cut off and was ignored")
        elif "bypass" in numbered.line and "coverage" not in numbered.line:
            unscored += 1
        else:
            try:
                logged = benchmark.read_line(numbered.line)
            except BadRecord as error:
                raise AnswersUnusable(
                    f"`{log.path}`, line {numbered.number}: {error}.", hint=HINT
                ) from error
            sample = without_off_scale_points(logged, benchmark.scale)
            off_scale += sample is not logged
            repeated += _is_repeated(samples, sample, log.path)
    if not samples:
        return None
    for count, remark in (
        (repeated, "logged twice with equal results: counted once"),
        (off_scale, "with points outside the scale: counted as unscored"),
        (unscored, "never scored (`--predict_only`): ignored"),
    ):
        notes += [f"{count} {'sample' if count == 1 else 'samples'} {remark}"] if count else []
    saved = _results_file(log)
    return TaskRun(
        task=log.task,
        benchmark=benchmark,
        log=log.path,
        samples=tuple(samples.values()),
        notes=tuple(notes),
        stored=_stored_scores(saved, log.task),
        limit=number(_object(saved, "config").get("limit")),
    )


def sample_lines(task_run: TaskRun) -> Iterator[tuple[LoggedSample, Line]]:
    """Each scored sample as its line has it, and the line; of an id the first line.

    Raises:
        AnswersUnusable: The log cannot be read.
        BadRecord: It has changed since the task was read.
    """
    seen: set[str] = set()
    for numbered in read_lines(task_run.log):
        line = numbered.line
        if line is None or ("bypass" in line and "coverage" not in line):
            continue  # cut off, or never scored
        sample = task_run.benchmark.read_line(line)
        if sample.id not in seen:
            seen.add(sample.id)
            yield sample, line


def _is_repeated(samples: dict[str, LoggedSample], sample: LoggedSample, log: Path) -> bool:
    """Add the sample; whether an equal sample with this id was there before. Another result of it
    is an error.
    """
    first = samples.setdefault(sample.id, sample)
    if first is sample:
        return False
    if first != sample:
        raise AnswersUnusable(
            f"`{log}` has two different results of the sample {sample.id}.",
            hint="the runner appends to an existing log: keep one run per file",
        )
    return True


def without_off_scale_points(sample: LoggedSample, scale: Scale) -> LoggedSample:
    """The sample, its verdicts unscored where points are not finite or not on a whole scale.

    Points that are not whole numbers are only checked for being finite: some official scripts do
    not clamp.
    """

    def checked(verdict: Verdict) -> Verdict:
        if not isinstance(verdict, Scored):
            return verdict
        outside = scale.whole and not 0 <= verdict.points <= scale.full_marks
        if outside or not math.isfinite(verdict.points):
            return Unscored("off_scale", "the log has points that are not on the scale")
        return verdict

    official, robust, expected = map(checked, (sample.official, sample.robust, sample.expected))
    if official is sample.official and robust is sample.robust and expected is sample.expected:
        return sample
    return replace(sample, official=official, robust=robust, expected=expected)


def _results_file(log: SampleLog) -> Mapping[str, object]:
    """What the runner saved beside the log; empty if its results file is unreadable."""
    try:
        saved: object = json.loads(log.results.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return saved if isinstance(saved, dict) else {}


def _object(parent: Mapping[str, object], name: str) -> Mapping[str, object]:
    """A field that should be an object; empty if it is not."""
    value = parent.get(name)
    return value if isinstance(value, dict) else {}


def _stored_scores(results_file: Mapping[str, object], task: str) -> Mapping[str, float]:
    """The scores that the runner saved for a task, metric to value."""
    return {
        name.removesuffix(",none"): score
        for name, value in _object(_object(results_file, "results"), task).items()
        if "_stderr" not in name and (score := number(value)) is not None
    }
