"""Registers our tasks in ``lmms_eval.tasks``, so that they win over built-in tasks.

In lmms-eval 0.7.3 a built-in name beats ``--include_path`` (``tasks/__init__.py:60-74``), and two
of our names are taken: the built-in ``mmie`` is a token F1, and the judge of ``mia_bench`` never
sees the image. The precedence here is: built-in < benchmarks of other packages < ours < the user's
own ``--include_path``. A task of another package whose name is ours is left out, with a warning.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from loguru import logger

from mmie_tasks.benchmarks.registry import entries
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.files import task_dir
from mmie_tasks.core.log import is_first_process
from mmie_tasks.runner.hooks import change_evaluator
from mmie_tasks.runner.plugin import Function

Index: TypeAlias = dict[str, dict[str, Any]]
"""The runner's index of tasks: name to ``type``, ``task`` and ``yaml_path``."""

_OVERRIDE = "MMIE_TASKS_OVERRIDE"


def read_override(environment: Mapping[str, str]) -> bool:
    """Whether our tasks win over built-in ones: ``MMIE_TASKS_OVERRIDE``, 0 or 1 (default).

    Raises:
        SettingWrong: It has another value.

    >>> read_override({"MMIE_TASKS_OVERRIDE": "0"})
    False
    """
    if (value := environment.get(_OVERRIDE) or "1") not in ("0", "1"):
        hint = f"`export {_OVERRIDE}=0` keeps the runner's own tasks where names clash"
        raise SettingWrong(f"`{_OVERRIDE}` is {value!r}; valid are 0 and 1.", hint=hint)
    return value == "1"


def index_all_tasks(initialize_tasks: Function) -> Function:
    """Wrap the method that builds the index: ours are added, the user's own keep their names."""
    signature = inspect.signature(initialize_tasks)

    def initialize_all_tasks(manager: object, *args: object, **kwargs: object) -> Index:
        change_evaluator()  # by now the evaluator is imported, if it is used at all
        index: Index = initialize_tasks(manager, *args, **kwargs)
        call = signature.bind(manager, *args, **kwargs)
        call.apply_defaults()
        if not call.arguments["include_defaults"]:
            return index

        def index_folder(folders: object) -> Index:
            added: Index = initialize_tasks(manager, include_path=folders, include_defaults=False)
            return added

        # The index lacks a user's task with the name of a built-in, so the folder is read again.
        users = index_folder(call.arguments["include_path"])
        try:
            override = read_override(os.environ)
        except SettingWrong as error:  # the runner would print it and go on
            raise SystemExit(str(error)) from None
        tasks = index_folder(str(task_dir()))
        _add_other_packages(tasks, index_folder)
        if overridden := add_tasks(index, tasks, users, override=override):
            names = ", ".join(overridden)
            hint = f"{_OVERRIDE}=0 keeps the built-in"
            _log("INFO", f"{names}: ours instead of the built-in of the same name; {hint}")
        return index

    return initialize_all_tasks


def _add_other_packages(tasks: Index, index_folder: Callable[[str], Index]) -> None:
    """Add the tasks of other packages to ours if their names are free; warn of the others."""
    for entry in entries():
        if entry.is_ours:
            continue
        try:
            index = index_folder(str(entry.task_dir()))
        except Exception as error:  # noqa: BLE001 - a plugin: its tasks are left out
            reason = str(error).replace("\n\n", " ") or type(error).__name__
            _log("WARNING", f"the benchmark `{entry.name}` is left out: {reason}")
            continue
        if not index:
            _log("WARNING", f"the benchmark `{entry.name}` has no task in `{entry.task_dir()}`")
        if taken := sorted(index.keys() & tasks.keys()):
            names = ", ".join(f"`{name}`" for name in taken)
            _log("WARNING", f"{names} of the benchmark `{entry.name}` left out: name taken")
        tasks |= {name: task for name, task in index.items() if name not in tasks}


def _log(level: str, message: str) -> None:
    if is_first_process(os.environ):
        logger.log(level, f"mmie-tasks: {message}")


def add_tasks(index: Index, ours: Index, users: Index, *, override: bool) -> tuple[str, ...]:
    """Add our entries to the runner's index, in place: built-in < ours < the user's.

    Our tasks are added to a tag that exists. `index` has the user's entries only under free names,
    `users` has all of them. Without `override`, no built-in entry is replaced; the names of the
    replaced ones are returned, sorted.

    >>> index = {"mmie": {"type": "task", "yaml_path": "built-in"}}
    >>> add_tasks(index, {"mmie": {"type": "task", "yaml_path": "ours"}}, {}, override=True)
    ('mmie',)
    """
    overridden = []
    for name, entry in ours.items():
        indexed = index.setdefault(name, entry)
        if indexed is entry:
            continue
        if indexed["type"] == entry["type"] == "tag":
            indexed["task"] = list(dict.fromkeys([*indexed["task"], *entry["task"]]))
        elif override:
            index[name] = users.get(name, entry)
            if name not in users:
                overridden.append(name)
    return tuple(sorted(overridden))
