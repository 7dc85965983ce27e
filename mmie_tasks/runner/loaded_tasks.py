"""Tells which of the runner's tasks are ours, and their benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.registry import BenchmarkEntry, entries, entry_of_module
from mmie_tasks.core.errors import SettingWrong

Task: TypeAlias = Any  # the runner's task object; the runner is untyped


def leaf_tasks(loaded: Mapping[Any, Any]) -> dict[str, Task]:
    """Name to task object in the runner's loaded tasks, in which groups are nested mappings."""
    tasks: dict[str, Task] = {}
    for name, entry in loaded.items():
        if isinstance(entry, Mapping):
            tasks |= leaf_tasks(entry)
        elif (task := entry[1] if isinstance(entry, tuple) else entry) is not None:
            tasks[name] = task
    return tasks


def benchmark_of(task: Task) -> Benchmark | None:
    """The benchmark whose package defines the task's functions; None for other tasks.

    ``--predict_only`` clears ``process_results`` (``override_metric`` in ``api/task.py``).

    Raises:
        SettingWrong: The benchmark is registered but cannot be loaded.
    """
    config = getattr(task, "config", None)
    for key in ("process_docs", "process_results", "doc_to_messages", "doc_to_text"):
        function = getattr(config, key, None)
        if isinstance(owner := getattr(function, "__self__", None), Benchmark):
            return owner
        module = getattr(function, "__module__", None)
        if module and (entry := entry_of_module(module)):
            return entry.load()
    return None


def is_judged(task: Task, benchmark: Benchmark) -> bool:
    """Whether a judge scores the answers of this run."""
    return benchmark.judge is not None and not is_predict_only(task)


def is_predict_only(task: Task) -> bool:
    """Whether answers are only generated, by any spelling of the option (``api/task.py:719``)."""
    return "bypass" in task._metric_fn_list


def benchmarks_of_tasks(
    tasks: Iterable[object], index: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[BenchmarkEntry, str]]:
    """The tasks and groups among names of these and of tags, with the benchmarks whose folders
    contain their files.

    The runner's index has the ``type``, ``task`` and ``yaml_path`` of each name.
    """
    for name in tasks:
        if not isinstance(name, str):
            continue
        indexed = index.get(name, {})
        path, members = indexed.get("yaml_path"), indexed.get("task")
        if isinstance(path, str):
            for entry in entries():
                with suppress(SettingWrong):  # its package is broken; registration has logged it
                    if Path(path).resolve().is_relative_to(entry.task_dir().resolve()):
                        yield entry, name
        elif isinstance(members, list):
            yield from benchmarks_of_tasks(members, index)
