"""Checks the saved answers and the data that a command line names, before the runner loads them.

Only what would end the run later is an error. Names that are not exactly tasks or tags of ours, and
command lines that give such names another meaning, are left to the runner.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from mmie_tasks.answers.files import read_answers
from mmie_tasks.answers.saved import SavedAnswer
from mmie_tasks.benchmarks.registry import BenchmarkEntry, dataset_names, entry_of_task, is_setting
from mmie_tasks.core.choice import split_options
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.log import is_first_process
from mmie_tasks.hub.pinned_file import downloads_are_off
from mmie_tasks.judges.choice import ALL_OTHERS, ChosenJudges, JudgeChoices
from mmie_tasks.runner.registration import read_override

_Selection: TypeAlias = Mapping[BenchmarkEntry, Sequence[str]]


def check_command_line(
    arguments: Sequence[str], environment: Mapping[str, str], choices: JudgeChoices
) -> None:
    """Check the answers for ``--model predictions``, and the data of our tasks in ``--tasks``.

    Nothing is downloaded. Nothing is checked with ``--config``, which has the options in a file,
    and on ranks but 0. Ends the process with status 2 if an option has no value.

    Args:
        arguments: Those of lmms-eval; for anything but an evaluation they name nothing to check.
        environment: Has the variables of data, such as ``MMIE_DATA``.
        choices: Of ``mmie-tasks eval``, with the benchmarks' settings.

    Raises:
        AnswersUnusable: The answers cannot be read, or none is to a task of a requested benchmark.
        DataMissing: A folder of data does not exist, or there is no data and downloads are off.
        SettingWrong: A variable has an invalid value, there is no ``--model``, or ``--tasks`` is a
            folder without task files.
    """
    options = _parsed(arguments)
    if options.help or options.config or not is_first_process(environment):
        return
    folder = options.tasks
    if os.path.isdir(folder) and not any(Path(folder).glob("*.yaml")):  # noqa: PTH112 - any length
        raise SettingWrong(  # the runner would find no tasks (`__main__.py:705`)
            f"`--tasks {folder}`: there is a folder `{folder}` here, which lmms-eval takes for the "
            "tasks, and it has no task files (`*.yaml`).",
            hint="for the task of that name, start in another folder",
        )
    selection = _selection(options, environment)
    if selection and not options.model:  # lmms-eval's default, `hf`, is none of its models
        hint = "`--model NAME`; `mmie-tasks models` lists them, `predictions` scores saved answers"
        raise SettingWrong("The command names no model to test.", hint=hint)
    if options.model == "predictions":
        _check_answers(options.model_args, selection)
    if not options.predict_only:  # it needs no judge prompts
        _check_data(selection, environment, choices or _launched(options.launcher_args))


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("lmms-eval", usage=argparse.SUPPRESS, add_help=False)
    for name in ("config", "include_path", "launcher_args", "model", "model_args", "tasks"):
        parser.add_argument(f"--{name}", default="")
    for name in ("--help", "--predict_only"):
        parser.add_argument(name, action="store_true")
    options, others = parser.parse_known_args(arguments)
    options.help |= "-h" in others
    options.predict_only |= any(word.startswith("-x") for word in others)
    return options


def _selection(options: argparse.Namespace, environment: Mapping[str, str]) -> _Selection:
    """Our benchmarks to their requested tasks; none where task files of others may come first."""
    has_other_files = (
        options.include_path
        or environment.get("LMMS_EVAL_PLUGINS")  # adds to `--include_path` (`__main__.py:692`)
        or not read_override(environment)
        or os.path.isdir(options.tasks)  # noqa: PTH112 - any length
    )
    selection: dict[BenchmarkEntry, tuple[str, ...]] = {}
    for name in [] if has_other_files else options.tasks.split(","):
        entry = entry_of_task(name)
        if entry is not None and entry.is_ours and (tasks := entry.tasks_by_name().get(name)):
            selection[entry] = (*selection.get(entry, ()), *tasks)
    return selection


def _check_answers(model_args: str, selection: _Selection) -> None:
    answers = read_answers(_pairs(model_args).get("path", ""), dataset_names()).answers
    logged = {answer.task: answer for answer in answers}
    owners = {entry_of_task(task or "") for task in logged}
    for entry, tasks in selection.items():
        if None not in owners and entry not in owners:
            raise _of_other_tasks(tasks[0], logged, len(answers))


def _pairs(text: str) -> Mapping[str, str]:
    pairs = (part.partition("=") for part in split_options(text) if part)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _launched(launcher_args: str) -> JudgeChoices:
    """The settings of benchmarks in ``--launcher_args``."""
    settings = {key: value for key, value in _pairs(launcher_args).items() if is_setting(key)}
    return {ALL_OTHERS: ChosenJudges(settings=settings)}


def _of_other_tasks(
    task: str, logged: Mapping[str | None, SavedAnswer], count: int
) -> AnswersUnusable:
    names = sorted(filter(None, logged))
    location = next(iter(logged.values())).location
    return AnswersUnusable(
        f"None of the {count:,} saved answers is to `{task}`: they are in logs of "
        f"{', '.join(f'`{name}`' for name in names)} ({location}).",
        hint=f"point `path` at the answers to this task, or `--tasks {','.join(names)}`",
    )


def _check_data(
    selection: _Selection, environment: Mapping[str, str], choices: JudgeChoices
) -> None:
    """Raise the error of the first asset that is not here and cannot be downloaded.

    Offline, `Asset.fetch` only unpacks what is in the Hub's cache, as the run would.
    """
    is_offline = downloads_are_off(environment)
    for entry, tasks in selection.items():
        benchmark = entry.load()
        settings = benchmark.settings
        benchmark.configure(choices)
        try:
            for asset in benchmark.assets(tasks, environment):
                if not asset.is_here() and (is_offline or asset.origin == "local"):
                    asset.fetch()
        finally:
            benchmark.settings = settings
