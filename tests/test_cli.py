from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.logged_runs import mmie_lines, write_run

from mmie_tasks import __version__
from mmie_tasks.cli import COMMANDS, HELP, main
from mmie_tasks.core.paths import task_dir


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["path"], f"{task_dir()}\n", id="path"),
        pytest.param(["--version"], f"mmie-tasks {__version__}\n", id="version"),
    ],
)
def test_a_word_of_our_own_prints_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["mmie-tasks", *words])
    main()
    assert capsys.readouterr().out == said


@pytest.mark.parametrize("words", [[], ["-h"], ["--help"]])
def test_help_names_our_words_and_the_runner(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["mmie-tasks", *words])
    main()
    said = capsys.readouterr().out
    ours = ("mmie-tasks path", "mmie-tasks doctor", "--version")
    assert all(word in said for word in (*ours, "lmms-eval", "eval"))


def test_path_takes_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["mmie-tasks", "path", "milebench"])
    with pytest.raises(SystemExit, match="takes nothing more"):
        main()


@pytest.mark.parametrize("word", COMMANDS)
def test_a_command_that_looks_at_results_is_in_the_help_and_ends_in_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], word: str
) -> None:
    assert f"  mmie-tasks {word} " in HELP
    arguments = ["not-there"] if word == "prefetch" else ["not-there", "not-there"]
    monkeypatch.setattr(sys, "argv", ["mmie-tasks", word, *arguments])
    with pytest.raises(SystemExit, match=r"not-there[\s\S]*hint: "):
        main()
    assert capsys.readouterr().out == ""


def test_who_reads_only_the_head_of_what_is_printed_sees_no_traceback(tmp_path: Path) -> None:
    write_run(tmp_path, "mmie", mmie_lines(6))
    command = f"'{sys.executable}' -m mmie_tasks rescore '{tmp_path}' | true"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
