from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.logged_runs import mmie_lines, write_run

from mmie_tasks import __version__
from mmie_tasks.cli import COMMANDS, HELP, load_command, main
from mmie_tasks.core.files import task_dir

WITH_HELP = (*((name,) for name in COMMANDS), ("export", "mmie"))


@pytest.fixture(autouse=True)
def unmuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """`doctor` mutes the logs of its process, which is that of all tests here."""
    monkeypatch.setattr("mmie_tasks.core.log.plain_logs", lambda _level: None)


def run_main(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["mmie-tasks", *arguments])
    main()


def status_of(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    with pytest.raises(SystemExit) as stop:
        run_main(monkeypatch, *arguments)
    return stop.value.code


def test_path_and_version_print_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_main(monkeypatch, "path")
    run_main(monkeypatch, "--version")
    assert capsys.readouterr().out == f"{task_dir()}\nmmie-tasks {__version__}\n"


def test_every_command_has_one_line_of_the_help_and_can_be_loaded() -> None:
    for name in COMMANDS:
        assert HELP.count(f"\n  {name} ") == 1
        assert callable(load_command(name))


@pytest.mark.parametrize("command", WITH_HELP, ids=" ".join)
def test_every_command_has_a_help_that_shows_its_defaults(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    parsers: list[argparse.ArgumentParser] = []
    print_help = argparse.ArgumentParser.print_help

    def print_and_record(parser: argparse.ArgumentParser) -> None:
        parsers.append(parser)
        print_help(parser)

    monkeypatch.setattr(argparse.ArgumentParser, "print_help", print_and_record)
    monkeypatch.setenv("COLUMNS", "1000")
    assert status_of(monkeypatch, *command, "--help") == 0
    output = capsys.readouterr().out
    assert output.startswith(f"usage: mmie-tasks {' '.join(command)} ")
    for action in parsers[-1]._actions:
        if (
            action.help == argparse.SUPPRESS
            or not action.option_strings
            or action.nargs == 0
            or action.required
        ):
            continue
        assert action.help is not None
        assert "default" in action.help, action
        if action.default not in (None, "", []):
            assert f"default: {action.default}" in output


@pytest.mark.parametrize(
    ("typo", "nearest"),
    [pytest.param("raport", "report", id="ours"), pytest.param("evall", "eval", id="the-runners")],
)
def test_a_typo_lists_all_commands_and_the_nearest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typo: str, nearest: str
) -> None:
    assert status_of(monkeypatch, typo, "out") == 2
    message = capsys.readouterr().err
    assert message.startswith(f"There is no command `{typo}`. Did you mean `{nearest}`?\n\nhint: ")
    assert all(name in message for name in (*COMMANDS, "eval", "tasks", "models"))


@pytest.mark.parametrize("name", ["eval", "doctor", "prefetch"])
def test_a_judge_for_no_judged_benchmark_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for benchmark in ("mmei", "milebench"):
        with pytest.raises(SystemExit, match=rf"`{benchmark}`[\s\S]*hint: "):
            run_main(monkeypatch, name, "--tasks", "mmie", "--judge", f"{benchmark}=openai")


def test_a_subcommand_prints_an_error_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("report", "table", "agreement", "compare", "prefetch"):
        more = [] if name == "prefetch" else ["not-there"]
        with pytest.raises(SystemExit, match=r"not-there[\s\S]*hint: "):
            run_main(monkeypatch, name, "not-there", *more)
    assert capsys.readouterr().out == ""


def test_ctrl_c_ends_a_command_with_status_130_and_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mmie_tasks.cli.load_command", interrupt)
    assert status_of(monkeypatch, "report", "out") == 130
    assert capsys.readouterr().err.strip() == "Stopped by Ctrl-C."


def test_what_a_terminal_cannot_encode_is_replaced(tmp_path: Path) -> None:
    write_run(tmp_path / "模型", "mmie", mmie_lines(2))
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
    words = [sys.executable, "-m", "mmie_tasks", "table", str(tmp_path / "模型")]
    ended = subprocess.run(words, capture_output=True, env=environment, check=False)
    assert ended.returncode == 0, ended.stderr
    assert b"| ?? " in ended.stdout
