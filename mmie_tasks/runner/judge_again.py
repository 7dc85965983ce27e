"""Judges the saved answers of a run again, by the run's tasks and options."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from loguru import logger

from mmie_tasks.answers.saved import answer_paths, argument_of
from mmie_tasks.benchmarks.model_answers import answer_folders_of_run, resolver
from mmie_tasks.benchmarks.registry import is_setting, require_judged
from mmie_tasks.core.choice import split_options
from mmie_tasks.core.command import as_called
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.log import quiet_libraries
from mmie_tasks.core.wording import counted
from mmie_tasks.hub.images import has_changed
from mmie_tasks.judges.choice import (
    ALL_OTHERS,
    ChosenJudges,
    JudgeChoices,
    parse_flags,
    parse_judges,
)
from mmie_tasks.record.log_files import split_name
from mmie_tasks.results.commands import listed_names
from mmie_tasks.results.run import Run, TaskRun, load_run
from mmie_tasks.runner.command_line import run_lmms_eval
from mmie_tasks.runner.evaluation import served_model_of
from mmie_tasks.runner.kept_replies import has_failed, keep_replies
from mmie_tasks.runner.results_metadata import judges_of
from mmie_tasks.runner.saved_answers import SAMPLE_OPTIONS, predictions_arguments


def judge_again(options: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """The command on its parsed arguments; see `rejudge.run`."""
    choices = parse_flags(options.judge, options.judge_args, is_setting)
    has_judge = any(chosen.judges for chosen in choices.values())
    if not has_judge and not options.failed:
        return _read_again(options)
    require_judged(choices, "`--judge`")
    _check_model_args(options.model_args)
    logged_run = load_run(options.run, listed_names(options.tasks))
    tasks = _judged_tasks(logged_run, choices)
    config = _config(tasks)
    if options.failed:
        choices = choices if has_judge else {**_own_judges(tasks), **choices}
        for task_run in tasks:
            keep_replies(task_run, choices, environment)
        failed = any(has_failed(record) for task_run in tasks for record in task_run.records)
        if not failed and not options.model_args:
            print("Nothing failed: every answer that a judge got has points. No run was written.")
            return 0
    choices = _with_settings(choices, tasks)
    source = split_name(options.run).path
    output = options.output_path or _output_folder(source, choices, failed=options.failed)
    logs, names = (
        [log for task in tasks for log in task.logs],
        ",".join(task.task for task in tasks),
    )
    arguments = predictions_arguments(
        logs, names, config, argument_of(Path(output)), options.model_args
    )
    sys.argv[1:] = ["eval", *arguments, "--verbosity", "WARNING"]
    quiet_libraries()
    with answer_folders_of_run():
        _search_pictures(tasks, config, source)
        _warn_of_changed_images(tasks)
        return run_lmms_eval(choices, served_model_of(config), [task.task for task in tasks])


def _read_again(options: argparse.Namespace) -> int:
    """Print what today's readers say of the saved replies."""
    if given := [
        name for name in ("judge_args", "model_args", "output_path") if vars(options)[name]
    ]:
        raise SettingWrong(
            f"`--{given[0]}` needs `--judge` or `--failed`: without them no judge is asked and no "
            "run is saved.",
            hint="`--judge JUDGE` for all answers, `--failed` for those without points",
        )
    from mmie_tasks.runner.regrade import regraded, regraded_text

    logged_run = load_run(options.run, listed_names(options.tasks))
    print(regraded_text([regraded(task_run) for task_run in logged_run.tasks.values()]))
    return 0


def _check_model_args(model_args: str) -> None:
    """Raise `SettingWrong` for arguments that are not about images: the run has the others."""
    names = [pair.partition("=")[0].strip() for pair in split_options(model_args) if pair]
    if others := [name for name in names if name not in ("images", "missing")]:
        raise SettingWrong(
            f"`--model_args` of `mmie-tasks rejudge` has no `{others[0]}`.",
            hint="`images=FOLDER`, `missing=stop` and `missing=count` are about images of answers",
        )


def _judged_tasks(logged_run: Run, choices: JudgeChoices) -> list[TaskRun]:
    """The tasks with a judge, limited to the benchmarks that the choices name."""
    judged = [task for task in logged_run.tasks.values() if task.benchmark.judge is not None]
    named = {name for name, chosen in choices.items() if chosen.judges}
    tasks = [
        task for task in judged if not named or ALL_OTHERS in named or task.benchmark.name in named
    ]
    if not tasks:
        names = ", ".join(sorted({task.benchmark.name for task in judged})) or "none"
        raise SettingWrong(
            f"`{logged_run.folder}` has no task of a benchmark that these judges are for.",
            hint=f"its benchmarks with a judge: {names}",
        )
    return tasks


