"""Logs with the verdicts of the current readers, for the other commands."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mmie_tasks.core import __version__
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.record.record import Rescored
from mmie_tasks.record.sample_line import sample_line
from mmie_tasks.results.rescore.attempt import attempt
from mmie_tasks.results.rescore.rescored_task import RescoredTask
from mmie_tasks.runs.run import Run, record_lines

_RUNNER_KEYS = (
    *("doc_id", "target", "resps", "filtered_resps", "token_counts", "doc_hash"),
    *("input_media", "input"),
)
"""The keys of a line that lmms-eval 0.7.3 itself writes."""


def write_logs(folder: Path, runs: Sequence[tuple[Run, Sequence[RescoredTask]]]) -> bool:
    """Write every log with its new verdicts into a folder of the run's name, as one step.

    Returns whether all logs are written; a log is left out if its benchmark cannot make the
    records.
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
                if attempt(_write_log, subject, task, log) is None:
                    log.unlink()
                    is_complete = False
        unfinished.replace(folder)
    except OSError as error:
        hint = "name a folder on a disk with enough space for the logs"
        raise SettingWrong(f"`{folder}` cannot be written: {error.strerror}.", hint=hint) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return is_complete


def _write_log(rescored: RescoredTask, path: Path) -> Path:
    changed = {change.id for change in rescored.changes}
    benchmark = rescored.task_run.benchmark
    with path.open("w", encoding="utf-8") as file:
        for record, line in record_lines(rescored.task_run):
            rewritten = line
            if record.id not in rescored.not_rescored:
                note = Rescored(pkg=__version__, changed=record.id in changed)
                signature = replace(record.signature, package=__version__)
                update = {"signature": signature, "rescored": note}
                again = benchmark.regraded(record, line).model_copy(update=update)
                runner_values = {key: line[key] for key in _RUNNER_KEYS if key in line}
                rewritten = sample_line(runner_values, again, benchmark.scale)
            file.write(f"{json.dumps(rewritten)}\n")
    return path
