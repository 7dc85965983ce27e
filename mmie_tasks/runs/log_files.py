"""From words of the command line to runs that can be looked at."""

from __future__ import annotations

import gc
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.verdict import Scored, Unscored, Verdict
from mmie_tasks.runs.benchmark import BadRecord, Benchmark, Line, LoggedSample, Scale
from mmie_tasks.runs.samples import number

# Which files belong to a run: the logs that lmms-eval wrote below its ``--output_path``.
#
# ``<output_path>/<model>/<date>_samples_<task>.jsonl``, and ``<date>_results.json`` beside it.

_LOG = re.compile(r"(?P<date>.*?)_?samples_(?P<task>.+)\.jsonl")
_RESULTS = re.compile(r"(?P<date>.*?)_?results\.json")
FindBenchmark: TypeAlias = Callable[[str], Benchmark | None]
"""Finds the benchmark of a task name; None if the task belongs to none."""

HINT = "name the folder that `--output_path` named, of a run with `--log_samples`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A sample log, by its name.

    Attributes:
        path: The file.
        date: As the runner wrote it; later ones sort later.
        task: The task's name in lmms-eval.
    """

    path: Path
    date: str
    task: str

    @property
    def results(self) -> Path:
        """The results file of the same evaluation."""
        return self.path.with_name(f"{self.date}_results.json" if self.date else "results.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The logs of one run: of each task the newest.

    Attributes:
        name: What the user calls it, or the tested model's folder.
        folder: Where the logs are.
        logs: By task, in alphabetical order.
        older: How many logs of the same tasks are older and were left alone.
    """

    name: str
    folder: Path
    logs: tuple[Log, ...]
    older: int = 0


def find(word: str) -> list[Found]:
    """The runs that a word of the command line names: ``PATH``, or ``NAME=PATH``.

    A path is a folder that holds runs at any depth, a results file, or one sample log.

    Raises:
        AnswersUnusable: There is nothing, or no log of samples.
    """
    try:
        name, path = _split(word)
        if not path.exists():
            raise AnswersUnusable(f"There is no `{path}`.", hint=HINT)
        found = [_newest(folder, logs) for folder, logs in sorted(_by_folder(path).items())]
    except (OSError, RuntimeError) as error:  # no right to look, too long a name, no such `~user`
        raise AnswersUnusable(f"`{word[:200]}` cannot be looked at: {error}.", hint=HINT) from error
    if not found:
        raise AnswersUnusable(f"`{path}` holds no log of samples.", hint=HINT)
    if name and len(found) > 1:
        listed = ", ".join(f"`{each.folder}`" for each in found)
        raise SettingWrong(f"`{name}` names {len(found)} runs: {listed}.", hint="name one of them")
    return [Found(name=name or f.name, folder=f.folder, logs=f.logs, older=f.older) for f in found]


def _split(word: str) -> tuple[str, Path]:
    name, equals, path = word.partition("=")
    if not equals or Path(word).expanduser().exists():
        return "", Path(word).expanduser()
    if not path:
        raise AnswersUnusable(f"`{word}` has no path behind `=`.", hint=HINT)
    return name.strip(), Path(path).expanduser()


def _by_folder(path: Path) -> dict[Path, list[Log]]:
    files = sorted(path.rglob("*samples_*.jsonl")) if path.is_dir() else [path]
    logs: list[Log | None]
    if path.is_file() and (match := _RESULTS.fullmatch(path.name)):
        beside = [log_of(each) for each in sorted(path.parent.glob("*samples_*.jsonl"))]
        logs = [log for log in beside if log and log.date == match["date"]]
    else:
        logs = [log_of(each) for each in files]
    found: dict[Path, list[Log]] = defaultdict(list)
    for log in logs:
        if log is not None:
            found[log.path.parent].append(log)
    return dict(found)


def log_of(path: Path) -> Log | None:
    """A file's date and task by its name; None where it is not named like a sample log.

    >>> log_of(Path("out/m/20261121_101500_samples_mmie_sa.jsonl")).task
    'mmie_sa'
    """
    match = _LOG.fullmatch(path.name)
    return match and Log(path=path, date=match["date"], task=match["task"])


def _newest(folder: Path, logs: Sequence[Log]) -> Found:
    newest: dict[str, Log] = {}
    for log in sorted(logs, key=lambda each: (each.task, each.date)):
        newest[log.task] = log
    chosen = tuple(newest.values())
    name = folder.resolve().name  # of `.`, too
    return Found(name=name, folder=folder, logs=chosen, older=len(logs) - len(chosen))


