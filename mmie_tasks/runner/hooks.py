"""What the package does to a run of lmms-eval: check data and judge early, sign the results.

Two hooks, both installed by `mmie_tasks.runner.registration` when the runner builds its index of
tasks. `wrap_evaluator` checks the judges before a model is loaded, notes which model is
tested, and keeps tasks apart in its batches. `wrap_task_loader` prepares each loaded task that
belongs to a benchmark; the benchmark is known through its `Benchmark` object only.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.registry import BenchmarkEntry, entries, entry_of_module, require_judged
from mmie_tasks.core.errors import MmieTasksError, SettingWrong
from mmie_tasks.judges.base import Outcome
from mmie_tasks.judges.choice import VARIABLE, JudgeChoices, environment_choices
from mmie_tasks.judging.benchmark_judge import BenchmarkJudge
from mmie_tasks.judging.session import JudgingSession
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.runner.answer_files import OUTPUT, remove_after_logging
from mmie_tasks.runner.generation import (
    called_after_generation,
    mark_instructed,
    name_null_replies,
    one_task_per_call,
)
from mmie_tasks.runner.interruption import exits_on_ctrl_c, judging_stops_on_ctrl_c
from mmie_tasks.runner.run_summary import (
    SUMMARY,
    print_at_exit,
    report_command,
    shows_all_rows,
    summarise_after,
)

Method: TypeAlias = Callable[..., Any]
Task: TypeAlias = Any  # the runner's task object; the runner is untyped

_WRAPPED = "_mmie_tasks_wrapped"

sketch_file: Path | None = None
"""The page of ``mmie-tasks eval --sketch``; None for other runs."""

command_judges: JudgeChoices = {}
"""The judges of ``mmie-tasks eval --judge``, for all evaluations of the command line."""

_begun: ContextVar[JudgingSession | None] = ContextVar("begun", default=None)
"""The session that ``simple_evaluate`` has begun, and in which ``evaluate`` judges."""

_benchmarks: WeakKeyDictionary[object, Benchmark] = WeakKeyDictionary()  # of loaded tasks


def wrap_once(owner: object, name: str, wrap: Callable[[Method], Method]) -> None:
    """Replace a function of a class or module by its wrapper, unless that has been done."""
    original = getattr(owner, name)
    if not hasattr(original, _WRAPPED):
        wrapper = wrap(original)
        setattr(wrapper, _WRAPPED, True)
        setattr(owner, name, wrapper)


# Loaded tasks


def wrap_task_loader(load: Method) -> Method:
    """Wrap a method of the runner's ``TaskManager`` so that it prepares the tasks it returns."""

    @functools.wraps(load)
    def load_and_prepare(manager: object, *args: object, **kwargs: object) -> Mapping[Any, Any]:
        loaded: Mapping[Any, Any] = load(manager, *args, **kwargs)
        for task in _leaf_tasks(loaded).values():
            if (benchmark := benchmark_of(task)) is not None:
                _benchmarks[task] = benchmark
                add_provenance(task, benchmark)
                check_before_requests(task, benchmark)
        return loaded

    return load_and_prepare


def _leaf_tasks(loaded: Mapping[Any, Any]) -> dict[str, Task]:
    """Name to task object in what the runner loaded: groups are nested mappings."""
    tasks: dict[str, Task] = {}
    for name, entry in loaded.items():
        if isinstance(entry, Mapping):
            tasks |= _leaf_tasks(entry)
        elif (task := entry[1] if isinstance(entry, tuple) else entry) is not None:
            tasks[name] = task
    return tasks


def benchmark_of(task: Task) -> Benchmark | None:
    """The benchmark whose package defines the task's functions; None for other tasks.

    ``--predict_only`` clears the functions later, so this is called when the task is loaded.

    Raises:
        SettingWrong: The benchmark is registered and cannot be loaded.
    """
    config = getattr(task, "config", None)
    for key in ("process_docs", "process_results"):
        module = getattr(getattr(config, key, None), "__module__", None)
        if module and (entry := entry_of_module(module)):
            return entry.load()
    return None


def loaded_benchmark(task: object) -> Benchmark | None:
    """The benchmark of a task that has been loaded, also after ``--predict_only``; None for other
    objects.
    """
    return _benchmarks.get(task)


