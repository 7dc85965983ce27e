from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest
from loguru import logger

from mmie_tasks.runner import launchers


@pytest.fixture
def log() -> Iterator[list[str]]:
    lines: list[str] = []
    sink = logger.add(lambda message: lines.append(str(message)), format="{message}")
    yield lines
    logger.remove(sink)


def added(monkeypatch: pytest.MonkeyPatch, **installed: str) -> dict[str, str]:
    """What the runner knows after these entry points were added to its own launcher, twice."""
    entries = [EntryPoint(name, value, launchers.ENTRY_POINTS) for name, value in installed.items()]
    monkeypatch.setattr(launchers, "entry_points", lambda **_group: entries)
    monkeypatch.setattr(launchers, "LAUNCHERS", {"of_ours": "our.Launcher"})
    module = SimpleNamespace(AVAILABLE_LAUNCHERS={"sglang": "SGLangLauncher"})
    launchers.add_launchers(module)
    launchers.add_launchers(module)
    return module.AVAILABLE_LAUNCHERS


def test_ours_and_those_of_installed_packages_are_added(
    monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    assert added(monkeypatch, theirs="package.module:Launcher") == {
        "sglang": "SGLangLauncher",
        "of_ours": "our.Launcher",
        "theirs": "package.module.Launcher",
    }
    assert log == []


@pytest.mark.parametrize("taken", ["sglang", "of_ours"])
def test_a_taken_name_stays_with_its_owner_and_a_warning_says_so(
    monkeypatch: pytest.MonkeyPatch, log: list[str], taken: str
) -> None:
    assert "another.Thing" not in added(monkeypatch, **{taken: "another:Thing"}).values()
    assert f"`{taken}` = `another.Thing` was not added" in log[0]


@pytest.mark.parametrize("value", ["package.module", "package.module:Outer.Inner"])
def test_what_the_runner_could_not_import_is_refused(
    monkeypatch: pytest.MonkeyPatch, log: list[str], value: str
) -> None:
    assert "theirs" not in added(monkeypatch, theirs=value)
    assert "`package.module:Class`" in log[0]


def test_a_runner_without_launchers_is_left_alone_with_a_warning(log: list[str]) -> None:
    launchers.add_launchers(SimpleNamespace())
    assert "no AVAILABLE_LAUNCHERS" in log[0]
