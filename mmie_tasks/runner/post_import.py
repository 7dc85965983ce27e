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
