"""Shared by the commands on logged runs: arguments and their checks, opening runs, text files."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from mmie_tasks.benchmarks.registry import benchmark_of_task, entries, entry_names, entry_of_task
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.verdict import ALL_KINDS
from mmie_tasks.core.wording import listed
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.runs import run as run_files
from mmie_tasks.runs.run import Run, TaskRun
from mmie_tasks.runs.values import reasons_of

_RUN = "a run with `--log_samples`: the folder of `--output_path`, a results file or a sample log"


def result_parser(
    command: str,
    description: str,
    *,
    runs: Sequence[str] | Literal["RUN", "RUN_OR_CSV"] = "RUN",
    reading: bool = True,
    top: int | None = None,
) -> argparse.ArgumentParser:
    """A parser with the shared arguments.

    It parses ``runs`` (or one per name in `runs`), ``tasks``, a text for `listed_names`, and
    ``json`` for every command but ``report``.

    Args:
        command: The words after ``mmie-tasks``.
        description: The text above the list of arguments.
        runs: Names of single runs, or the kind of a list of one or more.
        reading: Whether there is ``--reading``, parsed as ``score_kind``.
        top: Default of ``--top``, the number of samples to list; None for no such option.
    """
    parser = argparse.ArgumentParser(prog=f"mmie-tasks {command}", description=description)
    name_hint = "; NAME=PATH gives it a name"
    if isinstance(runs, str):
        csv_hint = "; or a CSV with the columns `id, score` (and `rater`, for several people)"
        help_text = f"{_RUN}{csv_hint if runs == 'RUN_OR_CSV' else ''}{name_hint}"
        parser.add_argument("runs", nargs="+", metavar=runs, help=help_text)
    else:
        for name in runs:
            parser.add_argument(name, metavar=name.upper(), help=f"{_RUN}{name_hint}")
    default = "all that the runs have in common" if reading else "all"
    help_text = f"only these{' tasks' if reading else ''}; default: {default}"
    parser.add_argument("--tasks", "--task", default="", metavar="A,B", help=help_text)
    if reading:
        parser.add_argument(
            "--reading",
            dest="score_kind",
            choices=ALL_KINDS,
            default="official",
            help="the official, robust or expected score; default: %(default)s",
        )
    if top is not None:
        help_text = "list at most N samples; default: %(default)s"
        whole = whole_number(0)
        parser.add_argument("--top", type=whole, default=top, metavar="N", help=help_text)
    if command != "report":
        parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def whole_number(lowest: int) -> Callable[[str], int]:
    """The type of an option that is a whole number; another value is a usage error."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdigit() and int(text) >= lowest):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, {lowest} or more")
        return int(text)

    return parse


def require_range(option: str, number: int, lowest: int, highest: int | None, hint: str) -> None:
    """Raise `SettingWrong` unless the number of an option is from `lowest` to `highest`, if any."""
    if number < lowest or (highest is not None and number > highest):
        raise SettingWrong(f"`{option}` is {number}.", hint=hint)


def listed_names(text: str) -> list[str]:
    """The names of an option like ``--tasks A,B``.

    >>> listed_names("mmie, mia_bench,")
    ['mmie', 'mia_bench']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def open_runs(sources: Iterable[str], tasks: Sequence[str] = ()) -> list[Run]:
    """The runs that a command line names, each with a unique name.

    Args:
        sources: ``PATH`` or ``NAME=PATH``; one path may hold several runs.
        tasks: The tasks to read; empty for all tasks of registered benchmarks.

    Raises:
        AnswersUnusable: A run cannot be read, or has none of the tasks.
        SettingWrong: A task does not belong to a registered benchmark.
    """
    for task in tasks:
        if entry_of_task(task) is None:
            raise SettingWrong(
                f"`{task}` is not a task of a registered benchmark.",
                hint=f"task names begin with {entry_names(entries())}",
            )
    return run_files.open_runs(sources, benchmark_of_task, tasks)


def notes_of(runs: Sequence[Run]) -> list[str]:
    """The notes on what was ignored in the logs: first for whole runs, then for their tasks."""
    tasks = [
        f"{run.name}, {task.task}: {note}"
        for run in runs
        for task in run.tasks.values()
        for note in task.notes
    ]
    return [f"{run.name}: {note}" for run in runs for note in run.notes] + tasks


def open_run(source: str, tasks: Sequence[str] = ()) -> Run:
    """The single run that ``PATH`` or ``NAME=PATH`` names.

    Raises:
        AnswersUnusable: The run cannot be read, or has none of the tasks.
        SettingWrong: The path holds several runs, or a task is not of a registered benchmark.
    """
    runs = open_runs([source], tasks)
    if len(runs) > 1:
        folders = ", ".join(f"`{run.folder}`" for run in runs)
        raise SettingWrong(
            f"`{source}` contains {len(runs)} runs: {folders}.", hint="name one of them"
        )
    return runs[0]


def require_kind(task_run: TaskRun, label: str, kind: ScoreKind) -> None:
    """Raise `SettingWrong` unless a task of the run `label` has scores of a kind."""
    if kind not in task_run.score_kinds:
        raise SettingWrong(
            f"`{task_run.task}` of `{label}` has no {kind} scores: "
            f"{listed(reasons_of(task_run, kind))}.",
            hint="only a judge that reports the probabilities of its digits gives them; `--tasks` "
            "selects other tasks, `--reading official` other scores",
        )


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


def write_with_folder(path: Path, text: str) -> None:
    """Make the folder of a file and write the file; raises `SettingWrong` if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"The folder `{path.parent}` cannot be made: {error.strerror}."
        raise SettingWrong(message, hint="name another folder with `-o`") from error
    write_text(path, text)