def check_before_requests(task: Task, benchmark: Benchmark) -> None:
    """Check a task's data and judge when the runner builds its requests.

    That is after ``--predict_only`` and ``--limit`` are known and before any generation
    (``evaluator.py:1128``). The benchmark is told the run's output folder first: answers may refer
    to images there. A task of a benchmark without check, judge and signature stays as it is.

    On the command line a `MmieTasksError` ends the process with its text and status 1; the runner
    would print a traceback and end with 0. From Python the exception is raised as it is.
    """
    if benchmark.check_data is None and benchmark.judge is None and benchmark.signature is None:
        return
    build = task.build_all_requests

    @functools.wraps(build)
    def build_all_requests(*args: object, **kwargs: Any) -> None:  # noqa: ANN401 - as the original
        command_line = _command_line(task)
        try:
            output_path = getattr(command_line, "output_path", None)
            if benchmark.add_answer_folder and isinstance(output_path, str) and output_path:
                benchmark.add_answer_folder(Path(output_path))
            _check_data(benchmark, task, kwargs)
            if not _is_predict_only(task):
                if benchmark.judge is not None:
                    benchmark.judge.sync = bool(getattr(command_line, "baseline", None))
                    check_judges([benchmark.judge], kwargs.get("rank") or 0)
                if benchmark.signature is not None:
                    benchmark.signature(task.eval_docs_no_media[0])  # its settings are valid
        except MmieTasksError as error:
            if command_line is None:
                raise
            raise SystemExit(str(error)) from None
        build(*args, **kwargs)

    task.build_all_requests = build_all_requests


def _command_line(task: object) -> object | None:
    """The parsed command line; None for a run that was started from Python."""
    return getattr(task, "args", None)


def _check_data(benchmark: Benchmark, task: Task, options: Mapping[str, Any]) -> None:
    """Check the documents that ``--limit`` and ``--offset`` leave, of all ranks together.

    Saved answers need no images, unless a judge sees them.
    """
    answers_are_saved = getattr(task, "model_name", None) == "predictions"
    needs_no_images = answers_are_saved and not _is_judged(task, benchmark)
    if benchmark.check_data is None or needs_no_images:
        return
    docs, start = task.eval_docs_no_media, int(options.get("offset") or 0)
    limit = int(options.get("limit") or 0) or len(docs)
    indices = range(len(docs))[start : start + limit]
    benchmark.check_data(
        [docs[i] for i in indices] if isinstance(docs, list) else docs.select(indices)
    )


def _is_judged(task: Task, benchmark: Benchmark) -> bool:
    return benchmark.judge is not None and not _is_predict_only(task)


def _is_first_process() -> bool:
    return os.environ.get("RANK", "0") == "0"


def _is_predict_only(task: Task) -> bool:
    """Whether answers are only generated, by any spelling of the option (``api/task.py:719``)."""
    return "bypass" in task._metric_fn_list


def check_judges(judges: Iterable[BenchmarkJudge], rank: int = 0) -> None:
    """Stop a run whose judges cannot work, before anything is generated.

    Rank 0 checks everything; the others check what needs no network.

    Raises:
        MmieTasksError: A judge, or what its requests need, cannot be used.
    """
    require_judged(environment_choices(os.environ), f"`{VARIABLE}`")
    for judge in judges:
        if rank == 0:
            judge.check()
        else:
            judge.judges()


def log_judge_usage(outcome: Outcome) -> None:
    """Enter the tokens of a reply into the runner's ledger as ``judge``, unless it was cached."""
    from lmms_eval.models.model_utils.usage_metrics import log_usage

    if isinstance(outcome, JudgeReply) and not outcome.cached:
        usage = outcome.usage
        log_usage(
            outcome.model,
            input_tokens=usage.input_tokens,
            output_tokens=max(0, usage.output_tokens - usage.reasoning_tokens),
            reasoning_tokens=usage.reasoning_tokens,
            source="judge",
        )


def add_provenance(task: Task, benchmark: Benchmark) -> None:
    """Put the benchmark's provenance into the results file, as ``metadata.provenance``.

    The runner saves the task's configuration, and derives the key of its cache of answers from it.
    """
    provenance = benchmark.provenance(task.eval_docs_no_media[0])
    task.config.metadata = {**(task.config.metadata or {}), "provenance": provenance}


