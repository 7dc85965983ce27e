"""What is done to a task of ours when it is loaded: its data is checked, and named."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from loguru import logger

from mmie_tasks.benchmarks.registry import BenchmarkEntry, entries, entry_of_module
from mmie_tasks.core.errors import MmieTasksError, SettingWrong
from mmie_tasks.judges.base import JudgeReply, Outcome
from mmie_tasks.judging.session import BenchmarkJudge
from mmie_tasks.runs.benchmark import Benchmark

if TYPE_CHECKING:
    from mmie_tasks.judges.choice import JudgeChoice


# What the runner does for a task with a judge: a check in time, and a ledger of tokens.


def check_judge(judged: BenchmarkJudge, task: Any, rank: int) -> None:  # noqa: ANN401 - the runner's
    """Stop a run whose judge cannot work, before anything is generated.

    The network is asked by rank 0 only; what can be seen without it, by every rank.

    Raises:
        MmieTasksError: The judge, or what it is to be shown, cannot be used.
    """
    judged.sync = bool(getattr(getattr(task, "args", None), "baseline", None))
    judged.on_outcome = note_usage
    judged.before_loading(_make_room)
    if rank == 0:
        judged.check()
    else:
        judged.judge()


def _make_room() -> None:
    """Take the device's memory back from the tested model, which has answered by now."""
    from mmie_tasks.runner.model_memory import free_tested_models

    logger.info(free_tested_models())


def note_usage(outcome: Outcome) -> None:
    """Enter a reply that was paid for now into the runner's ledger, as ``judge``."""
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


Method: TypeAlias = Callable[..., Any]


def preparing_ours(load: Method) -> Method:
    """Wrap what loads tasks, so that those with a room among them are prepared for the run."""

    @functools.wraps(load)
    def prepared(manager: object, *args: object, **kwargs: object) -> Mapping[Any, Any]:
        loaded: Mapping[Any, Any] = load(manager, *args, **kwargs)
        for task in _leaves(loaded):
            note_provenance(task)
            note_signature(task)
            check_before_requests(task)
        return loaded

    return prepared


def _leaves(loaded: Mapping[Any, Any]) -> Iterator[Any]:
    for value in loaded.values():
        if isinstance(value, Mapping):
            yield from _leaves(value)
        else:
            yield value[1] if isinstance(value, tuple) else value


def check_before_requests(task: Any) -> None:  # noqa: ANN401 - the runner's object, untyped
    """Let a task of ours check its data and its judge when its requests are built.

    That is after ``--predict_only`` and ``--limit`` are known and before any generation
    (``evaluator.py:1128``). The data by the room's ``before_requests(docs)``, if it has one; the
    room is the module of the task's ``process_docs``. The judge by the room's ``JUDGED``. A task
    without either, or not ours, is left as it is. A room with ``look_for_images_in(folder)`` is
    told first where the run writes.

    On the command line an `MmieTasksError` ends the process with its text and status 1; the runner
    would print an exception and end with 0. Called from Python the error gets out as it is.
    """
    benchmark = _benchmark(task)
    if benchmark is None or (benchmark.check_data is None and benchmark.judge is None):
        return
    build = task.build_all_requests

    @functools.wraps(build)
    def build_all_requests(*args: object, **kwargs: Any) -> None:  # noqa: ANN401
        try:
            _tell_output_path(benchmark, task)
            _check(benchmark, task, kwargs)
        except MmieTasksError as error:
            if getattr(task, "args", None) is None:  # set by the command line only
                raise
            raise SystemExit(str(error)) from None
        build(*args, **kwargs)

    task.build_all_requests = build_all_requests


def _tell_output_path(benchmark: Benchmark, task: Any) -> None:  # noqa: ANN401
    """Add the run's output folder to the places where images of answers are searched."""
    output_path = getattr(getattr(task, "args", None), "output_path", None)
    if benchmark.add_answer_folder is not None and isinstance(output_path, str) and output_path:
        benchmark.add_answer_folder(Path(output_path))


