from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.logged_runs import mmie_lines, write_run

from mmie_tasks import __version__
from mmie_tasks.cli import COMMANDS, HELP, load_command, main
from mmie_tasks.core.paths import task_dir


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        pytest.param(["path"], f"{task_dir()}\n", id="path"),
        pytest.param(["--version"], f"mmie-tasks {__version__}\n", id="version"),
    ],
)
def test_path_and_version_print_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], output: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["mmie-tasks", *arguments])
    main()
    assert capsys.readouterr().out == output


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_help_names_our_subcommands_and_those_of_the_runner(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["mmie-tasks", *arguments])
    main()
    output = capsys.readouterr().out
    ours = ("mmie-tasks path", "mmie-tasks doctor", "--version")
    assert all(word in output for word in (*ours, "lmms-eval", "eval"))
    assert max(map(len, output.splitlines())) <= 100


@pytest.mark.parametrize("name", COMMANDS)
def test_every_subcommand_is_in_the_help_and_can_be_loaded(name: str) -> None:
    assert f"  mmie-tasks {name} " in HELP
    assert callable(load_command(name))


def test_path_takes_no_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mmie-tasks", "path", "milebench"])
    with pytest.raises(SystemExit, match="takes no arguments"):
        main()


@pytest.mark.parametrize("name", ["prefetch", "report", "table", "agreement", "compare", "subset", "rescore"])
def test_a_subcommand_prints_an_error_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    arguments = ["not-there"] if name == "prefetch" else ["not-there", "not-there"]
    monkeypatch.setattr(sys, "argv", ["mmie-tasks", name, *arguments])
    with pytest.raises(SystemExit, match=r"not-there[\s\S]*hint: "):
        main()
    assert capsys.readouterr().out == ""


def test_a_closed_pipe_gives_no_traceback(tmp_path: Path) -> None:
    write_run(tmp_path, "mmie", mmie_lines(6))
    command = f"'{sys.executable}' -m mmie_tasks rescore '{tmp_path}' | true"
    process = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert process.stderr == ""
