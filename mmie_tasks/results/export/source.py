"""What is exported of a run: tasks with an official score, their data set, and the run's time."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.results.commands import write_text
from mmie_tasks.runs.headline import Headline, headline_of
from mmie_tasks.runs.run import Run, TaskRun

_HUB_DATA = re.compile(r"(?P<id>[\w.-]+/[\w.-]+)@(?P<revision>[0-9a-f]{40})", re.ASCII)
_STARTED = "%Y-%m-%d %H:%M UTC"  # as `mmie_tasks.runs.run.utc_time` shows it


@dataclass(frozen=True, slots=True)
class DatasetSource:
    """A data set on the Hub, such as ``MMIE/MMIE``, and its commit, if it is known."""

    id: str
    revision: str | None = None


def export_parser(target: str, description: str, output: str) -> argparse.ArgumentParser:
    """A parser of ``run``, ``output`` and ``tasks``, a text for `listed_names`; `output` says what
    the folder of ``-o`` is.
    """
    parser = argparse.ArgumentParser(prog=f"mmie-tasks export {target}", description=description)
    parser.add_argument("run", metavar="RUN", help="a run with `--log_samples`")
    help_text = f"{output}; default: this one"
    parser.add_argument("-o", "--output", type=Path, default=".", metavar="DIR", help=help_text)
    help_text = "only these tasks; default: all"
    parser.add_argument("--tasks", "--task", default="", metavar="A,B", help=help_text)
    return parser


def headlines(run: Run) -> Mapping[str, Headline]:
    """Task to its headline, which has an official score.

    Raises:
        AnswersUnusable: A task has no official score; the message says why.
    """
    by_task = {task: headline_of(task_run) for task, task_run in run.tasks.items()}
    for task, headline in by_task.items():
        if headline.official is None or headline.official.percent is None:
            raise AnswersUnusable(
                f"`{task}` of `{run.name}` cannot be exported: {'; '.join(headline.missing)}.",
                hint="`--tasks` selects other tasks",
            )
    return by_task


def hub_dataset(task_run: TaskRun) -> DatasetSource | None:
    """The data set of a task, if the run downloaded it from the Hub: that of the signature."""
    match = _HUB_DATA.match(task_run.signatures[0].fields.get("data", ""))
    return DatasetSource(match["id"], match["revision"]) if match else None


def iso_time(run: Run) -> str | None:
    """When a run began, in UTC: ``2026-11-22T10:19:00+00:00``; None if its time zone was not
    logged.
    """
    try:
        started = datetime.strptime(run.started, _STARTED)  # noqa: DTZ007 - the zone follows
    except ValueError:
        return None
    return started.replace(tzinfo=timezone.utc).isoformat()


def write_file(path: Path, text: str) -> None:
    """Write a file, with a line break at its end, and make its folder.

    Raises:
        SettingWrong: It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"The folder `{path.parent}` cannot be made: {error.strerror}."
        raise SettingWrong(message, hint="name another folder with `-o`") from error
    write_text(path, text)
