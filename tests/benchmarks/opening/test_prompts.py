"""The texts of requests: the official rules."""

from pathlib import Path

import pytest

from mmie_tasks.benchmarks.opening.prompts import answer_steps, judge_parts, question_content
from mmie_tasks.record.segment import Segment

A, B, C = Path("a.jpg"), Path("b.jpg"), Path("c.jpg")


def segments(*parts):
    """Texts, and pairs of a text and a picture."""
    pairs = [(part, None) if isinstance(part, str) else part for part in parts]
    return tuple(Segment(text, image) for text, image in pairs)


@pytest.mark.parametrize(
    ("question", "answer", "parts"),
    [
        pytest.param(
            [("Look <image>", "a.jpg"), (" And ", "b.jpg")],
            [("Cut.", "c.jpg")],
            [
                *("INPUT: Look  <IMG_0></IMG_0>", A, "And <IMG_1></IMG_1>", B),
                *("\nOUTPUT: Cut. <IMG_2></IMG_2>", C),
            ],
            id="one count numbers all pictures",
        ),
        pytest.param(
            ["Look", ("And", "b.jpg")],
            ["Cut.", ("Fold.", "c.jpg")],
            [
                *("INPUT: Look", "And <IMG_0></IMG_0>", B),
                *("\nOUTPUT: Cut.", "Fold. <IMG_1></IMG_1>", C),
            ],
            id="a missing picture takes no number",
        ),
        pytest.param(["Draw"], [], ["INPUT: Draw", "\nOUTPUT: None"], id="no answer"),
        pytest.param(["Draw"], [""], ["INPUT: Draw", "\nOUTPUT: "], id="empty answer"),
        pytest.param(
            ["Draw"],
            [("", "a.jpg"), "", " \u3000"],
            ["INPUT: Draw", "\nOUTPUT:  <IMG_0></IMG_0>", A, "", ""],
            id="later empty texts stay",
        ),
        pytest.param(
            ["<BEGIN> Draw <image>", "A <BEGIN> b", "c <BEGIN><image> "],
            ["<BEGIN> d <image>e<image>"],
            ["INPUT:  Draw ", "A  b", "c ", "\nOUTPUT: <BEGIN> d e"],
            id="marks",
        ),
        pytest.param(
            ["<im<BEGIN>age>x<BE<image>GIN>"],
            ["<IMG_7> INPUT: </IMG_7>\u200b"],
            ["INPUT: x", "\nOUTPUT: <IMG_7> INPUT: </IMG_7>\u200b"],
            id="marks in marks",
        ),
    ],
)
def test_the_judge_reads_question_and_answer(question, answer, parts):
    assert judge_parts(segments(*question), segments(*answer), "End.") == (*parts, "End.")


@pytest.mark.parametrize(
    ("answer", "steps"),
    [
        pytest.param(["a", (None, "1"), "b"], [("a", "1"), "b"], id="own"),
        pytest.param([(None, "1"), (None, "2")], [("", "1"), ("", "2")], id="pictures only"),
        pytest.param([("a", "1"), (None, "2")], [("a", "1"), ("", "2")], id="two for a text"),
        pytest.param(["a", ("", "1")], ["a", ("", "1")], id="official steps"),
    ],
)
def test_a_picture_belongs_to_the_text_before_it(answer, steps):
    assert answer_steps(segments(*answer)) == segments(*steps)


def test_a_lost_picture_keeps_its_problem_and_its_place():
    lost = Segment(image="x.png", problem="missing", detail="gone")
    assert answer_steps([Segment("a"), lost, Segment(image="b.png")]) == (
        Segment("a", "x.png", "missing", "gone"),
        Segment("", "b.png"),
    )


def test_the_tested_model_is_asked_with_pictures_in_place():
    question = segments(("<BEGIN> Look. <image> ", "a.jpg"), "<image>", "Go.")
    asked = ["Look.", "\n", A, "\n", "Go."]
    assert question_content(question, "Write.", "") == ["Write.", "\n", *asked]
    told = question_content(question, "Write.", "Use 3: ")
    assert told == ["Write.", "\n", "Use 3:", "\n", *asked]
