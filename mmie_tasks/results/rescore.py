"""The command ``mmie-tasks rescore``."""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmie_tasks import __version__
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.tables import table
from mmie_tasks.core.verdict import Scored, Unscored, Verdict, as_row, differ
from mmie_tasks.results.commands import open_runs
from mmie_tasks.runs.benchmark import SCORE_KINDS, BadRecord, Line, LoggedSample, Metric, ScoreKind
from mmie_tasks.runs.log_files import Run, TaskRun, read_lines
from mmie_tasks.runs.metric_values import MetricValue, metric_value, metrics_of

# What the readers of this version say of a task's saved replies, beside what the log says.

NOT_HELD = "the log does not hold what it was read from"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A verdict that is another now, on the benchmark's own scale."""

    id: str
    reading: ScoreKind
    before: Verdict
    after: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescored:
    """A task, read again.

    Attributes:
        task: As it was logged.
        samples: As they are now; those that cannot be read again are as they were.
        changes: In the order of the log.
        unread: Ids of samples that cannot be read again, to why.
    """

    task: TaskRun
    samples: tuple[LoggedSample, ...]
    changes: tuple[Change, ...]
    unread: Mapping[str, str]

    @property
    def changed(self) -> Counter[ScoreKind]:
        """How many verdicts changed in each reading."""
        return Counter(change.reading for change in self.changes)


def rescore(task: TaskRun) -> Rescored:
    """Read a task's log once more, and its replies with it.

    Raises:
        AnswersUnusable: The log cannot be read.
    """
    known = task.by_id
    after: dict[str, LoggedSample] = {}
    unread: dict[str, str] = {}
    for numbered in read_lines(task.log):
        sample = sample_of(task, numbered.line)
        if sample is None or numbered.line is None or sample.id in after:
            continue
        verdicts, why_not = _reread(task, numbered.line)
        if verdicts is None:
            unread[sample.id] = why_not
            after[sample.id] = known[sample.id]
        else:
            after[sample.id] = _with(known[sample.id], verdicts)
    return Rescored(
        task=task,
        samples=tuple(after.values()),
        changes=tuple(
            change
            for name, sample in after.items()
            for change in _changes_rereading(known[name], sample)
        ),
        unread=unread,
    )


def sample_of(task: TaskRun, line: Line | None) -> LoggedSample | None:
    """The sample of a line; None for a line that is cut off, or was never scored."""
    if line is None or ("bypass" in line and "coverage" not in line):
        return None
    return task.benchmark.read_line(line)


def _reread(task: TaskRun, line: Line) -> tuple[Mapping[str, Verdict] | None, str]:
    """Both verdicts, or None and why not."""
    try:
        verdicts = task.benchmark.reread(line)
    except BadRecord as error:
        return None, str(error)
    return verdicts, "" if verdicts else NOT_HELD


def _with(sample: LoggedSample, verdicts: Mapping[str, Verdict]) -> LoggedSample:
    """The sample with its new verdicts. Where one says what it said, it stays as it was logged."""
    official, robust = (
        verdicts[name] if is_changed(sample.verdict(name), verdicts[name]) else sample.verdict(name)
        for name in SCORE_KINDS
    )
    return replace(sample, official=official, robust=robust)


def is_changed(before: Verdict, after: Verdict) -> bool:
    """Whether the points are others, or the reason why there are none."""
    if isinstance(before, Unscored) and isinstance(after, Unscored):
        return before.reason != after.reason
    return differ(before, after)


def _changes_rereading(before: LoggedSample, after: LoggedSample) -> list[Change]:
    return [
        Change(id=before.id, reading=name, before=before.verdict(name), after=after.verdict(name))
        for name in SCORE_KINDS
        if is_changed(before.verdict(name), after.verdict(name))
    ]


# What was read again, in words and as JSON.

_SHOWN = 60  # characters of what was read
_NAMED = 5  # samples that are named where all are of one kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A number, before and after."""

    number: Metric
    reading: ScoreKind
    before: MetricValue
    after: MetricValue


def page(runs: Sequence[tuple[Run, Sequence[Rescored]]], top: int) -> str:
    """The whole text.

    Args:
        runs: With their tasks, read again.
        top: How many changed verdicts of a task are named.
    """
    blocks = [f"Read again with the readers of mmie-tasks {__version__}; no judge was asked."]
    for run, tasks in runs:
        blocks += [_plain(f"{run.name}: {note}") for note in run.notes]
        for rescored in tasks:
            blocks += _blocks(run, rescored, top)
    return "\n\n".join(blocks)


def _blocks(run: Run, rescored: Rescored, top: int) -> Iterator[str]:
    task, changed = rescored.task, rescored.changed
    yield f"## {_plain(run.name)}: {_plain(task.task)}\n{_plain(str(task.log))}"
    yield from (_plain(f"note: {note}") for note in task.notes)
    total, unread = len(rescored.samples), len(rescored.unread)
    counts = ", ".join(f"{changed[name]} {name}" for name in SCORE_KINDS)
    found = f"Verdicts that changed: {counts}." if rescored.changes else "Nothing changed."
    yield f"{total} samples, {total - unread} read again. {found}"
    if rescored.unread:
        yield _unread(rescored)
    yield _numbers(rescored)
    if rescored.changes and top:
        yield _changes(rescored.changes, top)


