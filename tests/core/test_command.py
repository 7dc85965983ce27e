"""A command in a message runs as it is printed."""

import subprocess
import sys

import pytest

from mmie_tasks.core.command import as_called


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    """A working folder with our program in two environments; one is on the `PATH`."""
    monkeypatch.chdir(tmp_path)
    for environment in ("my env", "active"):
        program = tmp_path / environment / "bin" / "mmie-tasks"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\necho $0 $*\n", encoding="ascii")
        program.chmod(0o755)
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
def test_a_command_names_its_program_as_it_was_called(monkeypatch, called, printed):
    monkeypatch.setattr(sys, "argv", [called])
    assert as_called("mmie-tasks report out") == printed
    output = subprocess.check_output(printed, shell=True, text=True)  # noqa: S602 - our own text
    assert output.endswith("mmie-tasks report out\n")


def test_a_module_of_an_environment_that_is_not_active_names_its_program(monkeypatch, work):
    monkeypatch.setattr(sys, "argv", ["lib/lmms_eval/__main__.py"])
    monkeypatch.setattr(sys, "executable", str(work / "my env" / "bin" / "python"))
    assert as_called("mmie-tasks report out") == f"'{work}/my env/bin/mmie-tasks' report out"


def test_a_program_that_is_nowhere_keeps_its_name(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["my env/bin/mmie-tasks"])
    assert as_called("lmms-eval models") == "lmms-eval models"
