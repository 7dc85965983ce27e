"""The entry point through which lmms-eval loads this package.

It is in the group ``lmms_eval.models``, the only one that lmms-eval 0.7.3 loads
(``models/registry_v2.py:139``), whatever way an evaluation is started. If the runner gets a group
for tasks one day, only the folder ``runner`` changes.

The runner loads it before it imports the modules that we change, and importing those here would add
ten seconds to each start of the runner. So a finder on ``sys.meta_path`` watches for them. It
passes on what the other finders find, with another loader until the module is executed: the
finished module shows no trace of it.
"""

from __future__ import annotations

import functools
import importlib.abc
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from lmms_eval.models.registry_v2 import ModelManifest
    from lmms_eval.tasks import TaskManager


def install_hooks() -> None:
    """Add our tasks and launchers to the runner once it has imported its own."""
    after_import("lmms_eval.tasks", _register_tasks)
    after_import("lmms_eval.llm_judge.launcher", _add_launchers)


# Every start of the runner loads this module, so these import late.
def _register_tasks(tasks: ModuleType) -> None:
    from mmie_tasks.runner.registration import register_tasks

    register_tasks(tasks)


def _add_launchers(launcher: ModuleType) -> None:
    from mmie_tasks.runner.launchers import add_launchers

    add_launchers(launcher)


def runner_commands() -> frozenset[str]:
    """The commands of the installed lmms-eval; empty if it does not list them
    (``cli/dispatch.py:18``).
    """
    from lmms_eval.cli import dispatch

    return frozenset(getattr(dispatch, "_SUBCOMMANDS", ()))


def run_lmms_eval() -> int:
    """Run lmms-eval's command line on ``sys.argv``, with our tasks and launchers.

    Returns:
        The exit status: 1 if an evaluation failed, which the runner prints and forgets.

    Raises:
        SystemExit: The runner ends the process itself.
    """
    failed: list[Namespace] = []

    def watch_evaluations(runner: ModuleType) -> None:
        from mmie_tasks.runner.hooks import wrap_once

        wrap_once(runner, "cli_evaluate_single", functools.partial(_list_failures, failed))
        wrap_once(runner.TaskManager, "match_tasks", _refuse_unknown_tasks)
        wrap_once(runner.eval_logger, "add", _colour_by_default)

    install_hooks()  # before the runner imports its tasks
    after_import("lmms_eval.__main__", watch_evaluations)
    from lmms_eval.cli.dispatch import main

    main()
    for arguments in failed:
        model = f"{arguments.model} ({arguments.model_args})"  # as the runner prints it
        sys.stderr.write(
            f"mmie-tasks: the evaluation of `{model}` on `{arguments.tasks}` failed; its error is "
            "above.\n"
        )
    return int(bool(failed))


def _list_failures(
    failed: list[Namespace], evaluate: Callable[[Namespace], object]
) -> Callable[[Namespace], object]:
    """Wrap the runner's evaluation so that the arguments of one that raises stay in a list.

    The runner catches what an evaluation raises, prints it, goes on with the next one of
    ``--config`` and ends with status 0 (``__main__.py:609``); without ``--tasks`` it ends with 0 as
    well. An unknown task costs the same, without a traceback.
    """
    from mmie_tasks.core.errors import MmieTasksError

    @functools.wraps(evaluate)
    def evaluate_single(arguments: Namespace) -> object:
        if arguments.tasks is None:
            sys.stderr.write(
                "mmie-tasks: an evaluation needs `--tasks`.\n\nhint: `mmie-tasks tasks list`\n"
            )
            raise SystemExit(2)
        failed.append(arguments)
        try:
            results = evaluate(arguments)
        except MmieTasksError as error:
            sys.stderr.write(f"{error}\n")
            return None, None  # no results and no samples, as on all ranks but 0
        failed.pop()
        return results

    return evaluate_single