def _check(benchmark: Benchmark, task: Any, asked: Mapping[str, Any]) -> None:  # noqa: ANN401
    """Images first, then the judge. Saved answers need no images, unless a judge sees them."""
    judge = None if _answers_only(task) else benchmark.judge
    if benchmark.check_data is not None and (judge is not None or not _answers_are_saved(task)):
        benchmark.check_data(_in_this_run(task.eval_docs_no_media, asked))
    if judge is not None:
        check_judge(judge, task, asked.get("rank") or 0)


def _in_this_run(docs: Any, asked: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a Dataset, a list
    """The documents that ``--limit`` and ``--offset`` leave, on all ranks together."""
    first, limit = int(asked.get("offset") or 0), int(asked.get("limit") or 0)
    end = min(len(docs), first + limit) if limit > 0 else len(docs)
    wanted = range(min(first, end), end)
    return docs.select(wanted) if hasattr(docs, "select") else [docs[i] for i in wanted]


def _answers_only(task: Any) -> bool:  # noqa: ANN401
    """Whether nothing will be scored, however that was asked for (``api/task.py:719``)."""
    return "bypass" in task._metric_fn_list


def _answers_are_saved(task: object) -> bool:
    return getattr(task, "model_name", None) == "predictions"


def note_provenance(task: Any) -> None:  # noqa: ANN401 - the runner's object, untyped
    """Put what a task's room says of its ``provenance(doc)`` into the results file.

    It becomes ``metadata.provenance`` of the task's configuration, which the runner saves, and
    which is part of the key under which it caches answers.
    """
    benchmark = _benchmark(task)
    if benchmark is not None:
        noted = {"provenance": benchmark.provenance(task.eval_docs_no_media[0])}
        task.config.metadata = {**(task.config.metadata or {}), **noted}


def note_signature(task: Any) -> None:  # noqa: ANN401 - the runner's object, untyped
    """Put what a task's room says of its ``signature(doc)`` into the results file.

    It becomes ``metadata.signature`` of the configuration that the runner saves, when requests are
    built and not before: the key under which the runner caches answers is made of an earlier copy
    of the configuration, and must not change with the judge.
    """
    benchmark = _benchmark(task)
    signature = None if benchmark is None else benchmark.signature
    if signature is None:
        return
    dump, build = task.dump_config, task.build_all_requests
    handed_out: list[dict[str, Any]] = []

    @functools.wraps(dump)
    def dump_config() -> dict[str, Any]:
        config: dict[str, Any] = dump()
        config["metadata"] = dict(config.get("metadata") or {})
        handed_out.append(config["metadata"])
        return config

    @functools.wraps(build)
    def build_all_requests(*args: object, **kwargs: object) -> None:
        build(*args, **kwargs)
        if not _answers_only(task):
            for metadata in handed_out:
                metadata["signature"] = signature(task.eval_docs_no_media[0])

    task.dump_config = dump_config
    task.build_all_requests = build_all_requests


def _benchmark(task: object) -> Benchmark | None:
    """The benchmark whose package defines the task's functions; None for other tasks.

    ``--predict_only`` clears the functions later, so this is called when the task is loaded.
    """
    config = getattr(task, "config", None)
    for key in ("process_docs", "process_results"):
        name = getattr(getattr(config, key, None), "__module__", None)
        entry = entry_of_module(name) if name else None
        if entry is not None:
            return entry.load()
    return None


# A look at the judge before a model is loaded: seconds, instead of what loading takes.

_ROOM = re.compile(r"!function\s+([\w.]+\.task)\.")
_INCLUDE = re.compile(r"^include:\s*(\S+)", re.MULTILINE)


def check_before_the_model() -> None:
    """Let ``simple_evaluate`` check the judges first, and let go of them in the end.

    Nothing happens unless the runner's evaluator is imported.

    The command line looks that function up after our tasks are registered (``__main__.py:735``),
    so a wrong key costs seconds there, not the loading of a model. Who imported it by name in
    Python is checked when requests are built.
    """
    evaluator = sys.modules.get("lmms_eval.evaluator")
    original = getattr(evaluator, "simple_evaluate", None)
    if original is None or hasattr(original, "_mmie_tasks"):
        return
    checked = _checking_first(original)
    checked._mmie_tasks = True  # type: ignore[attr-defined]
    evaluator.simple_evaluate = checked  # type: ignore[union-attr]


def _checking_first(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(evaluate)
    def simple_evaluate(*args: object, **kwargs: Any) -> Any:  # noqa: ANN401 - as the original
        command_line = kwargs.get("cli_args") is not None
        if command_line and not kwargs.get("predict_only") and os.environ.get("RANK", "0") == "0":
            try:
                _check_judges(kwargs)
            except MmieTasksError as error:
                raise SystemExit(str(error)) from None
        try:
            return evaluate(*args, **kwargs)
        finally:
            _close_judges()

    return simple_evaluate


def _close_judges() -> None:
    """Let judges in this process give back their memory, if any was opened."""
    if judged := sys.modules.get("mmie_tasks.judging.session"):
        judged.close_judges()


def _check_judges(asked: Mapping[str, Any]) -> None:
    from mmie_tasks.judging.session import register_launcher

    index = getattr(asked.get("task_manager"), "task_index", None)
    chosen = sorted(set(_chosen(asked.get("tasks") or (), index or {})), key=lambda e: e.name)
    judges = [judge for entry in chosen if (judge := entry.load().judge) is not None]
    if not judges:
        return
    launcher = _AsAsked()  # lives as long as the check; the real one comes later
    if choice := launcher_choice(asked.get("launcher_args")):
        register_launcher(launcher, choice)
    for judged in judges:
        judged.check()


class _AsAsked:
    """Stands for the launcher that the runner will make."""


def launcher_choice(launcher_args: object) -> JudgeChoice | None:
    """The judge that ``--launcher_args`` names; None for a launcher of somebody else, or none.

    Raises:
        SettingWrong: The judge has no such option.
        SystemExit: There is neither a judge nor a launcher of that name.
    """
    from lmms_eval.llm_judge import launcher
    from lmms_eval.utils import simple_parse_args_string

    from mmie_tasks.judges.choice import JudgeChoice
    from mmie_tasks.judges.registry import check_options, names

    if not isinstance(launcher_args, str):
        return None
    options = {key: str(value) for key, value in simple_parse_args_string(launcher_args).items()}
    name = options.pop("name", "")
    if name not in names():
        _ = launcher.AVAILABLE_LAUNCHERS[name]  # ends the run where there is none
        return None
    check_options(name, options)
    return JudgeChoice(name=name, options=options, source="`--launcher_args`")


def _chosen(
    tasks: Iterable[object], index: Mapping[str, Mapping[str, Any]]
) -> Iterator[BenchmarkEntry]:
    """The benchmarks whose task files define some of these tasks, groups and tags."""
    known = [(folder, entry) for entry in entries() for folder in _folder(entry)]

    def named(tasks: Iterable[object]) -> Iterator[BenchmarkEntry]:
        for task in tasks:
            entry = index.get(task, {}) if isinstance(task, str) else {}
            path = entry.get("yaml_path")
            if isinstance(path, str):
                for folder, benchmark in known:
                    if f"{benchmark.package}.task" in _named_in(Path(path), folder):
                        yield benchmark
            elif isinstance(members := entry.get("task"), list):
                yield from named(members)

    return named(tasks)


def _folder(room: BenchmarkEntry) -> Iterator[Path]:
    """Where its task files are; nothing for a package that is broken, as registration says."""
    with suppress(SettingWrong):
        yield room.task_dir().resolve()


def _named_in(file: Path, folder: Path) -> Iterator[str]:
    """The modules that a task file inside the folder names, and the files there it includes."""
    if not (file.resolve().is_relative_to(folder) and file.is_file()):
        return
    text = file.read_text(encoding="utf-8")
    yield from _ROOM.findall(text)
    for name in _INCLUDE.findall(text):
        yield from _named_in(file.parent / name, folder)
