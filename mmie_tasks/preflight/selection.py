"""Finds the benchmarks of the tasks that the user names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mmie_tasks.benchmarks.registry import (
    BenchmarkEntry,
    entries,
    entry_names,
    entry_of_task,
    similar_tasks,
)
from mmie_tasks.core.errors import SettingWrong


def split_names(listed: str) -> list[str]:
    """The names in a comma-separated list, each once."""
    return list(dict.fromkeys(name.strip() for name in listed.split(",") if name.strip()))


def select_tasks(names: Sequence[str]) -> Mapping[BenchmarkEntry, tuple[str, ...]]:
    """Benchmark to its selected tasks, in the order of the names.

    Args:
        names: Benchmarks, tasks, and patterns with ``*``.

    Raises:
        SettingWrong: No benchmark has a task of that name; the hint has similar names.

    >>> {entry.name: tasks for entry, tasks in select_tasks(["mmie_sa", "mmie"]).items()}
    {'mmie': ('mmie_sa', 'mmie')}
    """
    selection: dict[BenchmarkEntry, tuple[str, ...]] = {}
    for name in names:
        entry = entry_of_task(name)
        is_task = entry is not None and name in entry.task_names()
        if entry is None or (entry.is_ours and "*" not in name and not is_task):
            similar = ", ".join(f"`{similar}`" for similar in similar_tasks(name))
            raise SettingWrong(
                f"There is no benchmark or task `{name}`.",
                hint=f"there is {similar or entry_names(entries())}",
            )
        task = name if is_task else entry.name  # a pattern, or a file elsewhere: all tasks
        selection[entry] = tuple(dict.fromkeys((*selection.get(entry, ()), task)))
    return selection
