"""The records of a run's MMIE samples, from the logs that lmms-eval wrote of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from loguru import logger

from mmie_tasks.answers.files import read_file
from mmie_tasks.errors import AnswersUnusable

Record = Mapping[str, object]

_LOG = re.compile(r"(?P<date>.*?)_?samples_(?P<task>mmie(?:_sa|_pbl|_msr|_1k)?)\.jsonl")
_HINT = "name the folder of one run with `--log_samples`, or its `*_samples_mmie*.jsonl`"


def records_of(run: Path) -> list[Record]:
    """What each sample of a run left under ``coverage``, in the order of the logs.

    Args:
        run: A sample log, or a folder that holds those of one run. Of several logs of a task the
            newest is taken.

    Raises:
        AnswersUnusable: There is none, it is of another kind, or two tasks differ on a sample.
    """
    found: dict[str, Record] = {}
    for log in _logs(run):
        contents = read_file(log)
        for note in contents.notes:
            logger.warning(note)
        for entry in contents.entries:
            record = _record(entry.value, f"{log}, {entry.place}")
            before = found.setdefault(str(record["id"]), record)
            if before.get("answer") != record.get("answer"):
                message = f"{log}, {entry.place}: another answer to {record['id']} was read before."
                raise AnswersUnusable(message, hint=_HINT)
    if not found:
        raise AnswersUnusable(f"`{run}` holds no samples of MMIE.", hint=_HINT)
    return list(found.values())


def _logs(run: Path) -> Sequence[Path]:
    if run.is_file():
        return [run]
    newest: dict[str, Path] = {}
    for path in sorted(run.rglob("*samples_mmie*.jsonl")) if run.is_dir() else ():
        if match := _LOG.fullmatch(path.name):
            known = newest.setdefault(match["task"], path)
            if known.parent != path.parent:
                message = f"Two runs below `{run}`: `{known.parent}` and `{path.parent}`."
                raise AnswersUnusable(message, hint=_HINT)
            newest[match["task"]] = max(known, path, key=lambda each: each.name)
    if not newest:
        raise AnswersUnusable(f"`{run}` holds no log of MMIE's samples.", hint=_HINT)
    return list(newest.values())


def _record(line: object, place: str) -> Record:
    record = line.get("coverage") if isinstance(line, Mapping) else None
    if not isinstance(record, Mapping) or not {"id", "category", "official"} <= record.keys():
        message = f"{place}: not a scored sample of MMIE (a run with `--predict_only` has none)."
        raise AnswersUnusable(message, hint=_HINT)
    return record
