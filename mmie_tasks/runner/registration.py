"""What we do to ``lmms_eval.tasks``: our tasks win over built-ins.

In lmms-eval 0.7.3 a built-in name beats ``--include_path`` (``tasks/__init__.py:60-74``), and two
of our names are taken: the built-in ``mmie`` is a token F1, the judge of ``mia_bench`` never sees
the image. With us the order is built-in < ours < the user's own ``--include_path``.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

from loguru import logger

from mmie_tasks.errors import SettingWrong
from mmie_tasks.paths import task_dir
from mmie_tasks.runner.early_check import check_before_the_model
from mmie_tasks.runner.loading import preparing_ours

Index: TypeAlias = dict[str, dict[str, Any]]  # the runner's: name -> type, task, yaml_path
Method: TypeAlias = Callable[..., Any]

OVERRIDE = "MMIE_TASKS_OVERRIDE"
_NEEDED: Mapping[str, frozenset[str]] = {  # methods of TaskManager, and the parameters we read
    "initialize_tasks": frozenset({"include_path", "include_defaults"}),
    "load_task_or_group": frozenset(),
    "load_config": frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the environment says about registration.

    Attributes:
        override: Our tasks win over built-ins of the same name.
        speaks: This process logs for all (rank 0).
    """

    override: bool
    speaks: bool


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read ``MMIE_TASKS_OVERRIDE`` (0 or 1, by default 1) and ``RANK``.

    Raises:
        SettingWrong: ``MMIE_TASKS_OVERRIDE`` is something else.

    >>> read_settings({"MMIE_TASKS_OVERRIDE": "0"})
    Settings(override=False, speaks=True)
    """
    override = environment.get(OVERRIDE) or "1"
    if override not in {"0", "1"}:
        raise SettingWrong(
            f"`{OVERRIDE}` is {override!r}, and can be 0 or 1.",
            hint=f"`export {OVERRIDE}=0` keeps the runner's own tasks where names clash",
        )
    return Settings(override=override == "1", speaks=environment.get("RANK", "0") == "0")


def register_tasks(tasks: ModuleType) -> None:
    """Wrap what builds the runner's index of tasks, and what loads tasks from it.

    Does nothing the second time. A runner whose methods are not the ones we know is left alone,
    with a warning that names the way without us.

    Args:
        tasks: The module ``lmms_eval.tasks``.
    """
    manager = getattr(tasks, "TaskManager", None)
    if strange := [name for name in _NEEDED if not _is_as_we_know(manager, name)]:
        logger.warning(
            f"mmie-tasks: this lmms-eval is not known to us (TaskManager.{', '.join(strange)}), so "
            "our tasks are not registered. hint: add `--include_path $(mmie-tasks path)`; built-in "
            "tasks of the same name then win"
        )
        return
    for name in _NEEDED:
        method = getattr(manager, name)
        if not hasattr(method, "_mmie_tasks"):
            wrap = _indexing_ours if name == "initialize_tasks" else preparing_ours
            wrapped = wrap(method)
            wrapped._mmie_tasks = True  # type: ignore[attr-defined]
            setattr(manager, name, wrapped)


def _is_as_we_know(manager: object, name: str) -> bool:
    method = getattr(manager, name, None)
    return callable(method) and inspect.signature(method).parameters.keys() >= _NEEDED[name]


def _indexing_ours(initialize_tasks: Method) -> Method:
    """Add our tasks to the index, and let the user's own keep their names."""
    signature = inspect.signature(initialize_tasks)

    @functools.wraps(initialize_tasks)
    def with_ours(manager: object, *args: object, **kwargs: object) -> Index:
        check_before_the_model()  # the evaluator, where there is one, is imported by now
        index: Index = initialize_tasks(manager, *args, **kwargs)
        asked = signature.bind(manager, *args, **kwargs)
        asked.apply_defaults()
        if not asked.arguments["include_defaults"]:
            return index

        def inside(folders: object) -> Index:
            found: Index = initialize_tasks(manager, include_path=folders, include_defaults=False)
            return found

        # By folder: the index has lost a user's task where a built-in has the same name.
        users = inside(asked.arguments["include_path"])
        settings = _settings_or_stop()
        overridden = add_tasks(index, inside(str(task_dir())), users, override=settings.override)
        if overridden and settings.speaks:
            logger.info(
                f"mmie-tasks: {', '.join(overridden)}: ours instead of the built-in of the same "
                f"name; {OVERRIDE}=0 keeps the built-in"
            )
        return index

    return with_ours


def _settings_or_stop() -> Settings:
    """The settings; a wrong one ends the process in words, where the runner would go on."""
    try:
        return read_settings(os.environ)
    except SettingWrong as error:
        raise SystemExit(str(error)) from None


def add_tasks(index: Index, ours: Index, users: Index, *, override: bool) -> tuple[str, ...]:
    """Add our entries to the runner's index, in place: built-in < ours < the user's.

    A tag that exists already gets our members beside its own.

    Args:
        index: Built-in and user's entries, as the runner has put them together.
        ours: Entries of our folder.
        users: Entries of the user's ``--include_path``, also those not in the index.
        override: False leaves every name that is taken to its owner in the index.

    Returns:
        The names, sorted, where ours stands in the place of a built-in.

    >>> index = {"mmie": {"type": "task", "yaml_path": "built-in"}}
    >>> add_tasks(index, {"mmie": {"type": "task", "yaml_path": "ours"}}, {}, override=True)
    ('mmie',)
    """
    overridden = []
    for name, entry in ours.items():
        there = index.setdefault(name, entry)
        if there is entry:
            continue
        if there["type"] == entry["type"] == "tag":
            there["task"] = list(dict.fromkeys([*there["task"], *entry["task"]]))
        elif override:
            index[name] = users.get(name, entry)
            if name not in users:
                overridden.append(name)
    return tuple(sorted(overridden))
