"""Opens the runs named on a results command's line, with the registered benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mmie_tasks.benchmarks.registry import benchmark_of_task, entries, entry_names, entry_of_task
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.runs import log_files
from mmie_tasks.runs.log_files import Run


def open_runs(words: Iterable[str], tasks: Sequence[str] = ()) -> list[Run]:
    """The runs that the words name, each with its own name.

    Args:
        words: ``PATH`` or ``NAME=PATH``; one path may hold several runs.
        tasks: The tasks to read; all of our tasks if none is named.

    Raises:
        AnswersUnusable: A run cannot be read, or has none of the tasks.
        SettingWrong: A task does not belong to a registered benchmark.
    """
    _check_tasks(tasks)
    return log_files.open_runs(words, benchmark_of_task, tasks)


def open_run(word: str, tasks: Sequence[str] = ()) -> Run:
    """The single run that a word names.

    Raises:
        AnswersUnusable: The run cannot be read, or has none of the tasks.
        SettingWrong: The word names several runs, or a task does not belong to a registered
            benchmark.
    """
    _check_tasks(tasks)
    return log_files.open_run(word, benchmark_of_task, tasks)


def _check_tasks(tasks: Iterable[str]) -> None:
    for task in tasks:
        if entry_of_task(task) is None:
            raise SettingWrong(
                f"`{task}` is not a task of a registered benchmark.",
                hint=f"task names begin with {entry_names(entries())}",
            )
