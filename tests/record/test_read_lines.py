"""The lines of a sample log, one at a time."""

import pytest

from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.record.log_files import read_lines


def log(folder, content):
    path = folder / "samples_mmie.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read(path):
    return [(numbered.number, numbered.line) for numbered in read_lines(path)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("\n \n\r\n", [], id="blank"),
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
    assert read(log(tmp_path, content)) == expected


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param('{"a": 1}\n{"b": \n{"c": 3}\n', "line 2", id="cut-off-in-the-middle"),
        pytest.param("7\n", "int, not an object", id="a-number"),
        pytest.param("null", "NoneType, not an object", id="null-at-the-end"),
        pytest.param("[" * 99_999 + "\n", "nested too deeply", id="deep"),
        pytest.param('{"a": ' + "9" * 5000 + "}\n", "line 1", id="a-number-of-5000-digits"),
        pytest.param(b"\xff\xfe\n", "line 1", id="no-utf-8"),
        pytest.param(b"\x00\x00\n", "line 1", id="zeros"),
    ],
)
def test_an_invalid_line_is_an_error_with_its_number(tmp_path, content, words):
    with pytest.raises(AnswersUnusable, match=words) as error:
        read(log(tmp_path, content))
    assert "samples_mmie.jsonl" in str(error.value)


def test_a_log_that_is_a_folder_is_an_error(tmp_path):
    with pytest.raises(AnswersUnusable, match="cannot be read"):
        read(tmp_path)
