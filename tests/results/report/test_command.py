from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.logged_runs import mia_lines, mmie_lines, write_run

from mmie_tasks.cli import load_command
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong

run = load_command("report")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, skill in (("good", 0.8), ("bad", 0.3)):
        write_run(tmp_path / name, "mmie", mmie_lines(12, skill=skill, answers=name))
        write_run(tmp_path / name, "mia_bench", mia_lines(12, skill=skill, answers=name))
    return tmp_path


def test_a_report_of_two_runs_is_one_file(folder: Path) -> None:
    target = folder / "new" / "report.html"
    words = run([f"A={folder / 'good'}", f"B={folder / 'bad'}", "-o", str(target)], {})
    page = target.read_text(encoding="utf-8")
    assert words.startswith(f"{target}: ")
    assert words.endswith("; 2 runs, 2 tasks, 48 samples")
    assert "Results of A, B" in page
    assert page.lower().startswith("<!doctype html>")
    assert list(target.parent.iterdir()) == [target]


def test_tasks_and_title_follow_the_options(folder: Path) -> None:
    target = folder / "report.html"
    words = [str(folder / "good"), "--tasks", "mmie", "--title", "Kites <&>", "-o", str(target)]
    assert run(words, {}).endswith("; 1 run, 1 task, 12 samples")
    assert "Kites &lt;&amp;&gt;" in target.read_text(encoding="utf-8")


def test_a_report_is_overwritten_only_by_a_complete_one(folder: Path) -> None:
    target = folder / "report.html"
    run([str(folder / "good"), "-o", str(target)], {})
    before = target.read_bytes()
    with pytest.raises(AnswersUnusable):
        run([str(folder / "nothing"), "-o", str(target)], {})
    assert target.read_bytes() == before


@pytest.mark.parametrize("output", ["report.json", ".", "log.jsonl", "report"])
def test_only_a_page_is_overwritten(folder: Path, output: str) -> None:
    with pytest.raises(SettingWrong):
        run([str(folder / "good"), "-o", str(folder / output)], {})


def test_an_unwritable_folder_is_an_error(folder: Path) -> None:
    target = next((folder / "good").glob("*mmie.jsonl")) / "report.html"
    with pytest.raises(SettingWrong, match=str(target)):
        run([str(folder / "good"), "-o", str(target)], {})


def test_huge_replies_do_not_make_a_huge_report(tmp_path: Path) -> None:
    lines = list(mmie_lines(3))
    for line in lines:
        line["record"]["judgements"][0]["result"]["reply"]["text"] = json.dumps(
            list(range(100_000))
        )
    write_run(tmp_path / "one", "mmie", lines)
    target = tmp_path / "report.html"
    run([str(tmp_path / "one"), "-o", str(target)], {})
    assert target.stat().st_size < 3_000_000
