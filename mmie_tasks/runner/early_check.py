"""A look at the judge before a model is loaded: seconds, instead of what loading takes."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmie_tasks.errors import MmieTasksError, SettingWrong
from mmie_tasks.rooms import Room, rooms

if TYPE_CHECKING:
    from mmie_tasks.judges.choosing import Choice

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
    if judged := sys.modules.get("mmie_tasks.judged"):
        judged.close_all()


def _check_judges(asked: Mapping[str, Any]) -> None:
    from mmie_tasks.judged import launch
    from mmie_tasks.runner.judged import judged_by

    index = getattr(asked.get("task_manager"), "task_index", None)
    rooms = sorted(set(_rooms(asked.get("tasks") or (), index or {})))
    judges = [found for room in rooms if (found := judged_by(import_module(room)))]
    if not judges:
        return
    launcher = _AsAsked()  # lives as long as the check; the real one comes later
    if choice := launcher_choice(asked.get("launcher_args")):
        launch(launcher, choice)
    for judged in judges:
        judged.check()


class _AsAsked:
    """Stands for the launcher that the runner will make."""


def launcher_choice(launcher_args: object) -> Choice | None:
    """The judge that ``--launcher_args`` names; None for a launcher of somebody else, or none.

    Raises:
        SettingWrong: The judge has no such option.
        SystemExit: There is neither a judge nor a launcher of that name.
    """
    from lmms_eval.llm_judge import launcher
    from lmms_eval.utils import simple_parse_args_string

    from mmie_tasks.judges.choosing import Choice
    from mmie_tasks.judges.registry import check_options, names

    if not isinstance(launcher_args, str):
        return None
    options = {key: str(value) for key, value in simple_parse_args_string(launcher_args).items()}
    name = options.pop("name", "")
    if name not in names():
        _ = launcher.AVAILABLE_LAUNCHERS[name]  # ends the run where there is none
        return None
    check_options(name, options)
    return Choice(name=name, options=options, source="`--launcher_args`")


def _rooms(tasks: Iterable[object], index: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The modules that the task files of benchmarks among these tasks, groups and tags name."""
    known = [(folder, f"{room.package}.task") for room in rooms() for folder in _folder(room)]

    def named(tasks: Iterable[object]) -> Iterator[str]:
        for task in tasks:
            entry = index.get(task, {}) if isinstance(task, str) else {}
            path = entry.get("yaml_path")
            if isinstance(path, str):
                for folder, module in known:
                    yield from (m for m in _named_in(Path(path), folder) if m == module)
            elif isinstance(members := entry.get("task"), list):
                yield from named(members)

    return named(tasks)


def _folder(room: Room) -> Iterator[Path]:
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
