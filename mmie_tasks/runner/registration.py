"""What we do to ``lmms_eval.tasks``: our tasks win over built-ins.

In lmms-eval 0.7.3 a built-in name beats ``--include_path`` (``tasks/__init__.py:60-74``), and two
of our names are taken: the built-in ``mmie`` is a token F1, the judge of ``mia_bench`` never sees
the image. With us the order is built-in < benchmarks of other packages < ours < the user's own
``--include_path``. Installing a package is no wish to change what our names mean: such a task is
left out, with a warning.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from loguru import logger

from mmie_tasks.benchmarks.registry import BenchmarkEntry, entries
from mmie_tasks.core.errors import MmieTasksError, SettingWrong
from mmie_tasks.core.paths import task_dir
from mmie_tasks.runner.hooks import check_before_the_model, preparing_ours

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
        known = _with_others(inside(str(task_dir())), inside)
        overridden = add_tasks(index, known.tasks, users, override=settings.override)
        if settings.speaks:
            for warning in known.warnings:
                logger.warning(f"mmie-tasks: {warning}")
            if overridden:
                logger.info(
                    f"mmie-tasks: {known.told(overridden)}; {OVERRIDE}=0 keeps the built-in"
                )
        return index

    return with_ours


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """Our tasks and those of other packages.

    Attributes:
        tasks: Each name once.
        owners: Name to the benchmark of another package that it is of.
        warnings: What was left out, and why.
    """

    tasks: Index
    owners: dict[str, str]
    warnings: list[str]

    def told(self, names: Sequence[str]) -> str:
        """Whose tasks stand in the place of built-ins."""
        by_owner: dict[str, list[str]] = {}
        for name in names:
            by_owner.setdefault(self.owners.get(name, ""), []).append(name)
        whose = (
            f"{', '.join(owned)}: {f'of the benchmark `{owner}`' if owner else 'ours'}"
            for owner, owned in sorted(by_owner.items())
        )
        return f"{'; '.join(whose)} instead of the built-in of the same name"


def _with_others(ours: Index, inside: Callable[[str], Index]) -> _Known:
    """Our tasks, and those of other packages whose names are free.

    Args:
        ours: Entries of our folder.
        inside: Gives the entries of a folder.
    """
    known = _Known(tasks=dict(ours), owners={}, warnings=[])
    for room in entries():
        if room.is_ours:
            continue
        try:
            found = inside(str(_folder(room)))
        except _broken() as error:
            told = str(error).replace("\n\n", " ") or type(error).__name__
            known.warnings.append(f"the benchmark `{room.name}` is left out: {told}")
            continue
        if taken := sorted(found.keys() & known.tasks.keys()):
            whose = ", ".join(f"`{name}`" for name in taken)
            known.warnings.append(f"{whose} of the benchmark `{room.name}` left out: name taken")
        fresh = found.keys() - known.tasks.keys()
        known.tasks.update((name, found[name]) for name in fresh)
        known.owners.update((name, room.name) for name in fresh)
    return known


def _broken() -> tuple[type[Exception], ...]:
    """What a broken package raises, and what the runner's reading of task files lets out."""
    from yaml import YAMLError  # not at import: a start of the runner pays for that

    usual = (OSError, ValueError, TypeError, KeyError, AttributeError, AssertionError, SyntaxError)
    return (MmieTasksError, YAMLError, *usual)


def _folder(room: BenchmarkEntry) -> Path:
    """Where a package's task files are.

    Raises:
        SettingWrong: Nowhere.
    """
    folder = room.task_dir()
    if not folder.is_dir():
        hint = f"let `{room.package}` be built with its task files, and install it again"
        raise SettingWrong(f"there is no folder `{folder}`.", hint=hint)
    return folder


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
        ours: Entries of our folder and of other packages.
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
