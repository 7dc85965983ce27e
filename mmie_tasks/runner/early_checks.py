"""Checks data and judges before anything is generated."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.registry import require_judged
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.judges.choice import VARIABLE, environment_choices
from mmie_tasks.judging.benchmark_judge import judging_in
from mmie_tasks.runner.evaluation import RunningEvaluation, running_evaluation
from mmie_tasks.runner.loaded_tasks import Task, benchmarks_of_tasks, is_judged, is_predict_only


def check_before_requests(task: Task, benchmark: Benchmark) -> None:
    """Let a task check its data and judge when the runner builds its requests.

    Then ``--predict_only`` and ``--limit`` are known, and nothing has been generated
    (``evaluator.py:1128``). First, the benchmark gets the run's output folder, since answers may
    refer to images there.

    On the command line a `MmieTasksError` ends the process with its text and status 1; the runner
    would print a traceback and end with 0. From Python the exception is raised.
    """
    build = task.build_all_requests

    @functools.wraps(build)
    def build_all_requests(*args: object, **kwargs: Any) -> None:  # noqa: ANN401 - as the original
        command_line = getattr(task, "args", None)  # None if the run was started from Python
        try:
            output_path = getattr(command_line, "output_path", None)
            if isinstance(output_path, str) and output_path:
                benchmark.add_answer_folder(Path(output_path))
            if (evaluation := running_evaluation()) is not None:
                metadata = getattr(task.config, "metadata", None)
                evaluation.configure(task.config.task, benchmark, metadata)
            _check_data(benchmark, task, kwargs)
            if not is_predict_only(task):
                check_judges([benchmark], kwargs.get("rank") or 0)
                benchmark.signature(task.eval_docs_no_media[0])  # raises for an unusable judge
        except MmieTasksError as error:
            if command_line is None:
                raise
            raise SystemExit(str(error)) from None
        build(*args, **kwargs)

    task.build_all_requests = build_all_requests


def _check_data(benchmark: Benchmark, task: Task, options: Mapping[str, Any]) -> None:
    """Check the documents of all ranks within ``--limit`` and ``--offset``.

    Saved answers need no images unless a judge sees them.
    """
    answers_are_saved = getattr(task, "model_name", None) == "predictions"
    if answers_are_saved and not is_judged(task, benchmark):
        return
    docs, start = task.eval_docs_no_media, int(options.get("offset") or 0)
    limit = int(options.get("limit") or 0) or len(docs)
    indices = range(len(docs))[start : start + limit]
    benchmark.check_data(
        [docs[i] for i in indices] if isinstance(docs, list) else docs.select(indices)
    )


def check_judges(benchmarks: Iterable[Benchmark], rank: int = 0) -> None:
    """Check the judges of benchmarks: rank 0 checks everything, the others what needs no network.

    Raises:
        MmieTasksError: A judge, or what its requests need, cannot be used.
    """
    require_judged(environment_choices(os.environ), f"`{VARIABLE}`")
    for benchmark in benchmarks:
        if (judge := benchmark.judge) is None:
            continue
        if rank == 0:
            benchmark.check_setup()
            judge.check()
        else:
            judge.judge()


def check_requested_judges(options: Mapping[str, Any], evaluation: RunningEvaluation) -> None:
    """Check the judges of the requested tasks; see `check_judges`."""
    from lmms_eval.utils import load_yaml_config

    index = getattr(options.get("task_manager"), "task_index", None)
    requested = set(benchmarks_of_tasks(options.get("tasks") or (), index or {}))
    if requested:
        evaluation.output.warn_of_what_is_not_saved()
    benchmarks = {}
    for entry, path in sorted(requested, key=lambda found: (found[0].name, found[1])):
        benchmarks[entry.name] = benchmark = entry.load()
        metadata = load_yaml_config(str(path), mode="simple").get("metadata")
        evaluation.configure(path.stem, benchmark, metadata)
    judges = [one.judge for one in benchmarks.values() if one.judge is not None]
    if judges:
        with judging_in(evaluation.session, judges):
            check_judges(benchmarks.values())
