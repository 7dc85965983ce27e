from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from mmie_tasks.runner.post_import import after_import


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to import modules from; the import system is restored afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def name(folder: Path, request: pytest.FixtureRequest) -> str:
    """The name of a module without a registered function."""
    name = f"waited_for_by_{request.node.name}"
    (folder / f"{name}.py").write_text("value = 1\n")
    return name


def test_a_function_registered_twice_is_called_once_with_the_loaded_module(name: str) -> None:
    modules = []
    function = lambda module: modules.append(module.value)  # noqa: E731
    after_import(name, function)
    after_import(name, function)
    assert modules == []
    importlib.import_module(name)
    importlib.import_module(name)
    assert modules == [1]


def test_a_failed_import_calls_nothing_and_the_next_one_counts(name: str, folder: Path) -> None:
    modules: list[ModuleType] = []
    after_import(name, modules.append)
    (folder / f"{name}.py").write_text("raise ValueError('not today')\n")
    with pytest.raises(ValueError, match="not today"):
        importlib.import_module(name)
    assert modules == []
    (folder / f"{name}.py").write_text("value = 'repaired'\n")
    importlib.import_module(name)
    assert len(modules) == 1