def _refuse_unknown_tasks(match_tasks: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Wrap the method of ``TaskManager`` that finds the tasks, groups and tags of ``--tasks``.

    It refuses what the runner would refuse next (``__main__.py:716``): a name that is neither one
    of these, nor a file, nor a pattern with ``*``; and a pattern if nothing matches at all.
    """

    @functools.wraps(match_tasks)
    def match_known_tasks(manager: TaskManager, names: Sequence[str]) -> list[str]:
        from mmie_tasks.core.errors import SettingWrong
        from mmie_tasks.core.options import nearest

        matched = match_tasks(manager, names)
        others = [name for name in names if name not in matched and not Path(name).is_file()]
        nothing = len(others) == len(names) and not matched
        unknown = [name for name in others if "*" not in name or nothing]
        for name in unknown:
            similar = ", ".join(f"`{task}`" for task in nearest(name.strip(), manager.all_tasks))
            hint = (
                f"did you mean {similar}?" if similar else "`mmie-tasks tasks list` shows all names"
            )
            raise SettingWrong(f"There is no task, group, tag or task file `{name}`.", hint=hint)
        return matched

    return match_known_tasks


def _colour_by_default(add: Callable[..., int]) -> Callable[..., int]:
    """Wrap loguru's ``add``: the runner asks for colours whatever it writes to
    (``__main__.py:515``).
    """

    @functools.wraps(add)
    def add_sink(*args: object, **options: object) -> int:
        options.pop(
            "colorize", None
        )  # loguru's default: ``LOGURU_COLORIZE``, which `cli.main` sets, else terminals
        return add(*args, **options)

    return add_sink


def manifests() -> list[ModelManifest]:
    """The entry point: install the hooks and return the manifests of our models.

    ``predictions`` is a chat model, so that the runner opens no image for it. ``interleaved`` is
    what its writer is.
    """
    from lmms_eval.models.registry_v2 import ModelManifest

    install_hooks()
    predictions, interleaved = (
        "mmie_tasks.runner.predictions.Predictions",
        "mmie_tasks.runner.interleaved.Interleaved",
    )
    return [
        ModelManifest(model_id="predictions", chat_class_path=predictions),
        ModelManifest(
            model_id="interleaved",
            chat_class_path=interleaved,
            simple_class_path=f"{interleaved}Simple",
        ),
    ]


ImportCallback: TypeAlias = Callable[[ModuleType], None]


def after_import(name: str, function: ImportCallback) -> None:
    """Call ``function`` with the module ``name`` after every execution of that module.

    It is called at once if the module is imported already, otherwise after its import, and again
    after `importlib.reload`. For a module that is being imported at this moment, it is called when
    the next import begins after that one has ended. A second registration of the same function has
    no effect.

    Args:
        name: Full name of the module.
        function: May be called more than once with the same module.
    """
    _FINDER.watch(name, function)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules with the other finders, and wraps their loader."""

    def __init__(self) -> None:
        self._functions: dict[str, list[ImportCallback]] = {}
        self._unfinished: set[str] = set()
        self._lock = threading.RLock()
        self._searches: set[tuple[int, str]] = set()

    def watch(self, name: str, function: ImportCallback) -> None:
        with self._lock:
            if self not in sys.meta_path:
                sys.meta_path.insert(0, self)
            functions = self._functions.setdefault(name, [])
            if function in functions:
                return
            functions.append(function)
        if _is_unfinished(name):
            self._unfinished.add(name)
        elif (module := sys.modules.get(name)) is not None:
            function(module)

    def notify(self, module: ModuleType) -> None:
        """Call all functions that are registered for a module."""
        for function in tuple(self._functions.get(module.__name__, ())):
            function(module)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a watched module, from the other finders; None for all other modules."""
        with self._lock:
            finished = [name for name in self._unfinished if not _is_unfinished(name)]
            self._unfinished.difference_update(finished)
        for name in finished:
            if (module := sys.modules.get(name)) is not None:  # None: its import failed
                self.notify(module)
        search = (threading.get_ident(), fullname)
        if fullname not in self._functions or search in self._searches:
            return None
        self._searches.add(search)  # the other finders may call this one in turn
        finders = (getattr(finder, "find_spec", None) for finder in tuple(sys.meta_path))
        try:  # importlib, too, skips finders without `find_spec`
            specs = (find_spec(fullname, path, target) for find_spec in finders if find_spec)
            spec: ModuleSpec | None = next(filter(None, specs), None)
        finally:
            self._searches.discard(search)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, self.notify)
        return spec


class _Loader(importlib.abc.Loader):
    """Wraps a loader until the module is executed."""

    def __init__(self, loader: importlib.abc.Loader, notify: ImportCallback) -> None:
        self._loader = loader
        self._notify = notify

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create the module with the wrapped loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own loader, execute the module with it, then notify."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._notify(module)


def _is_unfinished(name: str) -> bool:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


_FINDER = _Finder()
