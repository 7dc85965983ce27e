"""The texts of requests: the official rules, and what is read from the official files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.opening_data import GENERATOR, SCORER

from mmie_tasks.benchmarks.opening.prompts import (
    ModelTexts,
    OfficialFileChanged,
    answer_steps,
    judge_parts,
    question_parts,
    read_generator,
    read_scorer,
)
from mmie_tasks.record.segment import Segment

A, B, C = Path("a.jpg"), Path("b.jpg"), Path("c.jpg")
ASKED = (Segment("<BEGIN> Draw <image>"),)


@pytest.mark.parametrize(
    ("question", "answer", "parts"),
    [
        pytest.param(
            ASKED, (Segment("Cut."),), ("INPUT:  Draw ", "\nOUTPUT: Cut."), id="texts only"
        ),
        pytest.param(
            (Segment("Look <image>", "a.jpg"), Segment(" And ", "b.jpg")),
            (Segment("Cut.", "c.jpg"),),
            (
                *("INPUT: Look  <IMG_0></IMG_0>", A, "And <IMG_1></IMG_1>", B),
                *("\nOUTPUT: Cut. <IMG_2></IMG_2>", C),
            ),
            id="one count numbers all pictures",
        ),
        pytest.param(
            (Segment("Look"), Segment("And", "b.jpg")),
            (Segment("Cut."), Segment("Fold.", "c.jpg")),
            (
                *("INPUT: Look", "And <IMG_0></IMG_0>", B, "\nOUTPUT: Cut."),
                *("Fold. <IMG_1></IMG_1>", C),
            ),
            id="a missing picture takes no number",
        ),
        pytest.param(ASKED, (), ("INPUT:  Draw ", "\nOUTPUT: None"), id="no answer"),
        pytest.param(ASKED, (Segment(""),), ("INPUT:  Draw ", "\nOUTPUT: "), id="empty answer"),
        pytest.param(
            ASKED,
            (Segment("", "a.jpg"), Segment(""), Segment(" \u3000")),
            ("INPUT:  Draw ", "\nOUTPUT:  <IMG_0></IMG_0>", A, "", ""),
            id="later empty texts stay",
        ),
        pytest.param(
            (Segment("A <BEGIN> b"), Segment("c <BEGIN><image> ")),
            (Segment("<BEGIN> d <image>e<image>"),),
            ("INPUT: A  b", "c ", "\nOUTPUT: <BEGIN> d e"),
            id="marks",
        ),
        pytest.param(
            (Segment("<im<BEGIN>age>x<BE<image>GIN>"),),
            (Segment("<IMG_7> INPUT: </IMG_7>\u200b"),),
            ("INPUT: x", "\nOUTPUT: <IMG_7> INPUT: </IMG_7>\u200b"),
            id="marks in marks",
        ),
    ],
)
def test_the_judge_reads_question_and_answer(
    question: tuple[Segment, ...], answer: tuple[Segment, ...], parts: tuple[str | Path, ...]
) -> None:
    assert judge_parts(question, answer, "End.") == (*parts, "End.")


@pytest.mark.parametrize(
    ("segments", "steps"),
    [
        pytest.param([("a", None), (None, "1"), ("b", None)], [("a", "1"), ("b", None)], id="own"),
        pytest.param([(None, "1"), (None, "2")], [("", "1"), ("", "2")], id="pictures only"),
        pytest.param([("a", "1"), (None, "2")], [("a", "1"), ("", "2")], id="two for a text"),
        pytest.param([("a", None), ("", "1")], [("a", None), ("", "1")], id="official steps"),
    ],
)
def test_a_picture_belongs_to_the_text_before_it(
    segments: list[tuple[str | None, str | None]], steps: list[tuple[str, str | None]]
) -> None:
    merged = answer_steps(Segment(text, image) for text, image in segments)
    assert [(step.text, step.image) for step in merged] == steps


def test_a_lost_picture_keeps_its_problem_and_its_place() -> None:
    lost = Segment(image="x.png", problem="missing", detail="gone")
    assert answer_steps([Segment("a"), lost, Segment(image="b.png")]) == (
        Segment("a", "x.png", "missing", "gone"),
        Segment("", "b.png"),
    )


@pytest.mark.parametrize(
    ("steps", "before"),
    [(3, ["Write.", "\n", "Use 3:", "\n"]), (None, ["Write.", "\n"])],
    ids=["told", "untold"],
)
def test_the_tested_model_is_asked_with_pictures_in_place(
    steps: int | None, before: list[str]
) -> None:
    texts = ModelTexts(system="Write.", steps="Use {steps}: ")
    question = (Segment("<BEGIN> Look. <image> ", "a.jpg"), Segment("<image>"), Segment("Go."))
    parts = question_parts(question, texts, steps)
    assert parts == [*before, "Look.", "\n", A, "\n", "Go."]


def test_braces_in_the_official_texts_are_no_fields() -> None:
    texts = ModelTexts(system="{x}", steps="{y} {steps}")
    assert question_parts((Segment("{z}"),), texts, 2) == ["{x}", "\n", "{y} 2", "\n", "{z}"]


def test_the_official_texts_are_read_from_the_scripts() -> None:
    judge = read_scorer(SCORER, "System.")
    assert (judge.system, judge.ending) == ("System.", "End.")
    assert (judge.schema.name, judge.schema.description) == ("grade", "Grades.")
    assert list(json.loads(judge.schema.parameters)["properties"]) == ["B", "A"]
    assert read_generator(GENERATOR, "S.") == ModelTexts(system="S.", steps="Use {steps} steps: ")


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("", id="empty"),
        pytest.param("def (", id="no Python"),
        pytest.param("\0", id="NUL"),
        pytest.param(SCORER.replace("functions", "tools"), id="another name"),
        pytest.param(SCORER * 2, id="twice"),
        pytest.param(SCORER.replace('"End."', "text"), id="no closing line"),
        pytest.param(SCORER.replace('"name"', '"title"'), id="another function"),
    ],
)
def test_a_script_of_another_form_is_an_error(source: str) -> None:
    with pytest.raises(OfficialFileChanged):
        read_scorer(source, "")
    with pytest.raises(OfficialFileChanged):
        read_generator(source, "")