def add_signatures(configs: dict[str, dict[str, Any]], tasks: Mapping[str, Task]) -> None:
    """Put the benchmarks' signatures into the results, as ``metadata.signature``, after judging.

    With them the judges as they were chosen, as ``metadata.judges``, for `rejudge`, unless an
    address of theirs may hold a secret. Not earlier: a judge in this process fixes its signature
    when it starts, and then says what computed its replies, as ``metadata.judged_on``. The task's
    own configuration stays as it is: the runner derives the key of its cache of answers from it,
    which must not change with the judge.

    Args:
        configs: Name of a task to its configuration in the results.
        tasks: Name to task.
    """
    for name, task in tasks.items():
        benchmark = loaded_benchmark(task)
        if benchmark is None or benchmark.signature is None or _is_predict_only(task):
            continue
        metadata = configs[name].setdefault("metadata", {})
        metadata["signature"] = benchmark.signature(task.eval_docs_no_media[0])
        if benchmark.judge is not None:
            judges = [choice.text for choice in benchmark.judge.choices().judges]
            metadata |= {} if None in judges else {"judges": judges}
            machine = benchmark.judge.machine()
            metadata |= {"judged_on": machine} if machine else {}


# The evaluator


def wrap_evaluator() -> None:
    """Wrap functions of the runner's evaluator, if it is imported.

    The command line looks up ``simple_evaluate`` after the index of tasks is built
    (``__main__.py:735``), so a wrong API key ends a run in seconds, before a model is loaded. Code
    that imported the function by name is checked when requests are built. ``simple_evaluate`` calls
    ``evaluate`` with the loaded model and tasks.
    """
    evaluator = sys.modules.get("lmms_eval.evaluator")
    output = getattr(sys.modules.get("lmms_eval.evaluator_utils"), "TaskOutput", None)
    trackers = sys.modules.get("lmms_eval.loggers.evaluation_tracker")
    tracker = getattr(trackers, "EvaluationTracker", None)
    summarise = functools.partial(summarise_after, find_benchmark=benchmark_of)
    for owner, name, wrap in (
        (evaluator, "simple_evaluate", _check_first),
        (evaluator, "evaluate", _prepare_model),
        (output, "calculate_aggregate_metric", summarise),
        (output, "calculate_clt_aggregate_metric", without_errors_of_nan),
        (tracker, "save_results_samples", remove_after_logging),
    ):
        if callable(getattr(owner, name, None)):
            wrap_once(owner, name, wrap)


def without_errors_of_nan(calculate: Method) -> Method:
    """Wrap the calculation of standard errors so that no mean of ours without a value has one.

    The runner computes them from all rows with a ``score``, whatever the mean
    (``evaluator_utils.py``).
    """

    @functools.wraps(calculate)
    def calculate_standard_errors(output: Any) -> None:  # noqa: ANN401 - the runner's
        calculate(output)
        if benchmark_of(output.task) is not None:
            values = output.agg_metrics
            for metric, key in output.sample_metrics:
                value = values.get(f"{metric},{key}")
                if isinstance(value, float) and math.isnan(value):
                    for kind in ("stderr", "stderr_clt", "stderr_clustered"):
                        values[f"{metric}_{kind},{key}"] = "N/A"

    return calculate_standard_errors


def _prepare_model(evaluate: Method) -> Method:
    """Wrap ``evaluate``: the model is recorded, no batch mixes tasks, and the results get the
    details of our tasks.
    """
    signature = inspect.signature(evaluate)

    @functools.wraps(evaluate)
    def evaluate_prepared_model(*args: object, **kwargs: object) -> object:
        from mmie_tasks.runner.model_memory import record_tested_model

        options = signature.bind(*args, **kwargs).arguments
        as_rows = shows_all_rows(os.environ)  # an invalid setting ends the run here, not after it
        model = options["lm"]
        named_tasks = _leaf_tasks(options["task_dict"])
        tasks = list(named_tasks.values())
        record_tested_model(model)
        SUMMARY.clear()
        if pair := getattr(model, "pair", ""):  # of `interleaved`
            SUMMARY.pair = pair
            OUTPUT.name_folder(pair)
        with one_task_per_call(model, tasks), _judging(model, tasks, options):
            results = evaluate(*args, **kwargs)
            OUTPUT.scored(is_first_process=_is_first_process())
            if isinstance(results, dict):  # None on all ranks but 0
                add_signatures(results["configs"], named_tasks)
                SUMMARY.add_details(results, as_rows=as_rows)
        return results

    return evaluate_prepared_model


