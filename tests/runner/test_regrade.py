"""`mmie-tasks rejudge RUN` reads the saved replies by today's readers, and asks nobody."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from support.logged_runs import Line, mia_lines, milebench_lines, mmie_lines, write_run

from mmie_tasks.runner.rejudge import run


def as_logged(lines: Any) -> list[Line]:
    """Lines as they are read from a file."""
    return [json.loads(json.dumps(line)) for line in lines]


LINES = {
    "mmie": as_logged(mmie_lines(12, unscored=0)),
    "mia_bench": as_logged(mia_lines(12)),
    "milebench": as_logged(milebench_lines(2, datasets=("DocVQA", "TQA", "GPR1200"))),
}
WRONG = {"reading": "?", "points": 0}


def read_again(
    folder: Path, capsys: pytest.CaptureFixture[str], task: str, lines: list[Line]
) -> dict[str, list[str]]:
    """The cells of each printed row, by the first two; and the other lines, by their text."""
    write_run(folder, task, lines)
    assert run([str(folder)], {}) == 0
    printed: dict[str, list[str]] = {}
    for line in capsys.readouterr().out.splitlines():
        first, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        printed[f"{first} {cells[0]}" if cells else first] = cells[1:]
    return printed


@pytest.mark.parametrize("task", LINES)
def test_the_readers_of_the_run_change_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], task: str
) -> None:
    printed = read_again(tmp_path, capsys, task, LINES[task])
    assert f"{task}: 0 verdicts changed." in printed
    before, after, difference, *_ = printed[f"{task} official"]
    assert before == after
    assert before == "n/a" or difference == "+0.00"


@pytest.mark.parametrize("task", LINES)
@pytest.mark.parametrize("kind", ["official", "robust"])
def test_a_verdict_that_differs_from_the_log_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], task: str, kind: str
) -> None:
    lines = copy.deepcopy(LINES[task])
    number = next(
        n for n, line in enumerate(lines) if line["record"]["verdicts"][kind]["points"] > 0
    )
    sound = lines[number]["record"]
    points = sound["verdicts"][kind]["points"]
    sound["verdicts"][kind] = WRONG
    printed = read_again(tmp_path, capsys, task, lines)
    assert f"{task}: 1 verdict changed." in printed
    old, new = printed[f"{sound['id']} {kind}"]
    assert old.startswith("0 ")
    assert new.split()[0] == f"{points:g}"


def test_a_sample_whose_reply_is_not_in_the_log_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = copy.deepcopy(LINES["mmie"])
    lines[0]["record"]["verdicts"]["official"] = WRONG
    lines[0]["record"]["judgements"][0]["result"] = {}
    printed = read_again(tmp_path, capsys, "mmie", lines)
    assert "mmie: 0 verdicts changed." in printed
    assert any("cannot be read again: the log does not hold" in line for line in printed)
