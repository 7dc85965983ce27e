"""The command ``mmie-tasks rescore``: applies the current readers to the replies of saved runs."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from traceback import extract_tb
from typing import Any, TypeVar

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.core import __version__
from mmie_tasks.core.errors import MmieTasksError, SettingWrong
from mmie_tasks.core.tables import percent_cell, signed_cell, table
from mmie_tasks.core.verdict import Scored, Unscored, Verdict, as_row, differ
from mmie_tasks.record import log_line
from mmie_tasks.record.metrics import Metric, MetricValue, metric_value
from mmie_tasks.record.sample import SCORE_KINDS, BadRecord, Line, LoggedSample, ScoreKind
from mmie_tasks.record.signature import RULES
from mmie_tasks.results.commands import listed_names, open_runs, result_parser, whole_number
from mmie_tasks.results.render import json_text
from mmie_tasks.runs.run import Run, TaskRun, sample_lines
from mmie_tasks.runs.values import metrics_of

_MAX_TEXT = 60  # characters of a reading or detail in a table
_MAX_NAMES = 5  # samples to name that cannot be rescored for one reason
_T = TypeVar("_T")

_RUNNER_KEYS = (
    *("doc_id", "target", "resps", "filtered_resps", "token_counts", "doc_hash"),
    *("input_media", "input"),
)
"""The keys that lmms-eval 0.7.3 itself writes into a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _VerdictChange:
    """A verdict that differs with the current readers, on the benchmark's own scale."""

    id: str
    score_kind: ScoreKind
    before: Verdict
    after: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class _RescoredTask:
    """A task of a run with the verdicts of the current readers.

    Samples that cannot be rescored are unchanged; `not_rescored` has their ids and the reasons.
    Changes are in the order of the log.
    """

    task_run: TaskRun
    samples: tuple[LoggedSample, ...]
    changes: tuple[_VerdictChange, ...]
    not_rescored: Mapping[str, str]
    panel_options: Mapping[str, Any]

    @property
    def change_counts(self) -> dict[ScoreKind, int]:
        """How many official and how many robust verdicts changed."""
        counts = Counter(change.score_kind for change in self.changes)
        return {kind: counts[kind] for kind in SCORE_KINDS}


def _rescore(task_run: TaskRun, panel_options: Mapping[str, Any]) -> _RescoredTask:
    """Apply the current readers to the replies in a task's log.

    ``rule`` and ``min_valid`` in `panel_options` take the place of the logged ones, for samples
    that a panel judged.

    Raises:
        AnswersUnusable: The log cannot be read.
        SettingWrong: A panel cannot have these options.
    """
    after = task_run.by_id
    not_rescored: dict[str, str] = {}
    changes: list[_VerdictChange] = []
    for logged, line in sample_lines(task_run):
        sample = after[logged.id]
        reason = "the log does not hold the reply or answer"
        try:
            verdicts = task_run.benchmark.reread(_with_panel_options(line, panel_options))
        except BadRecord as error:
            verdicts, reason = None, str(error)
        if not verdicts:
            not_rescored[sample.id] = reason
            continue
        of_sample = [
            _VerdictChange(id=sample.id, score_kind=k, before=sample.verdict(k), after=verdicts[k])
            for k in SCORE_KINDS
            if _is_changed(sample.verdict(k), verdicts[k])
        ]  # equal verdicts stay as they were logged
        changes += of_sample
        changed: dict[str, Any] = {change.score_kind: change.after for change in of_sample}
        after[sample.id] = replace(sample, **changed)
    return _RescoredTask(
        task_run=task_run,
        samples=tuple(after.values()),
        changes=tuple(changes),
        not_rescored=not_rescored,
        panel_options=panel_options,
    )