# The lines of a sample log, one at a time: a log of 20,000 samples is a hundred megabytes.


@dataclass(frozen=True, slots=True)
class Numbered:
    """A line, and where it stands; `line` is None for a last line that was cut off."""

    number: int
    line: Line | None


def lines(log: Path) -> Iterator[Numbered]:
    """Every line of a log that is not blank.

    Raises:
        AnswersUnusable: The log cannot be opened, or a line is no JSON object and not merely the
            last one, cut off; names file and line.
    """
    try:
        with log.open("rb") as file:
            for number, text in enumerate(file, 1):
                if text.strip():
                    yield Numbered(number, _line(log, number, text))
    except OSError as error:
        message = f"Cannot read `{log}`: {error.strerror}."
        raise AnswersUnusable(message, hint="check the path and its permissions") from error


def _line(log: Path, number: int, text: bytes) -> Line | None:
    try:
        value: object = json.loads(text.decode())
    except (ValueError, RecursionError) as error:
        if not text.endswith(b"\n"):
            return None
        deep = isinstance(error, RecursionError)
        raise _broken(log, number, "it is nested too deeply" if deep else str(error)) from error
    if not isinstance(value, dict):
        raise _broken(log, number, f"it holds {type(value).__name__}, not an object")
    return value


def _broken(log: Path, number: int, found: str) -> AnswersUnusable:
    message = f"`{log}`, line {number}, is no sample of a log: {found}."
    return AnswersUnusable(message, hint="take the line out, or run the evaluation again")


