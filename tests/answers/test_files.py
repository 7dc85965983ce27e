"""Records of id and answer, and files that are damaged or no answers at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mmie_tasks.answers.failures import MISSING, NOT_TEXT
from mmie_tasks.answers.files import read_answers
from mmie_tasks.core.errors import AnswersUnusable


def write(path: Path, data: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def by_id(path: Path) -> dict[str, object]:
    return {answer.id: answer.answer for answer in read_answers(str(path)).answers}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        pytest.param("a.json", '[{"id": 1, "answer": "x"}, {"id": "b", "answer": "y"}]', id="list"),
        pytest.param(
            "a.jsonl", '{"id": 1, "answer": "x"}\n\n{"id": "b", "answer": "y"}', id="lines"
        ),
        pytest.param("a.json", '{"1": "x", "b": "y"}', id="object"),
        pytest.param("a.json", b'\xef\xbb\xbf{"1": "x", "b": "y"}', id="byte order mark"),
        pytest.param(
            "a.jsonl",
            b'{"question_id": 1, "text": "x"}\r\n{"sample_id": "b","answer": "y"}\r\n',
            id="other fields",
        ),
    ],
)
def test_ids_and_answers_are_read_in_any_layout(tmp_path: Path, name: str, data: str) -> None:
    assert by_id(write(tmp_path / name, data)) == {"1": "x", "b": "y"}


def test_an_answer_that_is_not_text_is_marked(tmp_path: Path) -> None:
    answers = ("3", "null", "NaN", '"\\ud800"', '["1", "2"]')
    data = "\n".join(f'{{"id": {i}, "answer": {answer}}}' for i, answer in enumerate(answers))
    assert list(by_id(write(tmp_path / "a.jsonl", data)).values()) == [
        f"{NOT_TEXT} 3",
        MISSING,
        f"{NOT_TEXT} NaN",
        "\ufffd",
        ("1", "2"),
    ]


@pytest.mark.parametrize("end", ['{"id": 2, "ans', '{"id": 2, "answer": "\xe9'])
def test_a_last_line_that_was_cut_off_is_left_out_with_a_note(tmp_path: Path, end: str) -> None:
    path = write(tmp_path / "a.jsonl", b'{"id": 1, "answer": "x"}\n' + end.encode()[:-1])
    saved = read_answers(str(path))
    assert len(saved.answers) == 1
    assert saved.notes == (f"{path}: line 2, the last, is cut off and was left out",)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        pytest.param("a.jsonl", '{"id": 1, "answer": "x"}\n{"id"\n', "line 2: not JSON", id="line"),
        pytest.param(
            "a.jsonl",
            b'{"id": 1, "answer": "\xff"}\n',
            "line 1: .*byte 21 is not UTF-8",
            id="not UTF-8",
        ),
        pytest.param("a.json", "[" * 200_000, "a.json: not JSON", id="deep"),
        pytest.param("a.json", "", "holds nothing", id="empty"),
        pytest.param(
            "a.json", '{"1": 1.0, "2": 0.0}', "answers in no supported format", id="scores"
        ),
        pytest.param(
            "a.json", '{"meta_data": {}, "data": []}', "answers in no supported format", id="data"
        ),
        pytest.param(
            "a.json", '[{"id": 1, "answer": "x"}, {"answer": "y"}]', "entry 2: it lacks", id="no id"
        ),
        pytest.param("a.json", '[{"id": 1.5, "answer": "x"}]', "the id is 1.5", id="fraction"),
        pytest.param("a.json", '{"1": "x", "2": 3}', "no supported format", id="text and number"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, name: str, data: str, message: str
) -> None:
    path = write(tmp_path / name, data)
    with pytest.raises(AnswersUnusable, match=message) as raised:
        read_answers(str(path))
    assert str(raised.value).startswith((str(path), f"{path}, "))
    assert "\n\nhint: " in str(raised.value)


@pytest.mark.parametrize(
    ("name", "data", "fields"),
    [
        pytest.param(
            "a.jsonl",
            '{"question_id": 1, "response": "A. <image>", "generated_images": ["1.png"]}\n',
            "`question_id`, `response`, `generated_images`",
            id="other fields",
        ),
        pytest.param("a.csv", "id,answer\n1,B\n", "not JSON", id="CSV"),
        pytest.param("a.xlsx", b"PK\x03\x04\xff", "not JSON", id="XLSX"),
        pytest.param("a.jsonl.gz", b"\x1f\x8b\x08", "not JSON", id="compressed"),
    ],
)
def test_the_error_for_an_unknown_file_shows_the_two_forms_which_are_read(
    tmp_path: Path, name: str, data: str | bytes, fields: str
) -> None:
    with pytest.raises(AnswersUnusable, match=fields) as raised:
        read_answers(str(write(tmp_path / name, data)))
    forms = [line for line in str(raised.value).splitlines() if line.startswith("{")]
    saved = [
        read_answers(str(write(tmp_path / f"{number}.jsonl", form))).answers[0].with_images()
        for number, form in enumerate(forms)
    ]
    assert saved[0] == "Fold the paper."
    assert json.loads(str(saved[1]))["images"] == ["1.png", "2.png"]


@pytest.mark.parametrize("path", ["", " ; ", "/nowhere"])
def test_a_path_to_nothing_is_an_error_that_lists_the_supported_files(path: str) -> None:
    with pytest.raises(AnswersUnusable, match="MIA-Bench jsonl"):
        read_answers(path)


def test_a_folder_without_answers_is_an_error_that_lists_the_supported_files(
    tmp_path: Path,
) -> None:
    write(tmp_path / "config.json", '{"name": "x", "layers": 3}')
    write(tmp_path / "empty.jsonl", "")
    with pytest.raises(AnswersUnusable, match=r"no saved answers[\s\S]*hint: .*JSONL"):
        read_answers(str(tmp_path))


def test_several_paths_are_read_and_a_file_only_once(tmp_path: Path) -> None:
    one = write(tmp_path / "one.json", '{"1": "x"}')
    two = write(tmp_path / "two" / "two.json", '{"2": "y"}')
    assert by_id(Path(f"{one};{two.parent}; {two}")) == {"1": "x", "2": "y"}
