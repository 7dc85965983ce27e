"""``mmie-tasks export opening``: runs as the file that the official summary reads."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from loguru import logger

from mmie_tasks.benchmarks.opening import official
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.files import atomic_write
from mmie_tasks.core.tables import counted
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.record import log_line
from mmie_tasks.record.log_files import find_runs, read_lines
from mmie_tasks.record.sample import Record

FILE = "gpt-score_results.json"
_HINT = "name the folder of one run with `--log_samples`, or its `*_samples_opening*.jsonl`"


def run_export(arguments: Sequence[str], _environment: Mapping[str, str]) -> str:
    """Run ``mmie-tasks export opening ARGUMENTS``; returns what to print.

    Invalid arguments end the process with status 2, as argparse does.

    Raises:
        MmieTasksError: The export is not possible.
    """
    parsed = _parser().parse_args(arguments)
    runs = [Path(run).expanduser() for run in parsed.runs]
    names = parsed.model or [run.stem if run.is_dir() else run.parent.name for run in runs]
    if len(names) != len(runs):
        message = f"{counted(len(runs), 'run')}, but {counted(len(names), 'name')} of `--model`."
        raise SettingWrong(message, hint="give `--model` once per RUN, in the same order")
    entries: list[dict[str, object]] = []
    lines = []
    for number, (name, run) in enumerate(zip(names, runs, strict=True)):
        records = records_of(run)
        scored = {
            sample_id: value
            for sample_id, record in records.items()
            if (value := official_value(record)) is not None
        }
        entries += [
            {"data_id": sample_id, "model": {"id": str(number), "name": name}, "score": value}
            for sample_id, value in scored.items()
        ]
        lines.append(f"{name}: {len(scored)} of {counted(len(records), 'sample')}")
    target = Path(parsed.output).expanduser()
    target = target / FILE if target.is_dir() else target
    with atomic_write(target) as part:
        part.write_text(json.dumps(entries, ensure_ascii=False, indent=4), encoding="utf-8")
    return f"Replies written to `{target}`: {'; '.join(lines)}."


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks export opening",
        description=f"Write the judge's replies of runs as `{FILE}`, which the official "
        "`summarize_GPT_scores.py` reads below `Interleaved_Arena/`. It overwrites that file.",
    )
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="folder or sample log of a run with `--log_samples`"
    )
    parser.add_argument(
        "-o", "--output", metavar="PATH", required=True, help="the file, or its folder"
    )
    help_text = "the tested model's name, once per run; default: that of its folder"
    parser.add_argument("--model", action="append", metavar="NAME", help=help_text)
    return parser


def records_of(run: Path) -> dict[str, Record]:
    """The record of each sample of a run, by its id, in the order of the logs.

    Args:
        run: A sample log, or a folder with those of one run.

    Raises:
        AnswersUnusable: There is none, it is of another kind, or two tasks differ on a sample.
    """
    folders = [
        [log.path for log in folder.logs if f"{log.task}_".startswith("opening_")]
        for folder in find_runs(str(run))
    ]
    folders = [logs for logs in folders if logs]
    if len(folders) != 1:
        raise AnswersUnusable(
            f"`{run}` holds {counted(len(folders), 'run')} of OpenING instead of one.", hint=_HINT
        )
    records: dict[str, Record] = {}
    for log in folders[0]:
        for numbered in read_lines(log):
            if numbered.line is None:
                logger.warning(f"{log}: line {numbered.number}, the last, is cut off; left out.")
                continue
            location = f"{log}, line {numbered.number}"
            record = numbered.line.get("coverage")
            if not isinstance(record, Mapping) or not {"id", "topic", "official"} <= set(record):
                message = f"{location}: not a scored sample of OpenING (`--predict_only`?)."
                raise AnswersUnusable(message, hint=_HINT)
            if "panel" in record:
                raise AnswersUnusable(
                    f"{location}: several judges scored it.",
                    hint="the official table is of one judge: export a run with one",
                )
            previous = records.setdefault(str(record["id"]), record)
            if previous.get("replies") != record.get("replies"):
                raise AnswersUnusable(
                    f"{location}: the second, different replies to {record['id']}.", hint=_HINT
                )
    return records


def official_value(record: Record) -> object | None:
    """The JSON of a sample's last reply; None without one that the official summary can read."""
    replies = log_line.replies(record) or ()
    if not replies:
        return None
    first, last = replies[0].text, replies[-1].text
    text = last if official.asks_again(first) else first
    scores = official.read_scores(text)
    is_readable = not isinstance(scores, Unscored) or scores.reason == "left_out"
    value: object = json.loads(text) if is_readable else None
    return value
