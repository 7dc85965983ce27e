"""Calls functions after modules of the runner have been imported.

The runner loads our entry point before it imports the modules that we change, and importing them
ourselves would add ten seconds to each start. So a finder on ``sys.meta_path`` watches for them,
and their loader calls the functions after it has executed the module.
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import TypeAlias

_ImportCallback: TypeAlias = Callable[[ModuleType], None]


def after_import(name: str, function: _ImportCallback) -> None:
    """Call ``function`` with the module ``name`` after its import, and after each reload.

    It is called at once if the module is imported already. A second registration of the same
    function has no effect. The module must not import ``lmms_eval.models``, which loads our entry
    point.
    """
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    functions = _FINDER.functions.setdefault(name, [])
    if function not in functions:
        functions.append(function)
        if (module := sys.modules.get(name)) is not None:
            function(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the watched modules below the paths of their packages, as the import system does."""

    def __init__(self) -> None:
        self.functions: dict[str, list[_ImportCallback]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a watched module; None for other modules."""
        if fullname not in self.functions:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            loader, execute = spec.loader, spec.loader.exec_module

            def execute_and_notify(module: ModuleType) -> None:
                del loader.exec_module  # restores the method of the class
                execute(module)
                for function in tuple(self.functions[fullname]):
                    function(module)

            loader.exec_module = execute_and_notify  # type: ignore[method-assign]
        return spec


_FINDER = _Finder()
