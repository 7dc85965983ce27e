"""Several logs of one run, and files that are not of the run they seem to belong to."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.logged_runs import DATE, Line, mia_lines, mmie_lines, write_run

from mmie_tasks import load_run
from mmie_tasks.answers.saved import read_answers
from mmie_tasks.cli import load_command
from mmie_tasks.results.marks import paper_marks
from mmie_tasks.results.run import open_runs

LINES = list(mia_lines(16))
DATES = [f"20261121_1{hour}0000" for hour in range(4)]


def parts(folder: Path, lines: list[Line] = LINES, order: tuple[int, ...] = (0, 1, 2, 3)) -> Path:
    """Four jobs of four samples each, which began in this order."""
    for date, number in zip(DATES, order, strict=True):
        write_run(folder, "mia_bench", lines[4 * number :][:4], date=date)
    return folder


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 0, 2, 1)])
def test_four_jobs_with_an_offset_are_one_run(tmp_path: Path, order: tuple[int, ...]) -> None:
    joined = load_run(parts(tmp_path / "parts", order=order)).tasks["mia_bench"]
    write_run(tmp_path / "whole", "mia_bench", LINES)
    whole = load_run(tmp_path / "whole").tasks["mia_bench"]
    assert joined.records == whole.records  # in the order of the task
    assert joined.scores == whole.scores
    assert (joined.limit, joined.offset) == (16, 0)
    assert "16 of 400 samples (4 logs)" in paper_marks(joined)
    for command in ("table", "compare"):
        words = [str(tmp_path / "parts"), *([str(tmp_path / "whole")] * (command == "compare"))]
        assert "4 logs" in load_command(command)(words, {})
    assert len(read_answers([tmp_path / "parts"]).answers) == 16


def test_a_log_that_shares_a_sample_is_another_run_and_is_counted(tmp_path: Path) -> None:
    parts(tmp_path)
    write_run(tmp_path, "mia_bench", LINES[8:13], date="20261121_200000")
    run = load_run(tmp_path)
    ids = set(run.samples()["id"])
    assert ids == {str(number) for number in (*range(8), *range(8, 13))}
    assert run.notes == ("older logs of the same tasks, ignored: 2",)
    assert {one.id for one in read_answers([tmp_path]).answers} == ids


def test_a_log_of_another_judge_or_model_is_another_run(tmp_path: Path) -> None:
    other = list(mia_lines(16, judge="judge:made_up|model:other"))
    write_run(tmp_path / "a", "mia_bench", other[:8], date=DATES[0])
    write_run(tmp_path / "a", "mia_bench", LINES[8:], date=DATES[1])
    assert len(load_run(tmp_path / "a").samples()) == 8
    for name, lines, date in (("x", LINES[:8], DATES[0]), ("y", LINES[8:], DATES[1])):
        write_run(tmp_path / "b", "mia_bench", lines, date=date, results={})
        saved = {"model_name": name, "results": {"mia_bench": {}}}
        (tmp_path / "b" / f"{date}_results.json").write_text(json.dumps(saved))
    assert len(load_run(tmp_path / "b").samples()) == 8
    assert len(read_answers([tmp_path / "b"]).answers) == 8


def test_a_broken_older_log_does_not_stop_the_newest(tmp_path: Path) -> None:
    write_run(tmp_path, "mia_bench", LINES[:8], date=DATES[1])
    (tmp_path / f"{DATES[0]}_samples_mia_bench.jsonl").write_text("no JSON\n{}\n")
    assert len(load_run(tmp_path).samples()) == 8
    assert len(read_answers([tmp_path]).answers) == 8


@pytest.mark.parametrize(
    ("saved", "is_used"),
    [
        pytest.param({"results": {"mia_bench": {"official,none": 1.0}}}, True, id="its-own"),
        pytest.param({"results": {"mmie": {"official,none": 1.0}}}, False, id="another-task"),
        pytest.param(
            {
                "results": {"mia_bench": {"official,none": 1.0}},
                "config": {"limit": 2, "offset": 8},
                "n-samples": {"mia_bench": {"effective": 2}},
            },
            False,
            id="another-part",
        ),
    ],
)
def test_a_results_file_of_another_evaluation_is_ignored_with_a_note(
    tmp_path: Path, saved: dict[str, object], is_used: bool
) -> None:
    write_run(tmp_path, "mia_bench", LINES[:4])
    (tmp_path / f"{DATE}_results.json").write_text(json.dumps(saved))
    task = load_run(tmp_path).tasks["mia_bench"]
    assert task.stored == ({"official": 1.0} if is_used else {})
    assert any("another evaluation" in note for note in task.notes) != is_used
    assert task.offset is None


@pytest.mark.parametrize("copy", ["._{}", "__MACOSX/{}", ".ipynb_checkpoints/{}"])
def test_hidden_copies_are_never_read(tmp_path: Path, copy: str) -> None:
    log = write_run(tmp_path / "run", "mia_bench", LINES)
    hidden = log.parent / copy.format(log.name)
    hidden.parent.mkdir(exist_ok=True)
    shutil.copy(log, hidden)
    (run,) = open_runs([str(tmp_path)])
    assert len(run.samples()) == len(read_answers([tmp_path]).answers) == 16
    hidden.write_bytes(b"\0")
    assert len(read_answers([tmp_path]).answers) == 16


def test_tasks_are_in_the_order_of_the_command(tmp_path: Path) -> None:
    write_run(tmp_path, "mia_bench", LINES)
    write_run(tmp_path, "mmie", mmie_lines(12), results={})
    saved = json.loads((tmp_path / f"{DATE}_results.json").read_text())
    saved["results"]["mia_bench"] = {}
    saved["config"] = {"resolved_cli_args": {"tasks": "mmie,mia_bench"}}
    (tmp_path / f"{DATE}_results.json").write_text(json.dumps(saved))
    assert list(load_run(tmp_path).tasks) == ["mmie", "mia_bench"]
    table = load_command("table")([str(tmp_path)], {})
    assert table.index(" MMIE ") < table.index(" MIA-Bench ")
