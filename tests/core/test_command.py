"""A command in a message runs as it is printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mmie_tasks.core.command import as_called

PROGRAM = "mmie-tasks"


def install(folder: Path) -> Path:
    folder.mkdir(parents=True)
    path = folder / PROGRAM
    path.write_text("#!/bin/sh\necho $0 $*\n", encoding="ascii")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with our program in two environments; one is on the `PATH`."""
    monkeypatch.chdir(tmp_path)
    install(tmp_path / "my env" / "bin")
    install(tmp_path / "active" / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'active' / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "active" / "bin" / "python"))
    return tmp_path


@pytest.mark.parametrize(
    ("called", "printed"),
    [
        pytest.param("my env/bin/mmie-tasks", "'my env/bin/mmie-tasks' report out", id="relative"),
        pytest.param("my env/bin/lmms-eval", "'my env/bin/mmie-tasks' report out", id="neighbour"),
        pytest.param("active/bin/mmie-tasks", "mmie-tasks report out", id="on-the-path"),
        pytest.param("lib/lmms_eval/__main__.py", "mmie-tasks report out", id="module"),
        pytest.param("", "mmie-tasks report out", id="interactive"),
    ],
)
def test_a_command_names_its_program_as_it_was_called(
    monkeypatch: pytest.MonkeyPatch, called: str, printed: str
) -> None:
    monkeypatch.setattr(sys, "argv", [called])
    assert as_called("mmie-tasks report out") == printed
    output = subprocess.check_output(printed, shell=True, text=True)  # noqa: S602 - our own text
    assert output.endswith("mmie-tasks report out\n")


def test_a_module_of_an_environment_that_is_not_active_names_its_program(
    monkeypatch: pytest.MonkeyPatch, work: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["lib/lmms_eval/__main__.py"])
    monkeypatch.setattr(sys, "executable", str(work / "my env" / "bin" / "python"))
    assert as_called("mmie-tasks report out") == f"'{work}/my env/bin/mmie-tasks' report out"


def test_a_program_that_is_nowhere_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["my env/bin/mmie-tasks"])
    assert as_called("lmms-eval models") == "lmms-eval models"
