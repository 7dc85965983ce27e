"""What the exports of benchmarks share: their arguments, and the records of a logged run."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

from mmie_tasks.benchmarks.registry import entry_of_task
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.wording import counted
from mmie_tasks.record.log_files import find_runs, read_lines
from mmie_tasks.record.record import BadRecord, Line, RecordT


def export_parser(name: str, description: str, output: str) -> argparse.ArgumentParser:
    """The arguments of ``mmie-tasks export NAME``: runs, their models' names, and the output."""
    parser = argparse.ArgumentParser(prog=f"mmie-tasks export {name}", description=description)
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="folder or sample log of a run with `--log_samples`"
    )
    parser.add_argument("-o", "--output", metavar="PATH", required=True, help=output)
    help_text = "the tested model's name, once per run; default: the run's"
    parser.add_argument("--model", action="append", metavar="NAME", help=help_text)
    return parser


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRun:
    """A run to be exported: a sample log or a folder, and the name of its tested model."""

    model: str
    path: Path


def named_runs(parsed: argparse.Namespace) -> list[ExportedRun]:
    """The runs of parsed arguments; raises `SettingWrong` if runs and names differ in number."""
    paths = [Path(run).expanduser() for run in parsed.runs]
    names = parsed.model or [find_runs(str(path))[0].name for path in paths]
    if len(names) != len(paths):
        message = f"{counted(len(paths), 'run')}, but {counted(len(names), 'name')} of `--model`."
        raise SettingWrong(message, hint="give `--model` once per RUN, in the same order")
    return [ExportedRun(model=n, path=p) for n, p in zip(names, paths, strict=True)]


def records_of(
    run: Path,
    benchmark: str,
    read: Callable[[Line], RecordT],
    *,
    same: Callable[[RecordT], object],
    noun: str,
) -> Mapping[str, RecordT]:
    """The records of a run, by id, in the order of the logs.

    Args:
        run: A sample log, or the folder of one run; the newest log of a task counts.
        benchmark: Name of the benchmark.
        read: Reads the record of a line; raises `BadRecord` for a line of another benchmark.
        same: What must be equal in two tasks about one sample.
        noun: What `same` compares, for the message.

    Raises:
        AnswersUnusable: There is not exactly one run of the benchmark, a line is unusable, or two
            tasks differ on a sample.
    """
    hint = f"name the folder of one run with `--log_samples`, or its `*_samples_{benchmark}*.jsonl`"
    runs = [
        logs
        for folder in find_runs(str(run))
        if (logs := [log for log in folder.logs if _is_of(benchmark, log.task)])
    ]
    if len(runs) != 1:
        raise AnswersUnusable(
            f"`{run}` holds {counted(len(runs), 'run')} of {benchmark} instead of one.", hint=hint
        )
    records: dict[str, RecordT] = {}
    for path in (log.path for log in runs[0]):
        for numbered in read_lines(path):
            if numbered.line is None:
                logger.warning(f"{path}: line {numbered.number}, the last, is cut off; left out.")
                continue
            location = f"{path}, line {numbered.number}"
            try:
                record = read(numbered.line)
            except BadRecord as error:
                raise AnswersUnusable(f"{location}: {error}.", hint=hint) from error
            if same(records.setdefault(record.id, record)) != same(record):
                raise AnswersUnusable(
                    f"{location}: the second, different {noun} to {record.id}.", hint=hint
                )
    if not records:
        raise AnswersUnusable(f"`{run}` holds no samples of {benchmark}.", hint=hint)
    return records


def _is_of(benchmark: str, task: str) -> bool:
    entry = entry_of_task(task)
    return entry is not None and entry.name == benchmark
