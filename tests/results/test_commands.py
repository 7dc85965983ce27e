"""Bad input to the commands on results: clear errors, and no invented numbers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.logged_runs import DATE, Line, mmie_lines, write_run

from mmie_tasks.cli import load_command
from mmie_tasks.core.errors import MmieTasksError

Change = Callable[[str], str]  # of the text of a log
BYPASS = '{"doc_id": 0, "target": "", "filtered_resps": "5", "bypass": 999, "input": "?"}'
every_command = pytest.mark.parametrize("word", ["report", "table", "agreement", "compare"])


def lines(count: int = 12, **options: Any) -> list[Line]:
    return list(mmie_lines(count, **{"unscored": 0, **options}))


def changed_run(folder: Path, change: Change, task: str = "mmie", count: int = 12) -> str:
    log = write_run(folder, task, lines(count))
    log.write_text(change(log.read_text(encoding="utf-8")), encoding="utf-8")
    return str(folder)


def edit(number: int, path: str, value: object) -> Change:
    """A change of a field of the record of one line, or of all with -1."""

    def change(text: str) -> str:
        changed = [json.loads(line) for line in text.splitlines()]
        for line in changed if number < 0 else changed[number : number + 1]:
            *parents, name = path.split(".")
            target = line["record"]
            for parent in parents:
                target = target[int(parent) if parent.isdecimal() else parent]
            target[name] = value
        return "".join(f"{json.dumps(line)}\n" for line in changed)

    return change


def output_of(word: str, run: Path, *options: str) -> str:
    """What a command prints of a run, and of another one that it needs; or its error."""
    words = [str(run), *options]
    if word == "report":
        words += ["-o", str(run.with_name("report.html"))]
    elif word != "table":
        other: dict[str, Any] = {"judge": "judge:made_up|model:somebody"}
        other = other if word == "agreement" else {"answers": "model-b"}
        words.insert(1, str(write_run(run.with_name("other"), "mmie", lines(**other))))
    try:
        return str(load_command(word)(words, {}))
    except MmieTasksError as error:
        return f"error: {error}"


@pytest.mark.parametrize(
    ("change", "task", "message"),
    [
        pytest.param(lambda _: "", "mmie", "no readable task", id="an-empty-log"),
        pytest.param(lambda _: BYPASS, "mmie", "`--predict_only`", id="predict-only"),
        pytest.param(
            lambda text: text.replace(text.splitlines()[2], "{'id'"),
            "mmie",
            "line 3, is not a logged",
            id="no-json",
        ),
        pytest.param(str, "mmmu_val", "registered benchmark, ignored", id="not-our-task"),
    ],
)
def test_an_unreadable_run_is_an_error_with_a_hint(
    tmp_path: Path, change: Change, task: str, message: str
) -> None:
    changed_run(tmp_path / "run", change, task)
    output = output_of("table", tmp_path / "run")
    assert output.startswith("error")
    assert message in output
    assert "\n\nhint: " in output


@every_command
def test_one_of_several_runs_must_be_named_or_all_are_read(tmp_path: Path, word: str) -> None:
    for name in ("one", "two"):
        write_run(tmp_path / "run" / name, "mmie", lines(answers=name))
    output = output_of(word, tmp_path / "run")
    assert ("contains 2 runs" in output) == (word in ("agreement", "compare"))
    assert word != "table" or ("one" in output and "two" in output)


@pytest.mark.parametrize(
    ("change", "note"),
    [
        pytest.param(lambda text: text[:-40], "cut off", id="last-line-cut-off"),
        pytest.param(
            edit(2, "verdicts.official", {"points": math.nan}), "outside the scale", id="nan"
        ),
        pytest.param(lambda text: f"{text}{BYPASS}\n", "1 sample never scored", id="never-scored"),
    ],
)
def test_a_recoverable_problem_is_a_note(tmp_path: Path, change: Change, note: str) -> None:
    changed_run(tmp_path / "run", change)
    (tmp_path / "run" / f"{DATE}_results.json").write_text("{", encoding="utf-8")
    output = output_of("table", tmp_path / "run")
    assert note in output
    assert non_numbers(output) == []


def non_numbers(output: str) -> list[str]:
    """Table cells with NaN, infinity or None; notes may quote the log."""
    cells = [cell.strip() for line in output.splitlines() for cell in line.split("|")[1:-1]]
    return [cell for cell in cells if re.search(r"\b(?:nan|inf|None)\b", cell, re.IGNORECASE)]


@every_command
@pytest.mark.parametrize(
    ("change", "count"),
    [
        pytest.param(str, 1, id="one-sample"),
        pytest.param(str, 3, id="three-samples"),
        pytest.param(edit(-1, "official", {"reason": "unavailable"}), 12, id="zero-scored"),
        pytest.param(
            lambda text: "".join(text.splitlines(True)[20:]), 30, id="other-samples-than-the-other"
        ),
    ],
)
def test_missing_scores_are_never_printed_as_nan_or_none(
    tmp_path: Path, word: str, change: Change, count: int
) -> None:
    changed_run(tmp_path / "run", change, count=count)
    output = output_of(word, tmp_path / "run")
    assert not output.startswith("error") or word in ("agreement", "compare")
    assert non_numbers(output) == []
