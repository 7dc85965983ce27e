"""The command ``mmie-tasks rescore``: applies the current readers to the replies of saved runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.results.arguments import listed_names, result_parser

if TYPE_CHECKING:
    from mmie_tasks.results.rescore.rescored_task import RescoredTask
    from mmie_tasks.runs.run import Run


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str | int:  # noqa: ARG001 - all commands take it
    """Rescore runs; returns tables or JSON, or prints them and returns 1 if a benchmark failed."""
    options = _parser().parse_args(arguments)
    folder = Path(options.output).expanduser() if options.output else None
    if folder is not None and folder.exists():
        raise SettingWrong(f"`{folder}` already exists.", hint="name a new folder with `-o`")
    from mmie_tasks.results.commands import open_runs
    from mmie_tasks.results.rescore.attempt import attempt
    from mmie_tasks.results.rescore.logs import write_logs
    from mmie_tasks.results.rescore.rescored_task import rescored_task
    from mmie_tasks.results.rescore.text import rescored_json, rescored_text

    runs: list[tuple[Run, Sequence[RescoredTask]]] = []
    is_complete = True
    for opened in open_runs(options.runs, listed_names(options.tasks)):
        tasks = [
            attempt(rescored_task, f"{opened.name}: {task} is not rescored", task_run)
            for task, task_run in opened.tasks.items()
        ]
        is_complete &= None not in tasks
        runs.append((opened, [task for task in tasks if task is not None]))
    if folder is not None:
        is_complete &= write_logs(folder, runs)
    if options.json:
        output = rescored_json(runs)
    else:
        written = f"\n\nWritten to `{folder}`." if folder is not None else ""
        output = rescored_text(runs, options.top) + written
    if is_complete:
        return output
    sys.stdout.write(f"{output}\n")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = result_parser(
        "rescore",
        "Apply the readers of this version to the judge's saved replies, or to answers that are "
        "scored by rule, and print the changes. Makes no judge calls.",
        score=False,
        top=20,
    )
    help_text = (
        "a new folder for the logs with the new verdicts, for the other commands. The record under "
        "`coverage` is updated and marked `rescored`; the rows of single metrics, from which the "
        "runner computed its table, are left out; default: none"
    )
    parser.add_argument("-o", "--output", default="", metavar="FOLDER", help=help_text)
    return parser
