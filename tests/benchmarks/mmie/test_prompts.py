"""The request: text and images in the official order, rule by rule."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.benchmarks.mmie.prompts import assemble, query
from mmie_tasks.benchmarks.mmie.sample import MmieSample
from mmie_tasks.record.segment import Segment

GOLD = (Segment("gold"),)
TEMPLATE = "Rate {{this}}.\nQ:{question}\nA:{answer}\nR:{gt_answer}\n"


def sample(*question, gold=GOLD, category="MSR"):
    return MmieSample(id=f"{category}-1", category=category, question=question, gold=gold)


def image_segments(*numbers):
    return [Segment(f"t{n}", f"/i/{n}.png") for n in numbers]


def assembled(question=(), answer=(), *, gold=GOLD):
    return assemble(sample(*question, gold=gold), answer, TEMPLATE)


def answer_of(assembled):
    return query(assembled).partition("A:")[2].rpartition("\nR:")[0]


def test_one_count_runs_through_question_and_answer():
    assembly = assembled(image_segments(1), image_segments(2))
    assert assembly.parts == (
        *("Rate {this}.\nQ:t1\nImage-0: ", Path("/i/1.png")),
        *("\n\nA:t2\nImage-1: ", Path("/i/2.png"), "\n\nR:gold\n"),
    )
    assert assembly.images == ("/i/1.png", "/i/2.png")
    assert "Q:t1\nImage-0: <image>\n\nA:t2\nImage-1: <image>\n\n" in query(assembly)


@pytest.mark.parametrize(
    ("segment", "line"),
    [
        pytest.param(Segment("a"), "a\n", id="text"),
        pytest.param(Segment(""), "\n", id="an-empty-text-ends-a-line"),
        pytest.param(Segment(None), "", id="nothing"),
        pytest.param(Segment(None, "/i"), "Image-0: <image>\n", id="image"),
        pytest.param(Segment("a", "/i", problem="missing"), "a\n", id="no-file-no-line"),
        pytest.param(Segment("a", ""), "a\n", id="an-empty-path-is-no-image"),
        pytest.param(Segment("{question} {0} {{}} \\frac{1}{2}"), None, id="braces-are-text"),
    ],
)
def test_a_segment_is_its_text_and_its_image(segment, line):
    expected = f"{segment.text}\n" if line is None else line
    assert answer_of(assembled(answer=[segment])) == expected
    assert query(assembled([segment])).partition("Q:")[2].partition("\nA:")[0] == expected


def test_a_missing_image_leaves_its_number_to_the_next():
    missing = [Segment("x", f"/gone/{n}", problem="missing") for n in (1, 2, 3, 4)]
    assembly = assembled(
        [missing[0], *image_segments(1)],
        [missing[1], *image_segments(2), missing[2], *image_segments(3), missing[3]],
    )
    assert assembly.images == ("/i/1.png", "/i/2.png", "/i/3.png")


def test_the_answer_ends_with_the_third_image():
    for in_question, expected in enumerate(("t1 I0 t2 I1 t3 I2", "t1 I1 t2 I2", "t1 I2", "t1")):
        question = image_segments(*range(10, 10 + in_question))
        assembly = assembled(question, image_segments(1, 2, 3, 4, 5))
        shown = answer_of(assembly).replace("Image-", "I").replace(": <image>", "").split()
        assert (" ".join(shown), assembly.truncated) == (expected, True)


@pytest.mark.parametrize(
    ("rest", "truncated"),
    [
        (Segment(" \n", "/gone", problem="missing"), False),
        (Segment(None), False),
        (Segment("end"), True),
        (Segment(None, "/i/4.png"), True),
    ],
)
def test_an_answer_is_truncated_if_text_or_an_image_is_cut(rest, truncated):
    assert assembled(answer=[*image_segments(1, 2, 3), rest]).truncated is truncated


def test_more_than_four_images_leave_the_sample_out():
    left_out = [assembled(image_segments(*range(n))).left_out for n in (4, 5)]
    assert left_out == [False, True]


@pytest.mark.parametrize(
    ("gold", "reference"), [(["a", "b"], "a"), ([None, "b"], "None"), (["", "b"], "")], ids=repr
)
def test_the_reference_is_the_first_gold_text_and_is_needed_for_a_sum_only(gold, reference):
    assembly = assembled(gold=tuple(map(Segment, gold)))
    assert query(assembly).endswith(f"\nR:{reference}\n")
    assert assembly.bad_gold == ""
    assert assembled(gold=()).bad_gold == "the gold answer is empty"
    assert assemble(sample(gold=(), category="SA"), (), TEMPLATE).bad_gold == ""


@pytest.mark.parametrize(
    "control", ["<image>", "<IMG_CONTEXT>", "</img>", "<|end|>", "<s>", "<unk>", "</ref>"]
)
def test_a_typed_control_string_is_counted_where_it_is_shown_and_stays(control):
    question, answer = [Segment(f"q{control}")], [Segment(f"a{control}<b>{control}")]
    assembly = assembled(question, answer)
    assert assembly.typed == {control: 3}
    assert answer_of(assembly) == f"a{control}<b>{control}\n"
    gold = (Segment(control),)
    assert assembled(gold=gold).typed == {control: 1}
    assert assemble(sample(gold=gold, category="SA"), (), TEMPLATE).typed == {}


TEXTS = st.none() | st.sampled_from(["", "a\n", "<image>", "{answer}", "{", "<|end|>"]) | st.text()
SEGMENTS = st.lists(
    st.builds(Segment, TEXTS, st.none() | st.sampled_from(["/a", "/b"]), st.booleans()), max_size=6
)


@given(SEGMENTS, SEGMENTS)
def test_parts_are_the_text_with_an_image_at_every_place(question, answer):
    assembly = assembled(question, answer)
    paths = [str(part) for part in assembly.parts if isinstance(part, Path)]
    assert paths == list(assembly.images)
    assert len(assembly.images) <= max(3, len(question))
    texts = [isinstance(part, str) for part in assembly.parts]
    assert not any(one and two for one, two in pairwise(texts))
    assert all(part != "" for part in assembly.parts)
