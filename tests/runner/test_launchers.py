from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest
from loguru import logger

from mmie_tasks.judges import registry
from mmie_tasks.judging.session import launcher_choice
from mmie_tasks.runner import launchers


@pytest.fixture
def log() -> Iterator[list[str]]:
    lines: list[str] = []
    sink = logger.add(lambda message: lines.append(str(message)), format="{message}")
    yield lines
    logger.remove(sink)


def added(monkeypatch: pytest.MonkeyPatch, **installed: str) -> dict[str, str]:
    """The runner's launchers after these entry points were added to its own, twice."""
    entries = [EntryPoint(name, value, launchers.ENTRY_POINTS) for name, value in installed.items()]
    monkeypatch.setattr(launchers, "entry_points", lambda **_group: entries)
    monkeypatch.setattr(registry, "names", lambda: ("of_ours",))
    module = SimpleNamespace(AVAILABLE_LAUNCHERS={"sglang": "SGLangLauncher"})
    launchers.add_launchers(module)
    launchers.add_launchers(module)
    return module.AVAILABLE_LAUNCHERS


def test_our_launchers_and_those_of_installed_packages_are_added(
    monkeypatch: pytest.MonkeyPatch, log: list[str]
) -> None:
    assert added(monkeypatch, theirs="package.module:Launcher") == {
        "sglang": "SGLangLauncher",
        "of_ours": "mmie_tasks.runner.launchers.of_ours",
        "theirs": "package.module.Launcher",
    }
    assert log == []


@pytest.mark.parametrize("taken", ["sglang", "of_ours"])
def test_a_taken_name_keeps_its_launcher_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, log: list[str], taken: str
) -> None:
    assert "another.Thing" not in added(monkeypatch, **{taken: "another:Thing"}).values()
    assert f"`{taken}` = `another.Thing` was not added" in log[0]


@pytest.mark.parametrize("value", ["package.module", "package.module:Outer.Inner"])
def test_a_launcher_that_the_runner_could_not_import_is_refused(
    monkeypatch: pytest.MonkeyPatch, log: list[str], value: str
) -> None:
    assert "theirs" not in added(monkeypatch, theirs=value)
    assert "`package.module:Class`" in log[0]


def test_a_runner_without_launchers_stays_unchanged_with_a_warning(log: list[str]) -> None:
    launchers.add_launchers(SimpleNamespace())
    assert "no AVAILABLE_LAUNCHERS" in log[0]


def test_an_unknown_name_ends_the_run_with_the_valid_names(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit) as error:
        added(monkeypatch)["opnai"]
    assert "no judge or launcher `opnai`" in str(error.value)
    assert "`sglang`, `of_ours`" in str(error.value)


def test_a_judge_is_chosen_while_its_launcher_exists() -> None:
    launcher = launchers.openai(model="m", timeout=60)  # typed by the runner
    launcher.launch()
    launcher.clean()
    chosen = launcher_choice()
    assert chosen is not None
    assert (chosen.name, chosen.options) == ("openai", {"model": "m", "timeout": "60"})
    del launcher
    assert launcher_choice() is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"modle": "m"}, "no option `modle`", id="unknown"),
        pytest.param({"timeout": "soon"}, "`timeout=soon`", id="type"),
        pytest.param({"api_key": "sk-123"}, "takes no `api_key=`", id="secret"),
    ],
)
def test_an_invalid_option_ends_the_run_when_the_launcher_is_created(options: dict[str, object], message: str) -> None:
    with pytest.raises(SystemExit, match=message):
        launchers.openai(**options)
