"""The files that belong to a run."""

import json
from pathlib import Path

import pytest

from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.record.log_files import find_runs, parse_log_name

OLD, NEW = "20261121_090000", "20261121_100000"


def touch(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def logs(run_logs):
    return [(log.date, log.task) for log in run_logs.logs]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(f"{OLD}_samples_mmie_sa.jsonl", (OLD, "mmie_sa"), id="as-the-runner"),
        pytest.param("samples_mmie.jsonl", ("", "mmie"), id="without-a-date"),
        pytest.param(
            f"{OLD}_samples_milebench_Spot-the-Diff.jsonl",
            (OLD, "milebench_Spot-the-Diff"),
            id="a-task-with-lines",
        ),
        pytest.param(f"{OLD}_results.json", None, id="results"),
        pytest.param("samples_.jsonl", None, id="without-a-task"),
        pytest.param("samples_mmie.jsonl.part", None, id="unfinished"),
    ],
)
def test_the_date_and_task_are_in_the_name_of_a_log(name, expected):
    log = parse_log_name(Path(name))
    assert expected == (log and (log.date, log.task))


def test_the_newest_log_of_a_task_is_used(tmp_path):
    touch(tmp_path, f"{OLD}_samples_mmie.jsonl", f"{NEW}_samples_mmie.jsonl")
    touch(tmp_path, f"{OLD}_samples_mia_bench.jsonl")
    (run_logs,) = find_runs(str(tmp_path))
    assert logs(run_logs) == [(OLD, "mia_bench"), (NEW, "mmie")]
    assert run_logs.older == 1


def test_every_folder_with_logs_is_a_run_at_any_depth(tmp_path):
    touch(tmp_path / "a" / "model-a", "samples_mmie.jsonl")
    touch(tmp_path / "b", "samples_mmie.jsonl")
    assert [run_logs.name for run_logs in find_runs(str(tmp_path))] == ["model-a", "b"]


@pytest.mark.parametrize("name", [f"{OLD}_results.json", f"{OLD}_samples_mmie.jsonl"])
def test_a_file_names_its_own_evaluation(tmp_path, name):
    touch(tmp_path, f"{OLD}_results.json", f"{OLD}_samples_mmie.jsonl", f"{NEW}_samples_mmie.jsonl")
    (run_logs,) = find_runs(str(tmp_path / name))
    assert logs(run_logs) == [(OLD, "mmie")]
    assert run_logs.logs[0].results == tmp_path / f"{OLD}_results.json"


def test_a_word_can_name_the_run(tmp_path):
    touch(tmp_path, "samples_mmie.jsonl")
    (run_logs,) = find_runs(f"Model A={tmp_path}")
    assert run_logs.name == "Model A"


@pytest.mark.parametrize(
    ("results", "name"),
    [
        pytest.param({"model_name": "Qwen/Qwen2.5-VL-7B"}, "Qwen2.5-VL-7B", id="saved"),
        pytest.param(
            {"model_name": "", "config": {"model": "qwen", "model_args": {"pretrained": "/m/a"}}},
            "a",
            id="arguments",
        ),
        pytest.param({"config": {"model": "qwen", "model_args": ""}}, "qwen", id="type"),
        pytest.param({"config": {}}, "folder", id="folder"),
        pytest.param([], "folder", id="no-object"),
    ],
)
def test_a_run_is_named_by_its_newest_results(tmp_path, results, name):
    folder = touch(tmp_path / "folder", f"{OLD}_samples_mmie.jsonl", f"{NEW}_samples_mia.jsonl")
    (folder / f"{OLD}_results.json").write_text('{"model_name": "older"}')
    (folder / f"{NEW}_results.json").write_text(json.dumps(results))
    (run_logs,) = find_runs(str(tmp_path))
    assert run_logs.name == name


def test_an_existing_path_with_an_equals_sign_is_a_path(tmp_path):
    folder = touch(tmp_path / "x=1", "samples_mmie.jsonl")
    (run_logs,) = find_runs(str(folder))
    assert run_logs.name == "x=1"


@pytest.mark.parametrize("word", [".", "samples_mmie.jsonl", "./../here"])
def test_a_run_in_the_current_folder_has_a_name(tmp_path, monkeypatch, word):
    monkeypatch.chdir(touch(tmp_path / "here", "samples_mmie.jsonl"))
    (run_logs,) = find_runs(word)
    assert run_logs.name == "here"


def test_one_name_for_two_runs_is_an_error(tmp_path):
    touch(tmp_path / "a", "samples_mmie.jsonl")
    touch(tmp_path / "b", "samples_mmie.jsonl")
    with pytest.raises(SettingWrong, match="names 2 runs"):
        find_runs(f"A={tmp_path}")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        pytest.param("nowhere", "`nowhere` does not exist", id="nowhere"),
        pytest.param("A=nowhere", "`nowhere` does not exist", id="named"),
        pytest.param("A=", "no path", id="no-path"),
        pytest.param("x" * 5000, "cannot be opened", id="too-long"),
        pytest.param("~nobody-has-this-name/x", "cannot be opened", id="nobody's-home"),
        pytest.param(".", "contains no log", id="empty"),
        pytest.param("notes.txt", "contains no log", id="another-file"),
    ],
)
def test_a_path_without_runs_is_an_error(tmp_path, monkeypatch, word, message):
    monkeypatch.chdir(touch(tmp_path, "notes.txt"))
    with pytest.raises(AnswersUnusable, match=message):
        find_runs(word)
