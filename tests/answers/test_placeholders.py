"""Images of a list go to their placeholders in the text."""

from __future__ import annotations

import time

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
        pytest.param("<image_1>x<image_2>y<image_1>z<image_3>", ["@A", "x", "@B", "y<image_1>z",
                     "@C"], 1, id="a number again"),
        pytest.param("<image_1><image_2>", ["@A", "@B", "@C"], 0, id="numbers from 1 are no run"),
        pytest.param("[IMG0][IMG1][IMG2]x", ["@A", "@B", "@C", "x"], 0, id="a picture each"),
    ],
)  # fmt: skip
def test_every_placeholder_takes_its_image(text, pieces, left) -> None:
    interleaved = interleave(text, IMAGES)
    assert (flat(interleaved), interleaved.unfilled_placeholders) == (pieces, left)


VOKENS = [f"[IMG{i}]" for i in range(8)]
CODES = "".join(f"<img_{code:05}>" for code in (12, 7_000, 12, *range(29)))
EMU3 = (
    "<|image start|>2*2<|image token|><|visual token 000123|><|visual token 000004|><|extra_200|>"
    "<|visual token 000004|><|visual token 032000|>"
)


@pytest.mark.parametrize(
    "tokens",
    [
        pytest.param("".join(VOKENS), id="MiniGPT-5"),
        pytest.param("[IMG0]", id="as MiniGPT-5 prints them"),
        pytest.param(" ".join(VOKENS), id="GILL"),
        pytest.param(" ".join(VOKENS) + "".join(VOKENS[1:]), id="GILL's texts, joined"),
        pytest.param("[IMG0][IMG1][IMG2][IMG3]", id="NExT-GPT"),
        pytest.param("\n".join(VOKENS), id="lines"),
        pytest.param(f"<img>{CODES}</img>", id="SEED"),
        pytest.param(f"<img>{CODES}", id="SEED, cut off"),
        pytest.param(CODES, id="SEED, without its special tokens"),
        pytest.param(f"{EMU3}<|image end|>", id="Emu3"),
        pytest.param(EMU3, id="Emu3, cut off"),
        pytest.param("<|visual token 7|><|visual token 12|>", id="Emu3.5, without special tokens"),
        pytest.param("[IMG]" + "<image>" * 64 + "[/IMG]", id="Emu"),
        pytest.param("[gIMG][/gIMG]", id="Emu2"),
        pytest.param("[<IMG_PLH>]", id="Emu2's placeholder"),
        pytest.param("<Img><ImageHere></Img>", id="MiniGPT-4"),
        pytest.param(
            "<begin_of_image>" + "<image_placeholder>" * 576 + "<end_of_image>", id="Janus"
        ),
        pytest.param("<|soi|><|image_12|><|image_845|><|eoi|>", id="Show-o"),
        pytest.param("<|vision_start|><|image_pad|><|vision_end|>", id="Qwen"),
        pytest.param("<boi>", id="an opening token alone"),
        pytest.param("<image_1>", id="the first number again and again"),
        *(
            pytest.param(marker, id=marker)
            for marker in (
                "<figure>",
                "[PICTURE]",
                "{{image}}",
                "<picture_here>",
                "<Image></Image>",
            )
        ),
    ],
)
def test_the_tokens_of_an_image_are_one_placeholder(tokens) -> None:
    interleaved = interleave(f"1 {tokens} 2 {tokens} 3 {tokens}", IMAGES)
    assert flat(interleaved) == ["1", "@A", "2", "@B", "3", "@C"]
    assert (interleaved.unfilled_placeholders, interleaved.unplaced_images) == (0, 0)


def test_tokens_of_an_image_that_is_not_there_stay_and_are_one_placeholder() -> None:
    tokens = "".join(VOKENS)
    interleaved = interleave(f"1 {tokens} 2 {tokens}", ["A"])
    assert flat(interleaved) == ["1", "@A", f"2 {tokens}"]
    assert interleaved.unfilled_placeholders == 1


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        pytest.param("[Figure 2]x[Figure 1]", ["@B", "x", "@A"], id="by number"),
        pytest.param("{image_0} x {image_1}", ["@A", "x", "@B"], id="from 0"),
        pytest.param("<image><figure>x<image><figure>", ["@A", "<figure>x", "@B", "<figure>"],
                     id="beside placeholders"),
    ],
)  # fmt: skip
def test_another_marker_that_occurs_as_often_as_images_takes_them(text, pieces) -> None:
    assert flat(interleave(text, ["A", "B"])) == pieces


@pytest.mark.parametrize(
    ("text", "images", "n_unplaced"),
    [
        pytest.param("A fox.", ["A", "B"], 2, id="no marker"),
        pytest.param("1 <image> 2", ["A", "B"], 1, id="one too few"),
        pytest.param("1 <dream> 2", ["A"], 1, id="a word that is not of images"),
        pytest.param("1 [Image: a fox] 2", ["A"], 1, id="words in brackets"),
        pytest.param("1 <picture_of_a_fox> 2", ["A"], 1, id="words in a token"),
        pytest.param("<figure> [photo]", ["A"], 1, id="two markers"),
        pytest.param("[Figure 1] [Figure 2], see [Figure 1]", ["A", "B"], 2, id="more often"),
        pytest.param(r"\ref{figure} and $x_{img}$", ["A"], 1, id="LaTeX"),
        pytest.param("![image] [image](x)", ["A"], 1, id="markdown"),
        pytest.param(" ", ["A", "B"], 0, id="no text"),
        pytest.param("<image>", ["A", "B"], 1, id="a placeholder alone"),
        pytest.param("A <image>", ["A"], 0, id="a place for each"),
    ],
)
def test_images_after_a_text_that_has_no_place_for_them_are_counted(
    text, images, n_unplaced
) -> None:
    interleaved = interleave(text, images)
    assert interleaved.unplaced_images == n_unplaced
    assert sorted(s.image for s in interleaved.segments if s.image) == images


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("<img>", id="openings"),
        pytest.param("</img>", id="closings"),
        pytest.param("<|soi|>", id="opening tokens"),
        pytest.param("[IMG0]", id="numbers"),
        pytest.param("<image_00012>", id="codes"),
        pytest.param("<image start image start ", id="words"),
        pytest.param("<imageimageimage", id="words without a space"),
        pytest.param("[[image", id="brackets"),
        pytest.param("<img" + "1" * 40, id="digits"),
    ],
)
def test_a_hostile_text_takes_a_second_or_two(text) -> None:
    start = time.process_time()
    interleave(text * (300_000 // len(text)) + "</img>", IMAGES)
    assert time.process_time() - start < 10  # a quadratic search takes minutes


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
