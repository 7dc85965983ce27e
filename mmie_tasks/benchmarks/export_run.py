"""What the exports of benchmarks share: their arguments, and the records of a logged run."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

from mmie_tasks.benchmarks.registry import entry_of_task
from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.core.wording import counted
from mmie_tasks.record.log_files import find_runs, read_lines
from mmie_tasks.record.record import BadRecord, Line, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedRun:
    """A run to be exported.

    Attributes:
        model: The name of the tested model.
        output: Where to write.
        records: Sample id to record, in the order of the logs.
    """

    model: str
    output: Path
    records: Mapping[str, Record]


def exported_run(
    benchmark: str,
    arguments: Sequence[str],
    *,
    description: str,
    output: str,
    read: Callable[[Line], Record] = Record.of_line,
) -> ExportedRun:
    """The run that the arguments of ``mmie-tasks export`` name.

    Args:
        benchmark: Name of the benchmark.
        arguments: The arguments. Invalid ones end the process with status 2, as argparse does.
        description: What the export does, for its help.
        output: What ``-o`` names, for the help.
        read: Reads the record of a line; raises `BadRecord` for a line that cannot be exported.

    Raises:
        AnswersUnusable: There is not exactly one run of the benchmark, a line is unusable, or two
            tasks have different answers or replies to a sample.
    """
    parser = argparse.ArgumentParser(prog=f"mmie-tasks export {benchmark}", description=description)
    parser.add_argument(
        "run", metavar="RUN", help="folder or sample log of a run with `--log_samples`"
    )
    parser.add_argument("-o", "--output", metavar="PATH", required=True, help=output)
    parser.add_argument(
        "--model", metavar="NAME", help="the tested model's name; default: the run's"
    )
    parsed = parser.parse_args(arguments)
    run = Path(parsed.run).expanduser()
    return ExportedRun(
        model=parsed.model or find_runs(str(run))[0].name,
        output=Path(parsed.output).expanduser(),
        records=_records_of(run, benchmark, read),
    )


def _records_of(run: Path, benchmark: str, read: Callable[[Line], Record]) -> Mapping[str, Record]:
    """The records of a run; the newest log of a task counts."""
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
    records: dict[str, Record] = {}
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
            first = records.setdefault(record.id, record)
            texts, first_texts = ([r.text for r in one.replies] for one in (record, first))
            if (record.answer, texts) != (first.answer, first_texts):
                raise AnswersUnusable(
                    f"{location}: another answer or reply to {record.id} than before.", hint=hint
                )
    if not records:
        raise AnswersUnusable(f"`{run}` holds no samples of {benchmark}.", hint=hint)
    return records


def _is_of(benchmark: str, task: str) -> bool:
    entry = entry_of_task(task)
    return entry is not None and entry.name == benchmark
