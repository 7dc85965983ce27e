"""Bad input to results commands: clear errors, and no invented numbers.

All of them read runs in one way, so that what a log can lack is tested with `table`; each is tested
with what it makes of it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.logged_runs import mmie_lines, write_run

from mmie_tasks.cli import load_command
from mmie_tasks.core.errors import MmieTasksError

WORDS = ("report", "table", "agreement", "compare")
OTHER_JUDGE = "judge:made_up|model:somebody"

Line = dict[str, Any]
Maker = Callable[[Path], object]  # creates a run in a folder
every_command = pytest.mark.parametrize("word", WORDS)


def lines(count: int = 12, **options: Any) -> list[Line]:
    return list(mmie_lines(count, **{"unscored": 0, **options}))


def arguments(word: str, run: Path, *options: str) -> list[str]:
    """Arguments of a command for a run: also an output file or a valid second run if needed."""
    beside = run.with_name("beside")
    match word:
        case "report":
            return [str(run), "-o", str(run.with_name("report.html")), *options]
        case "agreement":
            write_run(beside, "mmie", lines(judge=OTHER_JUDGE))
            return [str(run), str(beside), *options]
        case "compare":
            write_run(beside, "mmie", lines(answers="model-b"))
            return [str(run), str(beside), *options]
        case _:
            return [str(run), *options]


def run_command(word: str, words: list[str]) -> str:
    """The printed output."""
    printed: str = load_command(word)(words, {})
    return printed


def error_of(word: str, words: list[str]) -> str:
    with pytest.raises(MmieTasksError) as error:
        run_command(word, words)
    message = str(error.value)
    assert "\n\nhint: " in message
    return message


def run_with_log(*changes: Callable[[str], str], name: str = "mmie", count: int = 12) -> Maker:
    """Creates a run and applies changes to the text of its log."""

    def make(folder: Path) -> None:
        path = write_run(folder, name, lines(count))
        text = path.read_text(encoding="utf-8")
        for change in changes:
            text = change(text)
        path.write_text(text, encoding="utf-8")

    return make


def edit_line(number: int, edit: Callable[[Line], object]) -> Callable[[str], str]:
    """A change of one line of a log."""

    def change(text: str) -> str:
        log_lines = text.splitlines(keepends=True)
        line = json.loads(log_lines[number])
        edit(line)
        log_lines[number] = f"{json.dumps(line)}\n"
        return "".join(log_lines)

    return change


def third_line(line: str) -> Callable[[str], str]:
    """A change that replaces the third line."""
    return lambda text: text.replace(text.splitlines()[2], line)


def make_unscored(line: Line) -> None:
    for kind in ("official", "robust"):
        line["record"][kind] = {"reason": "unavailable", "detail": "it was down"}
        line.pop(kind, None)


def set_points(value: float) -> Callable[[Line], None]:
    """Sets official points that no reader returns."""

    def edit(line: Line) -> None:
        line["record"]["official"] = {"points": value, "reading": "?"}

    return edit


def make_all_unscored(text: str) -> str:
    for number in range(len(text.splitlines())):
        text = edit_line(number, make_unscored)(text)
    return text


def no_samples(folder: Path) -> None:
    folder.mkdir()
    (folder / "20261121_120000_results.json").write_text('{"results": {}}', encoding="utf-8")


BYPASS = '{"doc_id": 0, "target": "", "filtered_resps": "5", "bypass": 999, "input": "?"}'


@pytest.mark.parametrize(
    ("make", "message"),
    [
        pytest.param(no_samples, "contains no log of samples", id="no-samples"),
        pytest.param(run_with_log(lambda _: ""), "no readable task", id="an-empty-log"),
        pytest.param(run_with_log(lambda _: BYPASS), "`--predict_only`", id="predict-only"),
        pytest.param(run_with_log(third_line("{'id'")), "line 3, is not a logged", id="no-json"),
        pytest.param(
            run_with_log(name="mmmu_val"),
            "is not a task of a registered benchmark, ignored",
            id="not-our-task",
        ),
    ],
)
def test_an_unreadable_run_is_an_error_with_a_hint(
    tmp_path: Path, make: Maker, message: str
) -> None:
    make(tmp_path / "run")
    assert message in error_of("table", [str(tmp_path / "run")])


@every_command
def test_a_task_without_a_registered_benchmark_is_refused(tmp_path: Path, word: str) -> None:
    write_run(tmp_path / "run", "mmie", lines())
    message = error_of(word, arguments(word, tmp_path / "run", "--task", "mmmu_val"))
    assert "`mmmu_val` is not a task of a registered benchmark" in message


@every_command
def test_one_of_several_runs_must_be_named_or_all_are_read(tmp_path: Path, word: str) -> None:
    for name in ("one", "two"):
        write_run(tmp_path / "run" / name, "mmie", lines(answers=name))
    words = arguments(word, tmp_path / "run")
    if word in ("agreement", "compare"):
        assert "contains 2 runs" in error_of(word, words)
    else:
        output = run_command(word, words)
        assert word != "table" or ("one" in output and "two" in output)


@pytest.mark.parametrize(
    ("change", "note"),
    [
        pytest.param(lambda text: text[:-40], "cut off", id="last-line-cut-off"),
        pytest.param(edit_line(2, set_points(math.nan)), "outside the scale", id="nan"),
        pytest.param(lambda text: f"{text}{BYPASS}\n", "`--predict_only`", id="some-never-scored"),
    ],
)
def test_a_recoverable_problem_is_a_note(
    tmp_path: Path, change: Callable[[str], str], note: str
) -> None:
    run_with_log(change)(tmp_path / "run")
    (tmp_path / "run" / "20261121_120000_results.json").write_text("{", encoding="utf-8")
    output = run_command("table", [str(tmp_path / "run")])
    assert note in output
    assert non_numbers(output) == []


def non_numbers(output: str) -> list[str]:
    """Table cells with NaN, infinity or None; notes may quote the log."""
    cells = [cell.strip() for line in output.splitlines() for cell in line.split("|")[1:-1]]
    return [cell for cell in cells if re.search(r"\b(?:nan|inf|None)\b", cell, re.IGNORECASE)]


@every_command
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(run_with_log(count=1), id="one-sample"),
        pytest.param(run_with_log(make_all_unscored), id="zero-scored"),
        pytest.param(
            lambda folder: write_run(folder, "mmie", lines(30)[20:]), id="other-samples-than-beside"
        ),
    ],
)
def test_missing_scores_are_never_printed_as_nan_or_none(
    tmp_path: Path, word: str, make: Maker
) -> None:
    make(tmp_path / "run")
    try:
        output = run_command(word, arguments(word, tmp_path / "run"))
    except MmieTasksError as error:
        output = str(error)
        assert word in ("agreement", "compare")
    assert non_numbers(output) == []


@pytest.mark.parametrize("word", ["agreement", "compare"])
def test_a_huge_reply_is_read_and_not_printed(tmp_path: Path, word: str) -> None:
    def long(line: Line) -> None:
        reply = line["record"]["judgements"][0]["result"]["reply"]
        reply["text"] = f"{'so ' * 1_700_000}\n{reply['text']}"

    run_with_log(edit_line(0, long))(tmp_path / "run")
    output = run_command(word, arguments(word, tmp_path / "run"))
    assert len(output) < 50_000


@every_command
def test_a_command_without_a_run_is_a_usage_error(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run_command(word, [])
    assert f"usage: mmie-tasks {word}" in capsys.readouterr().err
