"""Images of a list go to their placeholders in the text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.answers.placeholders import interleave_segments
from mmie_tasks.record.segment import Segment

IMAGES = ["A", "B", "C"]
PLACEHOLDERS = [
    "<image>", "<img>", "<|image|>", "<IMAGE>", "[image]", "[IMG]",
    "<image_1>", "<image 1>", "<image1>", "<image-1>", "<Image1>", "<img1>", "<|image_1|>",
    "[IMG1]", "[image 1]", "[Image_01]",
]  # fmt: skip


def interleave(text, images):
    """The text and its images in order."""
    text = text.strip()
    return interleave_segments([Segment(text=text)] if text else [], images)


def flat(interleaved):
    return [segment.text or f"@{segment.image}" for segment in interleaved.segments]


@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
def test_every_spelling_of_a_placeholder_takes_an_image(placeholder) -> None:
    assert flat(interleave(f" x {placeholder}\ny ", ["A"])) == ["x", "@A", "y"]


@pytest.mark.parametrize("words", ["<images>", "image 1", "<image 1", "(image)", "<imagery>"])
def test_other_text_is_no_placeholder(words) -> None:
    assert flat(interleave(f"x {words}", ["A"])) == [f"x {words}", "@A"]


@pytest.mark.parametrize(
    ("text", "pieces", "left"),
    [
        pytest.param("1 <image> 2", ["1", "@A", "2", "@B", "@C"], 0, id="surplus images"),
        pytest.param("<image><image><image>x<image>", ["@A", "@B", "@C", "x<image>"], 1, id="few"),
        pytest.param("<image 3><image 1>x", ["@C", "@A", "x", "@B"], 0, id="by number"),
        pytest.param("[image 0]x[image 2]", ["@A", "x", "@C", "@B"], 0, id="from 0"),
        pytest.param("<image_1>x<image_1>", ["@A", "x<image_1>", "@B", "@C"], 1, id="shown once"),
        pytest.param("<image><image 1>", ["@B", "@A", "@C"], 0, id="a number goes first"),
        pytest.param("<image 4>x", ["<image 4>x", "@A", "@B", "@C"], 1, id="no such image"),
        pytest.param("", ["@A", "@B", "@C"], 0, id="no text"),
    ],
)
def test_every_placeholder_takes_its_image(text, pieces, left) -> None:
    interleaved = interleave(text, IMAGES)
    assert (flat(interleaved), interleaved.unfilled_placeholders) == (pieces, left)


@given(
    st.lists(st.sampled_from([*PLACEHOLDERS, "<image 2>", "[image 0]", "word", " "])),
    st.lists(st.sampled_from("ABCDEF"), max_size=5),
)
def test_every_image_is_shown_once_and_no_word_is_lost(pieces, images) -> None:
    interleaved = interleave("".join(pieces), images)
    assert sorted(s.image for s in interleaved.segments if s.image) == sorted(images)
    words = "".join(s.text or "" for s in interleaved.segments)
    assert words.count("word") == pieces.count("word")
    assert interleaved.unfilled_placeholders <= len(pieces)
