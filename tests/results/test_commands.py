"""Bad input to the commands on results: clear errors, and no invented numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support.logged_runs import DATE, Line, mmie_lines, write_run

from mmie_tasks.cli import load_command
from mmie_tasks.core.errors import MmieTasksError

Change = Callable[[list[Line]], list[Line]]
BYPASS: Line = {"doc_id": 0, "target": "", "filtered_resps": "5", "bypass": 999, "input": "?"}
every_command = pytest.mark.parametrize("word", ["report", "table", "agreement", "compare"])


def lines(count: int = 12, **options: str) -> list[Line]:
    return list(mmie_lines(count, unscored=0, **options))


def output_of(word: str, run: Path) -> str:
    """What a command prints of a run, and of another one that it needs; or its error."""
    words = [str(run)]
    if word == "report":
        words += ["-o", str(run.with_name("report.html"))]
    elif word != "table":
        made = lines(judge="judge:a|model:b") if word == "agreement" else lines(answers="model-b")
        words.append(str(write_run(run.with_name("other"), "mmie", made)))
    try:
        return str(load_command(word)(words, {}))
    except MmieTasksError as error:
        return f"error: {error}"


def unscored(logged: list[Line]) -> list[Line]:
    for line in logged:
        line["record"]["verdicts"]["official"] = {"reason": "unavailable"}
    return logged


def non_numbers(output: str) -> list[str]:
    """Table cells with NaN, infinity or None; notes may quote the log."""
    cells = [cell.strip() for line in output.splitlines() for cell in line.split("|")[1:-1]]
    return [cell for cell in cells if re.search(r"\b(?:nan|inf|None)\b", cell, re.IGNORECASE)]


@every_command
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda logged: logged[:1], id="one-sample"),
        pytest.param(unscored, id="zero-scored"),
        pytest.param(lambda _: lines(30)[20:], id="other-samples-than-the-other"),
    ],
)
def test_missing_scores_are_never_printed_as_nan_or_none(
    tmp_path: Path, word: str, change: Change
) -> None:
    write_run(tmp_path / "run", "mmie", change(lines()))
    output = output_of(word, tmp_path / "run")
    assert not output.startswith("error") or word in ("agreement", "compare")
    assert non_numbers(output) == []


def test_what_was_left_out_of_a_log_is_a_note(tmp_path: Path) -> None:
    log = write_run(tmp_path, "mmie", [*lines(), BYPASS])
    log.write_text(log.read_text(encoding="utf-8") + json.dumps(lines()[0])[:-40])
    (tmp_path / f"{DATE}_results.json").write_text("{", encoding="utf-8")
    output = output_of("table", tmp_path)
    assert "line 14, the last, is cut off" in output
    assert "1 sample never scored" in output


@pytest.mark.parametrize(
    ("made", "task", "message"),
    [
        pytest.param([], "mmie", "no readable task", id="an-empty-log"),
        pytest.param([BYPASS], "mmie", "`--predict_only`", id="predict-only"),
        pytest.param(lines(), "mmmu_val", "registered benchmark, ignored", id="not-our-task"),
    ],
)
def test_a_run_without_scores_is_an_error_that_says_why(
    tmp_path: Path, made: list[Line], task: str, message: str
) -> None:
    write_run(tmp_path, task, made)
    output = output_of("table", tmp_path)
    assert output.startswith("error")
    assert message in output


def test_one_of_several_runs_must_be_named_or_all_are_read(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_run(tmp_path / "run" / name, "mmie", lines(answers=name))
    assert "contains 2 runs" in output_of("compare", tmp_path / "run")
    output = output_of("table", tmp_path / "run")
    assert "one" in output
    assert "two" in output
