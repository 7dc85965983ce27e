"""The files that belong to a run, and the lines of a log."""

import json
from pathlib import Path

import pytest

from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.record.log_files import find_runs, parse_log_name, read_lines

OLD, NEW = "20261121_090000", "20261121_100000"


def touch(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


def logs(run_logs):
    return [(log.date, log.task) for log in run_logs.logs]


def names(word):
    return [run_logs.name for run_logs in find_runs(word)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param(f"{OLD}_samples_mmie_sa.jsonl", (OLD, "mmie_sa"), id="as-the-runner"),
        pytest.param("samples_mmie.jsonl", ("", "mmie"), id="without-a-date"),
        pytest.param(f"{OLD}_samples_a_Spot-the.jsonl", (OLD, "a_Spot-the"), id="with-lines"),
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


def test_every_folder_with_logs_is_a_run_that_the_word_can_name(tmp_path):
    a = touch(tmp_path / "a" / "model-a", "samples_mmie.jsonl")
    touch(tmp_path / "x=1", "samples_mmie.jsonl")
    assert names(str(tmp_path)) == ["model-a", "x=1"]
    assert names(f"Model A={a}") == ["Model A"]
    assert names(str(tmp_path / "x=1")) == ["x=1"]  # an existing path
    with pytest.raises(SettingWrong, match="names 2 runs"):
        find_runs(f"A={tmp_path}")


@pytest.mark.parametrize("name", [f"{OLD}_results.json", f"{OLD}_samples_mmie.jsonl"])
def test_a_file_names_its_own_evaluation(tmp_path, name):
    touch(tmp_path, f"{OLD}_results.json", f"{OLD}_samples_mmie.jsonl", f"{NEW}_samples_mmie.jsonl")
    (run_logs,) = find_runs(str(tmp_path / name))
    assert logs(run_logs) == [(OLD, "mmie")]
    assert run_logs.logs[0].results == tmp_path / f"{OLD}_results.json"


@pytest.mark.parametrize(
    ("results", "name"),
    [
        pytest.param({"model_name": "Qwen/Qwen2.5-VL-7B"}, "Qwen2.5-VL-7B", id="saved"),
        pytest.param({"config": {"model": "x", "model_args": {"pretrained": "/m/a"}}}, "a", id="m"),
        pytest.param({"config": {"model": "qwen", "model_args": ""}}, "qwen", id="type"),
        pytest.param([], "folder", id="no-object"),
    ],
)
def test_a_run_is_named_by_its_newest_results_or_its_folder(tmp_path, monkeypatch, results, name):
    folder = touch(tmp_path / "folder", f"{OLD}_samples_mmie.jsonl", f"{NEW}_samples_mia.jsonl")
    (folder / f"{OLD}_results.json").write_text('{"model_name": "older"}')
    (folder / f"{NEW}_results.json").write_text(json.dumps(results))
    monkeypatch.chdir(folder)
    for word in (str(tmp_path), ".", "./../folder"):
        assert names(word) == [name]


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


# Lines.


def read(folder, content):
    path = folder / "samples_mmie.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return [(numbered.number, numbered.line) for numbered in read_lines(path)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("", [], id="empty"),
        pytest.param('{"a": 1}\n\n{"b": 2}\n', [(1, {"a": 1}), (3, {"b": 2})], id="a-blank-line"),
        pytest.param('{"a": 1}\r\n', [(1, {"a": 1})], id="windows"),
        pytest.param('{"a": 1}', [(1, {"a": 1})], id="whole-without-its-end"),
        pytest.param('{"a": 1}\n{"b": ', [(1, {"a": 1}), (2, None)], id="cut-off"),
        pytest.param(b'{"a": 1}\n{"b"' + b"\xc3", [(1, {"a": 1}), (2, None)], id="in-a-letter"),
        pytest.param('{"a": "x\u2028y"}\n', [(1, {"a": "x\u2028y"})], id="separator-in-a-text"),
        pytest.param('{"a": "\\ud800"}\n', [(1, {"a": "\ud800"})], id="half-a-letter"),
    ],
)
def test_blank_lines_count_in_line_numbers(tmp_path, content, expected):
    assert read(tmp_path, content) == expected


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param('{"a": 1}\n{"b": \n{"c": 3}\n', "line 2", id="cut-off-in-the-middle"),
        pytest.param("7\n", "int, not an object", id="a-number"),
        pytest.param("null", "NoneType, not an object", id="null-at-the-end"),
        pytest.param("[" * 99_999 + "\n", "nested too deeply", id="deep"),
        pytest.param('{"a": ' + "9" * 5000 + "}\n", "line 1", id="a-number-of-5000-digits"),
        pytest.param(b"\xff\xfe\n", "line 1", id="no-utf-8"),
    ],
)
def test_an_invalid_line_is_an_error_with_its_number(tmp_path, content, words):
    with pytest.raises(AnswersUnusable, match=words) as error:
        read(tmp_path, content)
    assert "samples_mmie.jsonl" in str(error.value)
