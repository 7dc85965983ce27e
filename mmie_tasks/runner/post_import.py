"""Call a function with a module once that module has been imported.

The runner loads our entry point before it imports the modules we add to, and importing those
ourselves would cost every start of the runner ten seconds. So we wait on ``sys.meta_path``. What
is found there is passed on unchanged; only the loader is exchanged until the module is executed,
so that nobody who looks at the module later sees that we were here.
"""

from __future__ import annotations

import importlib.abc
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TypeAlias

WhenImported: TypeAlias = Callable[[ModuleType], None]


def after_import(name: str, function: WhenImported) -> None:
    """Call ``function`` with the module ``name`` after every execution of that module.

    At once when it is imported already, after its import otherwise, again after
    `importlib.reload`. A module that is half-made at this moment is handed over when the next
    import begins after it is finished. Asking twice for the same is asking once.

    Args:
        name: Full name of the module.
        function: Must bear being called again with a module that it has seen.
    """
    _FINDER.watch(name, function)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds nothing by itself: asks the others and wraps the loader they name."""

    def __init__(self) -> None:
        self._functions: dict[str, list[WhenImported]] = {}
        self._half_made: set[str] = set()
        self._lock = threading.RLock()
        self._asking: set[tuple[int, str]] = set()

    def watch(self, name: str, function: WhenImported) -> None:
        with self._lock:
            if self not in sys.meta_path:
                sys.meta_path.insert(0, self)
            functions = self._functions.setdefault(name, [])
            if function in functions:
                return
            functions.append(function)
        if _is_half_made(name):
            self._half_made.add(name)
        elif (module := sys.modules.get(name)) is not None:
            function(module)

    def notify(self, module: ModuleType) -> None:
        """Hand the module to everyone who waits for it."""
        for function in tuple(self._functions.get(module.__name__, ())):
            function(module)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Nothing, unless somebody waits for the module: then what the other finders find."""
        if self._half_made:
            self._hand_over_finished()
        question = (threading.get_ident(), fullname)
        if fullname not in self._functions or question in self._asking:
            return None
        self._asking.add(question)  # we ask all finders, ourselves and others of our kind too
        try:
            spec = _found_by_others(fullname, path, target)
        finally:
            self._asking.discard(question)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, self.notify)
        return spec

    def _hand_over_finished(self) -> None:
        with self._lock:
            finished = [name for name in self._half_made if not _is_half_made(name)]
            self._half_made.difference_update(finished)
        for name in finished:
            if (module := sys.modules.get(name)) is not None:  # None: its import failed
                self.notify(module)


class _Loader(importlib.abc.Loader):
    """Stands in for a loader until the module is executed."""

    def __init__(self, loader: importlib.abc.Loader, notify: WhenImported) -> None:
        self._loader = loader
        self._notify = notify

    def __getattr__(self, name: str) -> object:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the loader we stand in for."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Put the real loader back, let it execute the module, then hand the module over."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._notify(module)


def _found_by_others(
    name: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    for finder in tuple(sys.meta_path):
        find_spec = getattr(finder, "find_spec", None)  # importlib, too, passes over those without
        spec: ModuleSpec | None = find_spec(name, path, target) if find_spec else None
        if spec is not None:
            return spec
    return None


def _is_half_made(name: str) -> bool:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


_FINDER = _Finder()