def _with_panel_options(line: Line, options: Mapping[str, Any]) -> Line:
    """The line with other options of the panel that judged it; the same line for a single judge."""
    record = log_line.record_of(line)
    signature = log_line.signature(record)
    panel = signature.panel
    if not options or panel is None:
        return line
    panel = replace(panel, **options)
    if panel.min_valid > (judges := len(signature.judges)):
        raise SettingWrong(
            f"`--min_valid {panel.min_valid}` is more than the {judges} judges of the panel.",
            hint=f"`--min_valid` with a number from 1 to {judges}",
        )
    renewed = {**record, "signature": str(signature.with_panel(panel))}
    if logged_panel := log_line.mapping(record, "panel"):  # not of an answer that was not judged
        renewed["panel"] = {**logged_panel, **options}
    return {**line, "coverage": renewed}


def _is_changed(before: Verdict, after: Verdict) -> bool:
    """Whether the points differ, or the reason why there are none."""
    if isinstance(before, Unscored) and isinstance(after, Unscored):
        return before.reason != after.reason
    return differ(before, after)


@dataclass(frozen=True, slots=True, kw_only=True)
class _MetricChange:
    """A metric before and after."""

    metric: Metric
    score_kind: ScoreKind
    before: MetricValue
    after: MetricValue


def _metric_changes(rescored: _RescoredTask) -> list[_MetricChange]:
    """The headline metrics before and after; if a run has none of them, the first with a value and
    others of its kind.
    """
    task_run, changes = rescored.task_run, []
    # Readers give the sample's points, not the shares of components.
    metrics = [metric for metric in metrics_of([task_run]) if not metric.part]
    for metric, kind in product(metrics, SCORE_KINDS):
        before, after = (
            metric_value(samples, metric, kind, task_run.benchmark.scale)
            for samples in (task_run.samples, rescored.samples)
        )
        if before and after:
            changes.append(
                _MetricChange(metric=metric, score_kind=kind, before=before, after=after)
            )
    with_value = [c for c in changes if {c.before.percent, c.after.percent} != {None}]
    shown = with_value or changes
    return [c for c in shown if c.metric.kind == shown[0].metric.kind]


