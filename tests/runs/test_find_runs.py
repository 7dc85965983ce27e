"""Which files belong to a run."""

from pathlib import Path

import pytest

from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.runs.log_files import find_runs, parse_log_name

OLD, NEW = "20261121_090000", "20261121_100000"


def touch(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def logs(found):
    return [(log.date, log.task) for log in found.logs]


@pytest.mark.parametrize(
    ("name", "found"),
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
def test_a_log_is_known_by_its_name(name, found):
    log = parse_log_name(Path(name))
    assert found == (log and (log.date, log.task))


def test_of_each_task_the_newest_log_is_taken(tmp_path):
    touch(tmp_path, f"{OLD}_samples_mmie.jsonl", f"{NEW}_samples_mmie.jsonl")
    touch(tmp_path, f"{OLD}_samples_mia_bench.jsonl")
    (found,) = find_runs(str(tmp_path))
    assert logs(found) == [(OLD, "mia_bench"), (NEW, "mmie")]
    assert found.older == 1


def test_every_folder_with_logs_is_a_run_at_any_depth(tmp_path):
    touch(tmp_path / "a" / "model-a", "samples_mmie.jsonl")
    touch(tmp_path / "b", "samples_mmie.jsonl")
    assert [found.name for found in find_runs(str(tmp_path))] == ["model-a", "b"]


@pytest.mark.parametrize("name", [f"{OLD}_results.json", f"{OLD}_samples_mmie.jsonl"])
def test_a_file_names_its_own_evaluation(tmp_path, name):
    touch(tmp_path, f"{OLD}_results.json", f"{OLD}_samples_mmie.jsonl", f"{NEW}_samples_mmie.jsonl")
    (found,) = find_runs(str(tmp_path / name))
    assert logs(found) == [(OLD, "mmie")]
    assert found.logs[0].results == tmp_path / f"{OLD}_results.json"


def test_a_word_can_name_the_run(tmp_path):
    touch(tmp_path, "samples_mmie.jsonl")
    (found,) = find_runs(f"Model A={tmp_path}")
    assert found.name == "Model A"


def test_a_path_that_holds_the_sign_is_a_path(tmp_path):
    folder = touch(tmp_path / "x=1", "samples_mmie.jsonl")
    (found,) = find_runs(str(folder))
    assert found.name == "x=1"


@pytest.mark.parametrize("word", [".", "samples_mmie.jsonl", "./../here"])
def test_a_run_in_the_folder_one_is_in_has_a_name(tmp_path, monkeypatch, word):
    monkeypatch.chdir(touch(tmp_path / "here", "samples_mmie.jsonl"))
    (found,) = find_runs(word)
    assert found.name == "here"


def test_one_name_for_two_runs_is_refused(tmp_path):
    touch(tmp_path / "a", "samples_mmie.jsonl")
    touch(tmp_path / "b", "samples_mmie.jsonl")
    with pytest.raises(SettingWrong, match="names 2 runs"):
        find_runs(f"A={tmp_path}")


@pytest.mark.parametrize(
    ("word", "words"),
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
def test_what_is_no_run_is_refused_in_words(tmp_path, monkeypatch, word, words):
    monkeypatch.chdir(touch(tmp_path, "notes.txt"))
    with pytest.raises(AnswersUnusable, match=words):
        find_runs(word)
