"""Shared by the commands on logged runs: opening runs, their checks, text files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.results.run import Run

INTERVAL_NOTE = "The intervals hold the sampling error only, not the judge's error."
"""What is said of the intervals of judged scores."""


def notes_of(runs: Sequence[Run]) -> list[str]:
    """The notes on what was ignored in the logs: first for whole runs, then for their tasks."""
    tasks = [
        f"{run.name}, {task.task}: {note}"
        for run in runs
        for task in run.tasks.values()
        for note in task.notes
    ]
    return [f"{run.name}: {note}" for run in runs for note in run.notes] + tasks


def common_tasks(runs: Mapping[str, Run]) -> list[str]:
    """The tasks that all runs have, in the order of the first; the keys name the runs in messages.

    Raises `AnswersUnusable` if there is none.
    """
    first, *rest = runs.values()
    common = [task for task in first.tasks if all(task in run.tasks for run in rest)]
    if not common:
        tasks = "; ".join(f"{label} has {', '.join(run.tasks)}" for label, run in runs.items())
        raise AnswersUnusable(
            f"The runs have no task in common: {tasks}.",
            hint="run the same task with all models, or name one run at a time",
        )
    return common


def read_text(path: Path, hint: str) -> str:
    """The text of a user's file, whose content `hint` describes.

    Raises `AnswersUnusable` if the file cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        message = f"Cannot read `{path}`: {error.strerror}."
        raise AnswersUnusable(message, hint="check the path and its permissions") from error
    except UnicodeDecodeError as error:
        message = f"`{path}` is not UTF-8 at byte {error.start}."
        raise AnswersUnusable(message, hint=f"save it in UTF-8; {hint}") from error


def write_text(path: Path, text: str) -> None:
    """Write a file, with a final line break; raises `SettingWrong` if that fails."""
    try:
        path.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise SettingWrong(
            f"`{path}` cannot be written: {error.strerror}.", hint="name another file"
        ) from error