def _unread(rescored: Rescored) -> str:
    found: dict[str, list[str]] = {}
    for name, why in rescored.unread.items():
        found.setdefault(why, []).append(name)
    lines = [f"{len(rescored.unread)} samples cannot be read again; their verdicts stand:"]
    for why, names in found.items():
        more = ", ..." if len(names) > _NAMED else ""
        lines.append(f"- {len(names)}: {why} ({', '.join(names[:_NAMED])}{more})")
    return "\n".join(map(_plain, lines))


def moved(rescored: Rescored) -> list[Moved]:
    """The headline numbers, before and after; where a run has none of them, the first it has."""
    numbers = metrics_of([rescored.task])
    found = [each for number in numbers for each in _moved(rescored, number)]
    known = [each for each in found if {each.before.percent, each.after.percent} != {None}]
    headlines = [each for each in known if each.number.kind == numbers[0].kind]
    return headlines or [each for each in known if each.number is known[0].number] or found[:2]


def _moved(rescored: Rescored, number: Metric) -> Iterator[Moved]:
    if number.part:
        return  # a component's share is not read again, only the sample's points
    for reading in SCORE_KINDS:
        before = _figure(rescored, rescored.task.samples, number, reading)
        after = _figure(rescored, rescored.samples, number, reading)
        if before is not None and after is not None:
            yield Moved(number=number, reading=reading, before=before, after=after)


def _figure(
    rescored: Rescored, samples: Sequence[LoggedSample], number: Metric, reading: ScoreKind
) -> MetricValue | None:
    return metric_value(samples, number, reading, rescored.task.benchmark.scale, resamples=0)


def _numbers(rescored: Rescored) -> str:
    rows = []
    for each in moved(rescored):
        before, after = each.before, each.after
        scored = f"{before.scored} -> {after.scored} of {after.total}"
        cells = [_percent(before), _percent(after), _difference(before, after), scored]
        rows.append([each.number.title, each.reading, *cells])
    header = ["number, percent", "reading", "before", "after", "difference", "scored"]
    return table(header, rows, text_columns=2)


def _percent(found: MetricValue) -> str:
    return "n/a" if found.percent is None else f"{found.percent:.2f}"


def _difference(before: MetricValue, after: MetricValue) -> str:
    if before.percent is None or after.percent is None:
        return "n/a"
    return f"{after.percent - before.percent:+.2f}"


def _changes(changes: Sequence[Change], top: int) -> str:
    header = ["sample", "reading", "before", "after"]
    rows = [
        [_plain(each.id), each.reading, _words(each.before), _words(each.after)]
        for each in changes[:top]
    ]
    left = len(changes) - len(rows)
    more = f"\n\n{left} more; `--top` shows them." if left else ""
    return table(header, rows, text_columns=len(header)) + more


def _words(verdict: Verdict) -> str:
    """Points and what was read, or why there are none; a stranger's words among them."""
    match verdict:
        case Scored(points=points, reading=read):
            return f"{points:g} ({_plain(read)[:_SHOWN]})" if read.strip() else f"{points:g}"
    why = f": {_plain(verdict.detail)[:_SHOWN]}" if verdict.detail else ""
    return f"unscored, {verdict.reason}{why}"


def _plain(words: str) -> str:
    """In one line, and nothing that a terminal obeys."""
    return "".join(each if each.isprintable() or each == "\n" else " " for each in words)


def as_json(run: Run, rescored: Rescored) -> dict[str, object]:
    """A task for programs; every changed verdict is there."""
    task = rescored.task
    return {
        "run": run.name,
        "task": task.task,
        "log": str(task.log),
        "pkg": __version__,
        "notes": [*run.notes, *task.notes],
        "samples": len(rescored.samples),
        "changed": {name: rescored.changed[name] for name in SCORE_KINDS},
        "numbers": [
            {
                "name": each.number.name,
                "title": each.number.title,
                "reading": each.reading,
                "before": each.before.percent,
                "after": each.after.percent,
            }
            for each in moved(rescored)
        ],
        "changes": [
            {
                "id": each.id,
                "reading": each.reading,
                "before": _as_row(each.before),
                "after": _as_row(each.after),
            }
            for each in rescored.changes
        ],
        "unread": dict(rescored.unread),
    }


def _as_row(verdict: Verdict) -> dict[str, object]:
    match verdict:
        case Scored(points=points, reading=read):
            return {"points": points, "reading": read}
    return {"unscored": verdict.reason, "detail": verdict.detail}


# The log again, with what the readers of this version say.
#
# Of a sample that was read again only the record under ``coverage`` is kept up: every command here
# reads that. The rows of single metrics were made for one evaluation's table, and are left out.