def _attempt(function: Callable[..., _T], subject: str, *arguments: object) -> _T | None:
    """The result of one of our functions, or None and a warning where a benchmark's function fails.

    Our own errors, and those of files, are raised.
    """
    try:
        return function(*arguments)
    except (MmieTasksError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - a benchmark may be code of another package
        frame = extract_tb(error.__traceback__)[-1]
        sys.stderr.write(
            f"warning: {subject}: `{frame.name}` in {frame.filename}, line {frame.lineno}, "
            f"failed with {type(error).__name__}: {_printable(str(error))}\n"
        )
        return None


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str | int:  # noqa: ARG001 - all commands take it
    """Rescore runs; returns tables, or JSON, or the status 1 if a benchmark's function failed,
    after printing the rest.

    Raises:
        AnswersUnusable: A run cannot be read.
        SettingWrong: An option is out of range, or the output folder exists.
    """
    options = _parser().parse_args(arguments)
    named = {"rule": options.rule, "min_valid": options.min_valid}
    panel_options = {name: value for name, value in named.items() if value is not None}
    folder = Path(options.output).expanduser() if options.output else None
    if folder is not None and folder.exists():
        raise SettingWrong(f"`{folder}` already exists.", hint="name a new folder with `-o`")
    runs: list[tuple[Run, Sequence[_RescoredTask]]] = []
    is_complete = True
    for opened in open_runs(options.runs, listed_names(options.tasks)):
        samples = (sample for task_run in opened.tasks.values() for sample in task_run.samples)
        if panel_options and not any(sample.members for sample in samples):
            raise SettingWrong(
                f"`{opened.name}` has no sample that several judges scored.",
                hint="leave `--rule` and `--min_valid` out",
            )
        tasks = [
            _attempt(_rescore, f"{opened.name}: {task} is not rescored", task_run, panel_options)
            for task, task_run in opened.tasks.items()
        ]
        is_complete &= None not in tasks
        runs.append((opened, [task for task in tasks if task is not None]))
    if folder is not None:
        is_complete &= _write_logs(folder, runs)
    if options.json:
        results = [_as_json(opened, task) for opened, rescored in runs for task in rescored]
        output = json_text(results)
    else:
        written = f"\n\nWritten to `{folder}`." if folder is not None else ""
        output = _as_text(runs, options.top) + written
    if is_complete:
        return output
    sys.stdout.write(f"{output}\n")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = result_parser(
        "rescore",
        "Apply the readers of this version to the judge's saved replies, or to answers that are "
        "scored by rule, and print the changes. Makes no judge calls.",
        reading=False,
        top=20,
    )
    parser.add_argument("--rule", choices=RULES, help="of several judges; default: the logged one")
    help_text = "the fewest of several judges with points; default: the logged number"
    parser.add_argument("--min_valid", type=whole_number(1), metavar="N", help=help_text)
    help_text = (
        "a new folder for the logs with the new verdicts, for the other commands. The record under "
        "`coverage` is updated and marked `rescored`; the rows of single metrics, from which the "
        "runner computed its table, are left out; default: none"
    )
    parser.add_argument("-o", "--output", default="", metavar="FOLDER", help=help_text)
    return parser


def _as_json(run: Run, rescored: _RescoredTask) -> dict[str, object]:
    return {
        "run": run,
        "task": rescored.task_run,
        "pkg": __version__,
        "samples": len(rescored.samples),
        "changed": rescored.change_counts,
        "metrics": _metric_changes(rescored),
        "changes": rescored.changes,
        "not_rescored": rescored.not_rescored,
    }


def _as_text(runs: Sequence[tuple[Run, Sequence[_RescoredTask]]], top: int) -> str:
    """The results as tables, with up to `top` changed verdicts of each task."""
    blocks = [f"Rescored with the readers of mmie-tasks {__version__}; no judge was called."]
    for run_, tasks in runs:
        blocks += [_printable(f"{run_.name}: {note}") for note in run_.notes]
        for rescored in tasks:
            blocks += _blocks(run_, rescored, top)
    return "\n\n".join(blocks)


def _blocks(run: Run, rescored: _RescoredTask, top: int) -> Iterator[str]:
    task_run, changes = rescored.task_run, rescored.changes
    yield _printable(f"## {run.name}: {task_run.task}\n{task_run.log}")
    yield from (_printable(f"note: {note}") for note in task_run.notes)
    total, skipped = len(rescored.samples), len(rescored.not_rescored)
    by_kind = ", ".join(f"{count} {kind}" for kind, count in rescored.change_counts.items())
    changed = f"Changed verdicts: {by_kind}." if changes else "Nothing changed."
    yield f"{total} samples, {total - skipped} rescored. {changed}"
    if skipped:
        lines = [f"{skipped} samples cannot be rescored and keep their verdicts:"]
        for reason, count in Counter(rescored.not_rescored.values()).items():
            ids = [id_ for id_, why in rescored.not_rescored.items() if why == reason]
            more = ", ..." if count > _MAX_NAMES else ""
            lines.append(f"- {count}: {reason} ({', '.join(ids[:_MAX_NAMES])}{more})")
        yield _printable("\n".join(lines))
    yield _metric_table(rescored)
    if changes and top:
        rows = [
            [_printable(c.id), c.score_kind, _verdict_text(c.before), _verdict_text(c.after)]
            for c in changes[:top]
        ]
        hidden = len(changes) - len(rows)
        more = f"\n\n{hidden} more; `--top` shows them." if hidden else ""
        yield table(["sample", "score", "before", "after"], rows, text_columns=4) + more


def _metric_table(rescored: _RescoredTask) -> str:
    rows = []
    for change in _metric_changes(rescored):
        before, after = change.before, change.after
        percents = [value.percent for value in (before, after) if value.percent is not None]
        difference = percents[1] - percents[0] if len(percents) == 2 else None
        scored = f"{before.scored} -> {after.scored} of {after.total}"
        cells = [percent_cell(before.percent), percent_cell(after.percent), signed_cell(difference)]
        rows.append([change.metric.title, change.score_kind, *cells, scored])
    header = ["metric, percent", "score", "before", "after", "difference", "scored"]
    return table(header, rows, text_columns=2)


def _verdict_text(verdict: Verdict) -> str:
    """Points and the part of the reply they were read from, or the reason for no points."""
    if isinstance(verdict, Scored):
        reading = verdict.reading.strip() and f" ({_printable(verdict.reading)[:_MAX_TEXT]})"
        return f"{verdict.points:g}{reading}"
    detail = f": {_printable(verdict.detail)[:_MAX_TEXT]}" if verdict.detail else ""
    return f"unscored, {verdict.reason}{detail}"


def _printable(text: str) -> str:
    """Without characters that control a terminal; logs hold untrusted text."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def _write_logs(folder: Path, runs: Sequence[tuple[Run, Sequence[_RescoredTask]]]) -> bool:
    """Write every log with its new verdicts into a folder of the run's name, as one step.

    Only the record under ``coverage`` is updated, which every command reads. The rows of single
    metrics belong to the table of one evaluation and are left out.

    Returns:
        Whether all logs are written: one whose benchmark cannot make the records is left out.
    """
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
    names: set[str] = set()
    is_complete = True
    try:
        for run_, tasks in runs:
            name = re.sub(r"[^\w.()+@ -]", "_", run_.name).strip(". ") or "run"
            while name in names:
                name = f"{name}+"
            names.add(name)
            (unfinished / name).mkdir(parents=True)
            for task in tasks:
                log = unfinished / name / task.task_run.log.name
                subject = f"{run_.name}: {task.task_run.task} is not written"
                if _attempt(_write_log, subject, task, log) is None:
                    log.unlink()
                    is_complete = False
        unfinished.replace(folder)
    except OSError as error:
        hint = "name a folder on a disk with enough space for the logs"
        raise SettingWrong(f"`{folder}` cannot be written: {error.strerror}.", hint=hint) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return is_complete


def _write_log(rescored: _RescoredTask, path: Path) -> Path:
    after = {sample.id: sample for sample in rescored.samples}
    with path.open("w", encoding="utf-8") as file:
        for sample, line in sample_lines(rescored.task_run):
            rewritten = line
            if sample.id not in rescored.not_rescored:
                current = _with_panel_options(line, rescored.panel_options)
                record = _new_record(rescored.task_run.benchmark, current)
                if signature := str(log_line.signature(record).with_package(__version__)):
                    record["signature"] = signature
                record["rescored"] = {"pkg": __version__, "changed": after[sample.id] != sample}
                runner_values = {key: line[key] for key in _RUNNER_KEYS if key in line}
                rewritten = {**runner_values, "coverage": record}
            file.write(f"{json.dumps(rewritten)}\n")
    return path


def _new_record(benchmark: Benchmark, line: Line) -> dict[str, object]:
    if benchmark.rerecord is not None:
        return dict(benchmark.rerecord(line))
    record = log_line.record_of(line)
    renewed = {**record, **_new_rows(benchmark, line)}
    panel = log_line.mapping(record, "panel")
    members = panel.get("members")
    if isinstance(members, list):  # each is read like the record of a single judge
        lines = [{**line, "coverage": {**record, "panel": None, **member}} for member in members]
        rows = [_new_rows(benchmark, member_line) for member_line in lines]
        renewed["panel"] = {
            **panel,
            "members": [{**old, **new} for old, new in zip(members, rows, strict=True)],
        }
    return renewed


def _new_rows(benchmark: Benchmark, line: Line) -> dict[str, object]:
    verdicts = benchmark.reread(line) or {}
    return {kind: as_row(verdicts[kind]) for kind in SCORE_KINDS if kind in verdicts}
