"""Shared by the exports to databases: their arguments, and the headlines to export."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.runs.headline import Headline, headline_of
from mmie_tasks.runs.run import Run


def database_parser(target: str, description: str, output: str) -> argparse.ArgumentParser:
    """A parser of ``run``, ``output`` (the folder, described by `output`) and ``tasks``, a text."""
    parser = argparse.ArgumentParser(prog=f"mmie-tasks export {target}", description=description)
    parser.add_argument("run", metavar="RUN", help="a run with `--log_samples`")
    help_text = f"{output}; default: this one"
    parser.add_argument("-o", "--output", type=Path, default=".", metavar="DIR", help=help_text)
    help_text = "only these tasks; default: all"
    parser.add_argument("--tasks", "--task", default="", metavar="A,B", help=help_text)
    return parser


def official_headlines(run: Run) -> Mapping[str, Headline]:
    """The headline of each task; raises `AnswersUnusable` if a task has no official score."""
    by_task = {task: headline_of(task_run) for task, task_run in run.tasks.items()}
    for task, headline in by_task.items():
        if headline.official is None or headline.official.percent is None:
            raise AnswersUnusable(
                f"`{task}` of `{run.name}` cannot be exported: {'; '.join(headline.missing)}.",
                hint="`--tasks` selects other tasks",
            )
    return by_task
