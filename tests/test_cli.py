from __future__ import annotations

import sys

import pytest

from mmie_tasks import __version__
from mmie_tasks.cli import COMMANDS, HELP, load_command, main
from mmie_tasks.core.files import task_dir


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
