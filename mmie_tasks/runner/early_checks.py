"""Checks data and judges before anything is generated."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mmie_tasks.answers.saved import answer_paths, read_answers
from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.registry import (
    BenchmarkEntry,
    dataset_names,
    entry_of_task,
    require_judged,
)
from mmie_tasks.benchmarks.sample_checks import check_groups
from mmie_tasks.core.errors import AnswersUnusable, MmieTasksError, SettingWrong
from mmie_tasks.core.log import is_first_process
from mmie_tasks.hub.pinned_file import downloads_are_off
from mmie_tasks.judges.choice import VARIABLE, environment_choices
from mmie_tasks.judges.session import judging_in
from mmie_tasks.preflight.needed import refuse_hidden_task
from mmie_tasks.runner.evaluation import RunningEvaluation, model_arguments
from mmie_tasks.runner.loaded_tasks import Task, benchmarks_of_tasks, is_judged, is_predict_only

SAVED = "predictions"
"""The model of lmms-eval that returns saved answers."""


@contextmanager
def errors_end(command_line: object) -> Iterator[None]:
    """On the command line, end the process with the text of a `MmieTasksError` and status 1; the
    runner would print a traceback and end with 0. From Python the exception is raised.
    """
    try:
        yield
    except MmieTasksError as error:
        if command_line is None:
            raise
        raise SystemExit(str(error)) from None


def check_before_requests(
    tasks: Mapping[Task, Benchmark], evaluation: RunningEvaluation, options: Mapping[str, Any]
) -> None:
    """Check data and judges of tasks, before requests are built from their samples.

    `options` are the arguments of ``evaluate``. First, each benchmark gets the run's output folder,
    since answers may refer to images there.

    Raises:
        MmieTasksError: Data, a judge or a setting cannot be used.
    """
    output_path = getattr(options.get("cli_args"), "output_path", None)
    rank = 0 if is_first_process(os.environ) else 1
    for task, benchmark in tasks.items():
        if isinstance(output_path, str) and output_path:
            benchmark.add_answer_folder(Path(output_path))
        evaluation.configure(task.config.task, benchmark, getattr(task.config, "metadata", None))
        _check_data(benchmark, task, options)
        if not is_predict_only(task):
            check_judges([benchmark], rank, asks=not answers_are_saved(task))
            benchmark.signature(task.eval_docs_no_media[0])  # raises for an unusable judge


def _check_data(benchmark: Benchmark, task: Task, options: Mapping[str, Any]) -> None:
    """Check the documents of all ranks within ``--limit`` and ``--offset``.

    Saved answers need no images unless a judge sees them.
    """
    docs, start = task.eval_docs_no_media, int(options.get("offset") or 0)
    limit = options.get("limit") or len(docs)
    limit = math.ceil(len(docs) * limit) if limit < 1 else int(limit)  # as the runner
    indices = range(len(docs))[start : start + limit]
    selected = [docs[i] for i in indices] if isinstance(docs, list) else docs.select(indices)
    if answers_are_saved(task) and not is_judged(task, benchmark):
        check_groups(benchmark.title, selected, benchmark.groups, benchmark.metrics)
    else:
        benchmark.check_data(selected)


def answers_are_saved(task: Task) -> bool:
    """Whether a task is answered by ``--model predictions``."""
    return getattr(task, "model_name", None) == SAVED


def check_judges(benchmarks: Iterable[Benchmark], rank: int = 0, *, asks: bool = True) -> None:
    """Check the judges of benchmarks: rank 0 checks everything, the others what needs no network.

    Judges of saved answers are asked only when these have been matched (`asks`).

    Raises:
        MmieTasksError: A judge, or what its requests need, cannot be used.
    """
    require_judged(environment_choices(os.environ), f"`{VARIABLE}`")
    for benchmark in benchmarks:
        if (judge := benchmark.judge) is None:
            continue
        if rank == 0:
            benchmark.check_setup()
        if rank == 0 and asks:
            judge.check()
        else:
            judge.judge()


def check_before_model(options: Mapping[str, Any], evaluation: RunningEvaluation) -> None:
    """Check what the arguments of ``simple_evaluate`` name, before a model is loaded: the model,
    saved answers, data and judges of our tasks. Nothing is downloaded.

    Raises:
        SettingWrong: ``--tasks`` or ``--model`` names nothing.
        AnswersUnusable: The answers for ``--model predictions`` cannot be read, or none is to a
            task of a requested benchmark.
        MmieTasksError: There is no data and it cannot be downloaded, or a judge cannot be used.
    """
    from lmms_eval.utils import load_yaml_config

    if options["cli_args"] is not None and not options["tasks"]:
        refuse_hidden_task(options["cli_args"].tasks)
        hint = "a pattern has to match a name; `mmie-tasks tasks list` shows all"
        raise SettingWrong(f"`--tasks {options['cli_args'].tasks}` selects no task.", hint=hint)
    index = getattr(options["task_manager"], "task_index", None) or {}
    requested: dict[BenchmarkEntry, list[str]] = {}
    for entry, name in benchmarks_of_tasks(options["tasks"] or (), index):
        requested.setdefault(entry, []).append(name)
    if requested and options["model"] == "hf":  # lmms-eval's default, which is none of its models
        hint = "`--model NAME`; `mmie-tasks models` lists them, `predictions` scores saved answers"
        raise SettingWrong("The command names no model to test.", hint=hint)
    if options["model"] == SAVED:
        _check_answers(model_arguments(options["model_args"]).get("path"), requested)
    benchmarks = [entry.load() for entry in requested]
    for benchmark, names in zip(benchmarks, requested.values(), strict=True):
        for name in names:
            metadata = load_yaml_config(index[name]["yaml_path"], mode="simple").get("metadata")
            evaluation.configure(name, benchmark, metadata)
    if not requested or options["predict_only"]:  # which needs no judge
        return
    evaluation.output.warn_of_what_is_not_saved()
    _check_assets(requested)
    judges = [one.judge for one in benchmarks if one.judge is not None]
    with judging_in(evaluation.session, judges):
        check_judges(benchmarks, asks=options["model"] != SAVED)


def _check_assets(requested: Mapping[BenchmarkEntry, Sequence[str]]) -> None:
    for entry, names in requested.items():
        for asset in entry.load().assets(names, os.environ):
            if not asset.is_here() and (asset.origin == "local" or downloads_are_off(os.environ)):
                asset.fetch()  # offline it only unpacks what is in the Hub's cache


def _check_answers(path: object, requested: Mapping[BenchmarkEntry, Sequence[str]]) -> None:
    answers = read_answers(answer_paths(str(path or "")), dataset_names()).answers
    logged = {answer.task or "": answer for answer in answers}
    owners = {entry_of_task(task) for task in logged}
    for entry, (task, *_) in requested.items():
        if None not in owners and entry not in owners:
            names = ",".join(sorted(logged))
            location = next(iter(logged.values())).location
            raise AnswersUnusable(
                f"None of the {len(answers):,} saved answers is to `{task}`: they are in logs of "
                f"`{names}` ({location}).",
                hint=f"point `path` at the answers to this task, or `--tasks {names}`",
            )
