"""Answers in OpenING's ``<MODEL>_output/``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mmie_tasks.answers.failures import NOT_TEXT
from mmie_tasks.answers.files import read_answers
from mmie_tasks.answers.matcher import AnswerMatcher, RequestedSample
from mmie_tasks.answers.saved import Answer
from mmie_tasks.core.errors import AnswersUnusable

STEPS = [{"text": "Cut.", "image": "./M_output/0301096-o-0.jpg"}, {"text": "", "image": None}]


def write(path: Path, output: object, **layout: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    answer = {"data_id": "96", "conversations": [{"input": []}, {"output": output}]}
    path.write_text(json.dumps(answer, **layout), encoding="utf-8")  # type: ignore[arg-type]
    return path


def answers(path: Path) -> dict[str, Answer]:
    return {answer.id: answer.answer for answer in read_answers(str(path)).answers}


@pytest.mark.parametrize("name", ["0301096.json", "0301096.jsonl", "0301096.v2.json"])
@pytest.mark.parametrize("layout", [{}, {"indent": 4}], ids=["one line", "pretty"])
def test_either_ending_is_read_and_the_name_is_the_id(
    tmp_path: Path, name: str, layout: dict[str, int]
) -> None:
    folder = tmp_path / "M_output"
    write(folder / name, STEPS, **layout)
    (answer,) = read_answers(str(folder)).answers
    assert (answer.id, answer.format) == ("0301096", "OpenING output")
    picture = str(folder / "0301096-o-0.jpg")
    content = [{"text": "Cut.", "image": picture}, {"text": "", "image": None}]
    assert json.loads(str(answer.answer)) == {"content": content}


@pytest.mark.parametrize(
    ("image", "path"),
    [
        pytest.param("/elsewhere/b/a.jpg", "a.jpg", id="absolute"),
        pytest.param("b\\a.jpg", "b\\a.jpg", id="backslash"),
        pytest.param("", None, id="empty"),
    ],
)
def test_a_picture_lies_beside_its_file(tmp_path: Path, image: str, path: str | None) -> None:
    (answer,) = answers(write(tmp_path / "1.json", [{"text": "a", "image": image}])).values()
    expected = path and str(tmp_path / path)
    assert json.loads(str(answer))["content"][0]["image"] == expected


@pytest.mark.parametrize(
    "step",
    [
        pytest.param({"text": None, "image": "a.jpg"}, id="null"),
        pytest.param({"text": "a", "image": 3}, id="a number as picture"),
        pytest.param("a", id="a text"),
    ],
)
def test_a_step_that_is_no_text_with_a_picture_makes_the_answer_no_text(
    tmp_path: Path, step: object
) -> None:
    (answer,) = answers(write(tmp_path / "1.json", [STEPS[0], step])).values()
    assert str(answer).startswith(f"{NOT_TEXT} step 2")


def test_an_answer_without_steps_stays_one(tmp_path: Path) -> None:
    assert answers(write(tmp_path / "1.json", [])) == {"1": f"{NOT_TEXT} []"}


def test_a_file_of_questions_is_no_answer(tmp_path: Path) -> None:
    write(tmp_path / "M_output" / "0301096.json", STEPS)
    row = (tmp_path / "M_output" / "0301096.json").read_text(encoding="utf-8")
    (tmp_path / "test_data.jsonl").write_text(f"{row}\n{row}\n", encoding="utf-8")
    assert list(answers(tmp_path)) == ["0301096"]


def test_a_folder_with_two_models_is_an_error_that_names_both_files(tmp_path: Path) -> None:
    for model in ("A", "B"):
        write(tmp_path / f"{model}_output" / "0301096.json", STEPS)
    matcher = AnswerMatcher(read_answers(str(tmp_path)).answers)
    with pytest.raises(AnswersUnusable, match=r"0301096(.|\n)*A_output(.|\n)*B_output"):
        matcher.match("opening", [RequestedSample(ids=("0301096",), input="")])