def _config(tasks: Sequence[TaskRun]) -> Mapping[str, object]:
    """The lmms-eval options by name; raises `SettingWrong` if unknown or not equal in all tasks."""
    options = [_options(task_run) for task_run in tasks]
    if not all(options):
        raise SettingWrong(
            "A log of this run has no results file beside it, `<date>_results.json`, so the "
            "options of its run are not known.",
            hint=f"name tasks and options yourself: `{as_called('mmie-tasks eval')} --model "
            "predictions --model_args path=FOLDER`",
        )
    first, *rest = options
    for name in SAMPLE_OPTIONS:
        if any(other.get(name) != first.get(name) for other in rest):
            raise SettingWrong(
                f"The tasks of this run were evaluated with different values of `--{name}`.",
                hint="one evaluation at a time: name its results file, or use `--tasks`",
            )
    return first


def _options(task_run: TaskRun) -> Mapping[str, object]:
    """The lmms-eval options of a task's run; for several logs, those that select all their samples.

    Raises `SettingWrong` if no options do.
    """
    options = task_run.saved.options
    if len(task_run.logs) < 2 or not options:
        return options
    if task_run.limit is None:
        raise SettingWrong(
            f"The {len(task_run.logs)} logs of `{task_run.task}` leave out samples between them, "
            "which no `--limit` and `--offset` select.",
            hint="one log at a time",
        )
    return {**options, "limit": task_run.limit, "offset": task_run.offset}


def _own_judges(tasks: Sequence[TaskRun]) -> JudgeChoices:
    """The judges of the run by benchmark; raises `SettingWrong` if unknown or ambiguous."""
    choices: JudgeChoices = {}
    for task_run in tasks:
        name = task_run.benchmark.name
        texts = judges_of(task_run.saved.metadata(task_run.task))
        if not texts:
            raise SettingWrong(
                f"The results file of `{task_run.task}` does not name its judge; none does whose "
                "address holds a password or a query.",
                hint=f"`--judge {name}=JUDGE` with the judge of the run",
            )
        chosen = parse_judges(texts, "the run")[ALL_OTHERS]
        if choices.get(name, chosen) != chosen:
            raise SettingWrong(
                f"The tasks of `{name}` were judged by different judges.",
                hint="one of them at a time: `--tasks`",
            )
        choices = {**choices, name: chosen}
    return choices


def _with_settings(choices: JudgeChoices, tasks: Sequence[TaskRun]) -> JudgeChoices:
    """The choices with the settings of the run, which those that are given now replace."""
    everywhere = choices.get(ALL_OTHERS, ChosenJudges()).settings
    for task_run in tasks:
        benchmark = task_run.benchmark
        metadata = task_run.saved.metadata(task_run.task)
        names = metadata.keys() & benchmark.settings_type.model_fields.keys() - everywhere.keys()
        chosen = choices.get(benchmark.name, ChosenJudges())
        settings = {name: str(metadata[name]) for name in names} | {**chosen.settings}
        choices = {**choices, benchmark.name: replace(chosen, settings=settings)}
    return choices


def _output_folder(source: Path, choices: JudgeChoices, *, failed: bool) -> Path:
    """The folder of the new run, next to the old one.

    >>> choices = parse_judges(["openai:Qwen/Qwen3-VL-32B"], "here")
    >>> _output_folder(Path("/runs"), choices, failed=False).name
    'runs-by-Qwen3-VL-32B'
    """
    folder = (source if source.is_dir() or not source.exists() else source.parent).resolve()
    models = [
        Path(judge.options.get("model", judge.name)).name
        for chosen in choices.values()
        for judge in chosen.judges
    ]
    names = "+".join(re.sub(r"[^\w.-]+", "_", model) for model in dict.fromkeys(models))
    return folder.with_name(f"{folder.name}-{'filled' if failed else f'by-{names}'}")


def _search_pictures(tasks: Sequence[TaskRun], config: Mapping[str, object], source: Path) -> None:
    """Search for pictures of answers where the run did, near its saved answers and output."""
    folders = [Path(str(config.get("output_path") or "")), source]
    if config.get("model") == "predictions":
        named = re.findall(r"(?:^|,)(?:path|images)=([^,]*)", str(config.get("model_args")))
        paths = [path for names in named for path in answer_paths(names)]
        folders[:0] = [path if path.is_dir() else path.parent for path in paths]
    for benchmark in {task.benchmark.name: task.benchmark for task in tasks}.values():
        for folder in filter(Path.is_dir, folders):
            benchmark.add_answer_folder(folder)


def _warn_of_changed_images(tasks: Sequence[TaskRun]) -> None:
    """Warn if image files of answers are not what the run judged."""
    segments = (s for task_run in tasks for sample in task_run.records for s in sample.answer)
    judged = sorted({(s.image, s.sha256) for s in segments if s.image and s.sha256})
    files = ((resolver().locate(image).path, sha256) for image, sha256 in judged)
    if changed := [file for file, sha256 in files if file and has_changed(file, sha256)]:
        logger.warning(
            f"{counted(len(changed), 'image')} of answers changed since the run, the first: "
            f"`{changed[0]}`. The judge gets the files as they are now."
        )