_THE_RUNNERS = (
    *("doc_id", "target", "resps", "filtered_resps", "token_counts", "doc_hash"),
    *("input_media", "input"),
)
"""What lmms-eval 0.7.3 itself writes into a line."""

_VERSION = re.compile(r"\|pkg:[^|]*")
_UNSAFE = re.compile(r"[^\w.()+@ -]")


def refuse_if_there(folder: Path) -> None:
    """Make sure, before anything is read, that nothing is overwritten.

    Raises:
        SettingWrong: The folder is there.
    """
    if folder.exists():
        raise SettingWrong(f"`{folder}` is there already.", hint="name a new folder with `-o`")


def write(folder: Path, runs: Sequence[tuple[Run, Sequence[Rescored]]]) -> None:
    """Write every log again, below a folder of the run's name, as one step.

    Raises:
        SettingWrong: The folder is there, or cannot be written.
    """
    refuse_if_there(folder)
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
    names: set[str] = set()
    try:
        for run, tasks in runs:
            name = _unused(_UNSAFE.sub("_", run.name).strip(". ") or "run", names)
            (unfinished / name).mkdir(parents=True)
            for task in tasks:
                _write_log(task, unfinished / name / task.task.log.name)
        unfinished.replace(folder)
    except OSError as error:
        message = f"`{folder}` cannot be written: {error.strerror}."
        raise SettingWrong(
            message, hint="name a folder on a disk with room for the logs"
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _unused(name: str, names: set[str]) -> str:
    while name in names:
        name = f"{name}+"
    names.add(name)
    return name


def _write_log(rescored: Rescored, path: Path) -> None:
    written: set[str] = set()
    after = {sample.id: sample for sample in rescored.samples}
    with path.open("w", encoding="utf-8") as file:
        for numbered in read_lines(rescored.task.log):
            sample = sample_of(rescored.task, numbered.line)
            if numbered.line is None or sample is None or sample.id in written:
                continue
            written.add(sample.id)
            line = numbered.line
            if sample.id not in rescored.unread:
                line = _rewritten(rescored, line, changed=after[sample.id] != sample)
            file.write(f"{json.dumps(line)}\n")


def _rewritten(rescored: Rescored, line: Line, *, changed: bool) -> dict[str, object]:
    runners = {name: line[name] for name in _THE_RUNNERS if name in line}
    benchmark = rescored.task.benchmark
    if benchmark.rerecord is not None:
        record = dict(benchmark.rerecord(line))
    else:
        record = _plain_writing(rescored, line)
    if isinstance(signature := record.get("signature"), str):
        record["signature"] = _VERSION.sub(f"|pkg:{__version__}", signature)
    record["rescored"] = {"pkg": __version__, "changed": changed}
    return {**runners, "coverage": record}


def _plain_writing(rescored: Rescored, line: Line) -> dict[str, object]:
    """The record of a benchmark that says nothing of how it writes verdicts."""
    record = line["coverage"]
    verdicts = rescored.task.benchmark.reread(line) or {}
    rows = {name: as_row(verdicts[name]) for name in SCORE_KINDS if name in verdicts}
    return {**(record if isinstance(record, Mapping) else {}), **rows}


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:  # noqa: ARG001 - as all
    """Read saved replies again.

    Args:
        arguments: What stands behind ``rescore``.
        environment: Not read.

    Returns:
        What is to be printed.

    Raises:
        AnswersUnusable: A run cannot be read.
        SettingWrong: An option cannot be obeyed.
    """
    asked = _parser().parse_args(arguments)
    if asked.top < 0:
        raise SettingWrong(f"`--top` is {asked.top}.", hint="0 names no sample")
    folder = Path(asked.output).expanduser() if asked.output else None
    if folder is not None:
        refuse_if_there(folder)
    tasks = [task.strip() for task in asked.tasks.split(",") if task.strip()]
    done: list[tuple[Run, Sequence[Rescored]]] = [
        (opened, [rescore(task) for task in opened.tasks.values()])
        for opened in open_runs(asked.runs, tasks)
    ]
    if folder is not None:
        write(folder, done)
    if asked.json:
        told = [as_json(opened, task) for opened, rescored in done for task in rescored]
        return json.dumps(told, indent=1)
    written = f"\n\nWritten to `{folder}`." if folder is not None else ""
    return page(done, asked.top) + written


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks rescore",
        description="Read the judge's saved replies, or the answers that are scored by rule, once "
        "more with the readers of this version, and show what changed. No judge is asked.",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="a run with `--log_samples`: the folder of `--output_path`, or NAME=FOLDER",
    )
    parser.add_argument("--tasks", default="", metavar="A,B", help="only these; default: all")
    parser.add_argument("--json", action="store_true", help="print JSON, with every change")
    parser.add_argument("--top", type=int, default=20, help="changed verdicts to show of a task")
    parser.add_argument(
        "-o",
        "--output",
        default="",
        metavar="FOLDER",
        help="a new folder for the logs with the new verdicts, for the other commands. The record "
        "under `coverage` is kept up, and says `rescored`; the rows of single metrics, which the "
        "runner made its table of, are left out",
    )
    return parser