# A run: what one tested model left of one or more tasks.


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRun:
    """One task of a run.

    Attributes:
        task: Its name in lmms-eval.
        benchmark: The benchmark it belongs to.
        log: The file that was read.
        samples: In the order of the log; ids are unique.
        notes: What a reader of the numbers should know: lines cut off, samples that stood twice.
        stored: The numbers in the results file beside the log, metric to value; empty where there
            is no such file.
    """

    task: str
    benchmark: Benchmark
    log: Path
    samples: tuple[LoggedSample, ...]
    notes: tuple[str, ...] = ()
    stored: Mapping[str, float] = field(default_factory=dict)

    @property
    def signatures(self) -> tuple[str, ...]:
        """Every signature that a sample has, in the order of the log; more than one is unusual."""
        return tuple(dict.fromkeys(sample.signature for sample in self.samples))

    @property
    def by_id(self) -> dict[str, LoggedSample]:
        """The samples by their ids."""
        return {sample.id: sample for sample in self.samples}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one tested model left.

    Attributes:
        name: For people; unique among the runs that are looked at together.
        folder: Where its files are.
        date: As the runner wrote it, of its newest log.
        tasks: Name to task, in alphabetical order.
        notes: What was found and left alone.
    """

    name: str
    folder: Path
    date: str
    tasks: Mapping[str, TaskRun]
    notes: tuple[str, ...] = ()


def open_runs(
    words: Iterable[str], find_benchmark: FindBenchmark, tasks: Sequence[str] = ()
) -> list[Run]:
    """Every run that the words name, with names that differ.

    Args:
        words: ``PATH`` or ``NAME=PATH`` each; a path may hold several runs.
        find_benchmark: Finds the benchmark of a task name.
        tasks: The tasks to read; all of the found benchmarks' if none is named.

    Raises:
        AnswersUnusable: A run cannot be read, or has none of the tasks.
    """
    with _nothing_collected():
        runs = [_opened(found, find_benchmark, tasks) for word in words for found in find(word)]
    times, seen = Counter(run.name for run in runs), Counter[str]()
    unique = []
    for run in runs:
        seen[run.name] += 1
        again = times[run.name] > 1
        unique.append(replace(run, name=f"{run.name} ({seen[run.name]})") if again else run)
    return unique


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Without the collector of cycles, which would look again and again at all that was read."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def open_run(word: str, find_benchmark: FindBenchmark, tasks: Sequence[str] = ()) -> Run:
    """The one run that a word names.

    Raises:
        AnswersUnusable: It cannot be read, or has none of the tasks.
        SettingWrong: The word names several runs.
    """
    runs = open_runs([word], find_benchmark, tasks)
    if len(runs) > 1:
        listed = ", ".join(f"`{run.folder}`" for run in runs)
        raise SettingWrong(f"`{word}` holds {len(runs)} runs: {listed}.", hint="name one of them")
    return runs[0]


def _opened(found: Found, find_benchmark: FindBenchmark, tasks: Sequence[str]) -> Run:
    notes = [f"older logs of the same tasks, left alone: {found.older}"] if found.older else []
    opened: dict[str, TaskRun] = {}
    for log in found.logs:
        if tasks and log.task not in tasks:
            continue
        benchmark = find_benchmark(log.task)
        if benchmark is None:
            notes.append(f"`{log.task}` is no task of ours and was left out")
        elif task := read_task(log, benchmark):
            opened[log.task] = task
        else:
            notes.append(f"`{log.path.name}` has no scored samples (`--predict_only`?)")
    if not opened:
        asked = [f"none of {', '.join(tasks)}"] if tasks else []
        why = "; ".join(asked + notes) or "no log of a task"
        raise AnswersUnusable(f"`{found.folder}` has nothing to look at: {why}.", hint=HINT)
    date = max(log.date for log in found.logs)
    return Run(name=found.name, folder=found.folder, date=date, tasks=opened, notes=tuple(notes))


def read_task(log: Log, benchmark: Benchmark) -> TaskRun | None:
    """The samples of one log; None where no line of it was scored.

    Raises:
        AnswersUnusable: A line cannot be read, or two lines of one id say different things.
    """
    samples: dict[str, LoggedSample] = {}
    notes: list[str] = []
    twice = impossible = unscored = 0
    for numbered in lines(log.path):
        if numbered.line is None:
            notes.append(f"line {numbered.number}, the last, is cut off and was left out")
        elif "bypass" in numbered.line and "coverage" not in numbered.line:
            unscored += 1
        else:
            sample = _read(benchmark, numbered.line, f"`{log.path}`, line {numbered.number}")
            kept = _possible(sample, benchmark.scale)
            impossible += kept is not sample
            twice += _is_known(samples, kept, log.path)
    if not samples:
        return None
    for count, found in (
        (twice, "standing there twice, word for word: counted once"),
        (impossible, "with points that are not on the scale: counted as unscored"),
        (unscored, "never scored (`--predict_only`): left out"),
    ):
        notes += [f"{count} {'sample' if count == 1 else 'samples'} {found}"] if count else []
    return TaskRun(
        task=log.task,
        benchmark=benchmark,
        log=log.path,
        samples=tuple(samples.values()),
        notes=tuple(notes),
        stored=_stored(log),
    )


def _read(benchmark: Benchmark, line: Line, place: str) -> LoggedSample:
    try:
        return benchmark.read_line(line)
    except BadRecord as error:
        raise AnswersUnusable(f"{place}: {error}.", hint=HINT) from error


def _is_known(samples: dict[str, LoggedSample], sample: LoggedSample, log: Path) -> bool:
    """Whether a sample with this id, saying the same, was read before; enters it if not.

    Raises:
        AnswersUnusable: One was, and says something else.
    """
    known = samples.setdefault(sample.id, sample)
    if known is sample:
        return False
    if known != sample:
        raise AnswersUnusable(
            f"`{log}` holds two different results of the sample {sample.id}.",
            hint="the runner appends to a log that is there: keep one run to a file",
        )
    return True


def _possible(sample: LoggedSample, scale: Scale) -> LoggedSample:
    """The sample; with no points where they are not finite, or none that the scale has.

    Where points are not counted one by one, what lies on the scale is for the room to say: there
    are official scripts that clamp nothing.
    """

    def checked(verdict: Verdict) -> Verdict:
        if not isinstance(verdict, Scored):
            return verdict
        off = scale.whole and not 0 <= verdict.points <= scale.full_marks
        if off or not math.isfinite(verdict.points):
            return Unscored("off_scale", "the log has points that are not on the scale")
        return verdict

    official, robust = checked(sample.official), checked(sample.robust)
    if official is sample.official and robust is sample.robust:
        return sample
    return replace(sample, official=official, robust=robust)


def _stored(log: Log) -> Mapping[str, float]:
    """The numbers that the runner saved for the task; empty where they cannot be had."""
    try:
        saved: object = json.loads(log.results.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    results = saved.get("results") if isinstance(saved, dict) else None
    metrics = results.get(log.task) if isinstance(results, dict) else None
    return {
        name.removesuffix(",none"): known
        for name, value in (metrics.items() if isinstance(metrics, dict) else ())
        if "_stderr" not in name and (known := number(value)) is not None
    }
