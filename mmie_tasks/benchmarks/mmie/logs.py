"""The records of a run's MMIE samples, from the logs that lmms-eval wrote of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from loguru import logger

from mmie_tasks.errors import AnswersUnusable
from mmie_tasks.logged import Record
from mmie_tasks.review import Line
from mmie_tasks.runs.finding import find
from mmie_tasks.runs.lines import lines


_TASKS = ("mmie", "mmie_sa", "mmie_pbl", "mmie_msr", "mmie_1k")
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
        for numbered in lines(log):
            if numbered.line is None:
                logger.warning(f"{log}: line {numbered.number}, the last, is cut off and left out")
                continue
            place = f"{log}, line {numbered.number}"
            record = _record(numbered.line, place)
            before = found.setdefault(str(record["id"]), record)
            if before.get("answer") != record.get("answer"):
                message = f"{place}: another answer to {record['id']} was read before."
                raise AnswersUnusable(message, hint=_HINT)
    if not found:
        raise AnswersUnusable(f"`{run}` holds no samples of MMIE.", hint=_HINT)
    return list(found.values())


def _logs(run: Path) -> list[Path]:
    by_folder = {
        each.folder: [log.path for log in each.logs if log.task in _TASKS]
        for each in find(str(run))
    }
    folders = [folder for folder, logs in by_folder.items() if logs]
    if not folders:
        raise AnswersUnusable(f"`{run}` holds no log of MMIE's samples.", hint=_HINT)
    if len(folders) > 1:
        message = f"Two runs below `{run}`: `{folders[0]}` and `{folders[1]}`."
        raise AnswersUnusable(message, hint=_HINT)
    return by_folder[folders[0]]


def _record(line: Line, place: str) -> Record:
    record = line.get("coverage")
    if not isinstance(record, Mapping) or not {"id", "category", "official"} <= record.keys():
        message = f"{place}: not a scored sample of MMIE (a run with `--predict_only` has none)."
        raise AnswersUnusable(message, hint=_HINT)
    return record
