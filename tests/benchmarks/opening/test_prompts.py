"""The texts of requests: the official rules."""

from pathlib import Path

import pytest

from mmie_tasks.benchmarks.opening.prompts import answer_steps, judge_parts, question_content
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
def test_the_judge_reads_question_and_answer(question, answer, parts):
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
def test_a_picture_belongs_to_the_text_before_it(segments, steps):
    merged = answer_steps(Segment(text, image) for text, image in segments)
    assert [(step.text, step.image) for step in merged] == steps


def test_a_lost_picture_keeps_its_problem_and_its_place():
    lost = Segment(image="x.png", problem="missing", detail="gone")
    assert answer_steps([Segment("a"), lost, Segment(image="b.png")]) == (
        Segment("a", "x.png", "missing", "gone"),
        Segment("", "b.png"),
    )


@pytest.mark.parametrize(
    ("opening", "before"),
    [("Use 3: ", ["Write.", "\n", "Use 3:", "\n"]), ("", ["Write.", "\n"])],
    ids=["told", "untold"],
)
def test_the_tested_model_is_asked_with_pictures_in_place(opening, before):
    question = (Segment("<BEGIN> Look. <image> ", "a.jpg"), Segment("<image>"), Segment("Go."))
    parts = question_content(question, "Write.", opening)
    assert parts == [*before, "Look.", "\n", A, "\n", "Go."]
