"""The log again, with what the readers of this version say.

Of a sample that was read again only the record under ``coverage`` is kept up: every command here
reads that. The rows of single metrics were made for one evaluation's table, and are left out.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from mmie_tasks import __version__
from mmie_tasks.errors import SettingWrong
from mmie_tasks.rescoring.rereading import Rescored, sample_of
from mmie_tasks.review import READINGS, Line
from mmie_tasks.runs.lines import lines
from mmie_tasks.runs.run import Run
from mmie_tasks.verdict import as_row

_THE_RUNNERS = (
    *("doc_id", "target", "resps", "filtered_resps", "token_counts", "doc_hash"),
    *("input_media", "input"),
)
"""What lmms-eval 0.7.3 itself writes into a line."""

_VERSION = re.compile(r"\|pkg:[^|]*")
_UNSAFE = re.compile(r"[^\w.()+@ -]")


@runtime_checkable
class Rerecording(Protocol):
    """A reviewer whose records hold more of a reading than its verdict, or hold it otherwise."""

    def rerecord(self, line: Line) -> Mapping[str, object]:
        """The record with what the current readers make of it."""
        ...


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
        for numbered in lines(rescored.task.log):
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
    review = rescored.task.review
    if isinstance(review, Rerecording):
        record = dict(review.rerecord(line))
    else:
        record = _plain(rescored, line)
    if isinstance(signature := record.get("signature"), str):
        record["signature"] = _VERSION.sub(f"|pkg:{__version__}", signature)
    record["rescored"] = {"pkg": __version__, "changed": changed}
    return {**runners, "coverage": record}


def _plain(rescored: Rescored, line: Line) -> dict[str, object]:
    """The record of a benchmark that says nothing of how it writes verdicts."""
    record = line["coverage"]
    verdicts = rescored.task.review.reread(line) or {}
    rows = {name: as_row(verdicts[name]) for name in READINGS if name in verdicts}
    return {**(record if isinstance(record, Mapping) else {}), **rows}
