"""Calls functions once modules of the runner have been imported.

The runner loads our entry point before it imports the modules that we change, and importing those
there would add ten seconds to each start of the runner. So a finder on ``sys.meta_path`` watches
for them. It passes on what the other finders find, with another loader until the module is
executed: the finished module shows no trace of it.
"""

from __future__ import annotations

import importlib.abc
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TypeAlias

ImportCallback: TypeAlias = Callable[[ModuleType], None]


def after_import(name: str, function: ImportCallback) -> None:
    """Call ``function`` with the module ``name`` after every execution of that module.

    It is called at once if the module is imported already, otherwise after its import, and again
    after `importlib.reload`. A second registration of the same function has no effect.

    Args:
        name: Full name of the module; its own import does not lead here (``lmms_eval.tasks`` and
            ``lmms_eval.llm_judge.launcher`` import no models).
        function: May be called more than once with the same module.
    """
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    functions = _FINDER.functions.setdefault(name, [])
    if function not in functions:
        functions.append(function)
        if (module := sys.modules.get(name)) is not None:
            function(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds modules with the other finders, and wraps their loader."""

    def __init__(self) -> None:
        self.functions: dict[str, list[ImportCallback]] = {}
        self._searches: set[tuple[int, str]] = set()

    def notify(self, module: ModuleType) -> None:
        """Call all functions that are registered for a module."""
        for function in tuple(self.functions[module.__name__]):
            function(module)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a watched module, from the other finders; None for all other modules."""
        search = (threading.get_ident(), fullname)
        if fullname not in self.functions or search in self._searches:
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


_FINDER = _Finder()