@contextmanager
def _judging(model: object, tasks: Sequence[Task], options: Mapping[str, Any]) -> Iterator[None]:
    """The judging session of a run; outputs are saved when the model has answered everything."""
    ours = {task: benchmark for task in tasks if (benchmark := loaded_benchmark(task))}
    if not ours:
        yield
        return
    if _is_first_process():
        OUTPUT.warn_of_what_is_not_saved()
    launcher = options.get("eval_server_launcher")
    session = _begun.get() or _new_session(getattr(launcher, "choices", {}))
    with ExitStack() as stack:
        stack.callback(session.close)
        judges = [benchmark.judge for benchmark in ours.values() if benchmark.judge is not None]
        stack.enter_context(session.used_by(judges))
        functions = [lambda: name_null_replies(ours), lambda: mark_instructed(ours)]
        if any(_is_judged(task, benchmark) for task, benchmark in ours.items()):
            functions.append(lambda: OUTPUT.save(tasks))
            if options.get("cli_args") is not None:
                functions.append(stack.enter_context(judging_stops_on_ctrl_c(session)))
        if sketch_file is not None and _is_first_process():
            from mmie_tasks.runner.sketch import write_sketch

            functions.append(
                functools.partial(write_sketch, list(ours.items()), model, sketch_file)
            )
        stack.enter_context(called_after_generation(model, functions))
        yield


def _new_session(choices: JudgeChoices) -> JudgingSession:
    """A session with these judges, or those of ``mmie-tasks eval --judge``."""
    from mmie_tasks.runner.model_memory import free_tested_models

    return JudgingSession(
        choices or command_judges, on_outcome=log_judge_usage, before_loading=free_tested_models
    )


def _check_first(evaluate: Method) -> Method:
    signature = inspect.signature(evaluate)

    @functools.wraps(evaluate)
    def simple_evaluate(*args: object, **kwargs: Any) -> object:  # noqa: ANN401 - as the original
        from mmie_tasks.runner.launchers import parse_launcher_args

        call = signature.bind(*args, **kwargs)
        call.apply_defaults()
        OUTPUT.begin(call.arguments)
        command_line = kwargs.get("cli_args")
        try:
            session = _new_session(parse_launcher_args(call.arguments.get("launcher_args")))
            if command_line is not None and not kwargs.get("predict_only") and _is_first_process():
                shows_all_rows(os.environ)
                _check_requested_judges(kwargs, session)
        except MmieTasksError as error:
            raise SystemExit(str(error)) from None
        begun = _begun.set(session)
        try:
            with exits_on_ctrl_c() if command_line is not None else nullcontext():
                results = evaluate(*args, **kwargs)
        finally:
            _begun.reset(begun)
        if command_line is not None and results is not None:
            report = report_command(
                command_line.output_path, has_samples=command_line.log_samples, answers=OUTPUT.kept
            )
            print_at_exit(SUMMARY.block(command_line.model, command_line.model_args, report))
        return results

    return simple_evaluate


def _check_requested_judges(options: Mapping[str, Any], session: JudgingSession) -> None:
    """Check the judges of the requested tasks.

    Raises:
        MmieTasksError: A judge cannot be used.
    """
    index = getattr(options.get("task_manager"), "task_index", None)
    requested = set(benchmarks_of_tasks(options.get("tasks") or (), index or {}))
    if requested:
        OUTPUT.warn_of_what_is_not_saved()
    benchmarks = [entry.load() for entry in sorted(requested, key=lambda entry: entry.name)]
    judges = [benchmark.judge for benchmark in benchmarks if benchmark.judge is not None]
    if judges:
        with session.used_by(judges):
            check_judges(judges)


def benchmarks_of_tasks(
    tasks: Iterable[object], index: Mapping[str, Mapping[str, Any]]
) -> Iterator[BenchmarkEntry]:
    """The benchmarks whose folders hold the files of some tasks, groups and tags.

    Args:
        tasks: Names as on the command line; other values are skipped.
        index: The runner's index of tasks: name to ``type``, ``task`` and ``yaml_path``.
    """
    for task in tasks:
        indexed = index.get(task, {}) if isinstance(task, str) else {}
        path, members = indexed.get("yaml_path"), indexed.get("task")
        if isinstance(path, str):
            for entry in entries():
                with suppress(SettingWrong):  # its package is broken; registration has logged it
                    if Path(path).resolve().is_relative_to(entry.task_dir().resolve()):
                        yield entry
        elif isinstance(members, list):
            yield from benchmarks_of_tasks(members, index)
