"""The command ``mmie-tasks rescore``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmie_tasks.errors import SettingWrong
from mmie_tasks.rescoring.page import as_json, page
from mmie_tasks.rescoring.rereading import Rescored, rescore
from mmie_tasks.rescoring.writing import refuse_if_there, write
from mmie_tasks.runs.opening import open_runs
from mmie_tasks.runs.run import Run


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:  # noqa: ARG001 - as all
    """Read saved replies again.

    Args:
        arguments: What stands behind ``rescore``.
        environment: Not read.

    Returns:
        What is to be printed.

    Raises:
        AnswersUnusable: A run cannot be read.
        SettingWrong: An option cannot be obeyed.
    """
    asked = _parser().parse_args(arguments)
    if asked.top < 0:
        raise SettingWrong(f"`--top` is {asked.top}.", hint="0 names no sample")
    folder = Path(asked.output).expanduser() if asked.output else None
    if folder is not None:
        refuse_if_there(folder)
    tasks = [task.strip() for task in asked.tasks.split(",") if task.strip()]
    done: list[tuple[Run, Sequence[Rescored]]] = [
        (opened, [rescore(task) for task in opened.tasks.values()])
        for opened in open_runs(asked.runs, tasks)
    ]
    if folder is not None:
        write(folder, done)
    if asked.json:
        told = [as_json(opened, task) for opened, rescored in done for task in rescored]
        return json.dumps(told, indent=1)
    written = f"\n\nWritten to `{folder}`." if folder is not None else ""
    return page(done, asked.top) + written


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks rescore",
        description="Read the judge's saved replies, or the answers that are scored by rule, once "
        "more with the readers of this version, and show what changed. No judge is asked.",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="a run with `--log_samples`: the folder of `--output_path`, or NAME=FOLDER",
    )
    parser.add_argument("--tasks", default="", metavar="A,B", help="only these; default: all")
    parser.add_argument("--json", action="store_true", help="print JSON, with every change")
    parser.add_argument("--top", type=int, default=20, help="changed verdicts to show of a task")
    parser.add_argument(
        "-o",
        "--output",
        default="",
        metavar="FOLDER",
        help="a new folder for the logs with the new verdicts, for the other commands. The record "
        "under `coverage` is kept up, and says `rescored`; the rows of single metrics, which the "
        "runner made its table of, are left out",
    )
    return parser
