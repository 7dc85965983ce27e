from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from huggingface_hub import parse_eval_result_entries
from support.logged_runs import DATE, mia_lines, milebench_lines, mmie_lines, write_run

from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.results.commands import open_run
from mmie_tasks.results.export.hub import run
from mmie_tasks.runs.headline import headline_of

COMMIT = "5503434ddd753f426f4b38109466949a1217c2bb"


def on_the_hub(line: dict[str, Any], repo: str) -> dict[str, Any]:
    """The line of a run with data from the Hub."""
    text = json.dumps(line).replace('"sha256:1"', f'"{repo}@{COMMIT},left_out=1"')
    changed: dict[str, Any] = json.loads(text)
    return changed


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A run of two tasks with data from the Hub; of ``mmie``, a share of samples is unscored."""
    lines = [on_the_hub(line, "MMIE/MMIE") for line in mmie_lines(60, unscored=0.05)]
    write_run(tmp_path / "out", "mmie", lines, results={})
    lines = [on_the_hub(line, "FreedomIntelligence/MileBench") for line in milebench_lines(2)]
    write_run(tmp_path / "out", "milebench", lines)
    saved = {"config": {"resolved_cli_args": {"timezone": "Asia/Singapore"}}}
    (tmp_path / "out" / f"{DATE}_results.json").write_text(json.dumps(saved), encoding="utf-8")
    return tmp_path / "out"


def test_each_task_has_a_file_that_the_hubs_library_reads(out: Path, tmp_path: Path) -> None:
    printed = run([str(out), "-o", str(tmp_path), "--source", "https://example.org/r"], {})
    folder = tmp_path / ".eval_results"
    assert printed.splitlines() == [f"{folder}/milebench.yaml", f"{folder}/mmie.yaml"]
    (entry,) = parse_eval_result_entries(yaml.safe_load((folder / "mmie.yaml").read_text("utf-8")))
    headline = headline_of(open_run(str(out)).tasks["mmie"])
    assert headline.official is not None
    assert (entry.dataset_id, entry.dataset_revision) == ("MMIE/MMIE", COMMIT)
    assert (entry.task_id, entry.value) == ("mmie", headline.official.percent)
    assert entry.date == "2026-11-21T04:00:00+00:00"  # noon in Singapore
    assert entry.source_url == "https://example.org/r"


def test_the_notes_are_what_is_unlike_the_paper_with_the_unscored_samples(
    out: Path, tmp_path: Path
) -> None:
    run([str(out), "-o", str(tmp_path), "--tasks", "mmie"], {})
    (entry,) = yaml.safe_load((tmp_path / ".eval_results" / "mmie.yaml").read_text("utf-8"))
    marks = headline_of(open_run(str(out)).tasks["mmie"]).marks
    assert "4 unscored" in marks
    assert entry["notes"] == f"unlike the paper: {'; '.join(marks)}"


def test_the_data_set_of_local_data_is_named_by_the_user(tmp_path: Path) -> None:
    write_run(tmp_path / "out", "mia_bench", mia_lines(80))
    arguments = [str(tmp_path / "out"), "-o", str(tmp_path)]
    with pytest.raises(SettingWrong, match="mia_bench"):
        run(arguments, {})
    assert not (tmp_path / ".eval_results").exists()
    run([*arguments, "--dataset", "mia_bench=org/MIA-Bench"], {})
    (entry,) = yaml.safe_load((tmp_path / ".eval_results" / "mia_bench.yaml").read_text("utf-8"))
    assert entry["dataset"] == {"id": "org/MIA-Bench", "task_id": "mia_bench"}
    assert "date" not in entry  # the time zone was not logged


@pytest.mark.parametrize("word", ["mia_bench=MIA-Bench", "mmie=org/MMIE", "org/MIA-Bench"])
def test_a_data_set_that_names_no_task_or_repository_is_an_error(tmp_path: Path, word: str) -> None:
    write_run(tmp_path / "out", "mia_bench", mia_lines(20))
    with pytest.raises(SettingWrong, match=word):
        run([str(tmp_path / "out"), "-o", str(tmp_path), "--dataset", word], {})


def test_a_task_without_official_score_is_not_exported(tmp_path: Path) -> None:
    write_run(tmp_path / "out", "mmie", mmie_lines(60, unscored=0.5))
    with pytest.raises(AnswersUnusable, match="mmie"):
        run([str(tmp_path / "out"), "-o", str(tmp_path), "--dataset", "mmie=MMIE/MMIE"], {})
    assert not (tmp_path / ".eval_results").exists()


def test_a_library_that_does_not_know_the_format_is_an_error(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", ModuleType("huggingface_hub"))
    with pytest.raises(SettingWrong, match="huggingface_hub"):
        run([str(out), "-o", str(tmp_path)], {})
