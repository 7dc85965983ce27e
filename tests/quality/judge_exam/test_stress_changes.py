"""The changes of an answer, and the copies of its images."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from mmie_tasks.hub.images import open_rgb
from mmie_tasks.quality.judge_exam.stress_changes import Exchange, changes, copied, donors
from mmie_tasks.record.segment import Segment, Segments

QUESTION = (Segment(text="Why?", image="q.png"),)
DONOR = Exchange(
    question=(Segment(text="How?", image="p.png"),),
    answer=(Segment(text="other", image="x.png"), Segment(text="words")),
)
NO_DONOR_OF_USE = Exchange(question=(), answer=())


def segments(*parts: str) -> Segments:
    """Segments of texts and of file names: ``one a.png`` is a text with its image."""
    words = (part.rpartition(" ") if " " in part else ("", "", part) for part in parts)
    return tuple(
        Segment(text=text, image=last)
        if last.endswith(".png")
        else Segment(text=f"{text} {last}".strip())
        for text, _, last in words
    )


def shown(answer: Segments | None) -> list[str] | None:
    """The texts and images of an answer in order."""
    return (
        answer if answer is None else [part for s in answer for part in (s.text, s.image) if part]
    )


def changed(
    name: str, answer: Segments, folder: Path = Path(), *, has_images: bool = True
) -> Exchange | None:
    change = next(change for change in changes(has_answer_images=has_images) if change.name == name)
    return change.apply(
        Exchange(question=QUESTION, answer=answer), [NO_DONOR_OF_USE, DONOR], folder
    )


@pytest.mark.parametrize(
    ("name", "answer", "expected"),
    [
        pytest.param(
            "images_shuffled",
            ["one a.png", "two b.png"],
            ["one", "b.png", "two", "a.png"],
            id="shuffled",
        ),
        pytest.param(
            "images_shuffled",
            ["a.png", "a.png", "b.png"],
            ["a.png", "b.png", "a.png"],
            id="shuffled-with-a-repeated-one",
        ),
        pytest.param(
            "images_shuffled", ["one a.png", "two a.png"], None, id="shuffled-of-equal-ones"
        ),
        pytest.param("images_removed", ["one a.png", "b.png"], ["one"], id="removed"),
        pytest.param(
            "images_replaced", ["one a.png", "b.png"], ["one", "x.png", "x.png"], id="replaced"
        ),
        pytest.param("images_replaced", ["x.png"], None, id="replaced-by-the-same"),
        pytest.param(
            "text_replaced",
            ["a.png", "one b.png", "two"],
            ["a.png", "other\nwords", "b.png"],
            id="text",
        ),
        pytest.param("emptied", ["one", "a.png"], [], id="empty"),
        pytest.param(
            "steps_reversed",
            ["one a.png", "two", "b.png", "c.png"],
            ["two", "b.png", "c.png", "one", "a.png"],
            id="steps-with-their-images",
        ),
        pytest.param(
            "steps_reversed", ["one\n\ntwo\nthree"], ["two\nthree\n\none"], id="paragraphs"
        ),
        pytest.param("steps_reversed", ["1. one\n2. two"], ["2. two\n1. one"], id="lines"),
        pytest.param("steps_reversed", ["one\ntwo a.png"], None, id="one-step"),
        pytest.param(
            "whitespace", ["One. Two.", "a.png"], ["One.  Two. \n\n", "a.png"], id="white-space"
        ),
    ],
)
def test_changes_of_an_answer(name: str, answer: list[str], expected: list[str] | None) -> None:
    exchange = changed(name, segments(*answer))
    assert (exchange and shown(exchange.answer)) == expected
    assert exchange is None or exchange.question == QUESTION


def test_without_images_in_answers_the_questions_image_is_replaced() -> None:
    exchange = changed("images_replaced", segments("one"), has_images=False)
    assert exchange == Exchange(
        question=(Segment(text="Why?", image="p.png"),), answer=segments("one")
    )


@given(
    st.lists(st.builds(Segment, text=st.text(), image=st.sampled_from([None, "a.png", "b.png"])))
)
def test_no_answer_is_too_odd_for_a_change_that_copies_no_image(answer: list[Segment]) -> None:
    for change in changes(has_answer_images=True):
        if change.name not in ("images_reencoded", "images_resized"):
            exchange = changed(change.name, tuple(answer))
            assert exchange is None or exchange.question == QUESTION


def test_the_donor_has_another_question_and_if_possible_the_same_stratum() -> None:
    def exchange(question: str) -> Exchange:
        return Exchange(question=(Segment(text=question),), answer=())

    names = [("SA", "1"), ("MSR", "2"), ("SA", "1"), ("SA", "3"), ("MSR", "4")]
    exchanges = [(stratum, exchange(question)) for stratum, question in names]
    chosen = [donor.question[0].text for donor in donors(exchanges, 2)]
    assert chosen == ["3", "4", "2"]


MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK")


@pytest.mark.parametrize("mode", MODES)
def test_a_copy_has_the_same_pixels_in_other_bytes(tmp_path: Path, mode: str) -> None:
    original = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    Image.effect_noise((23, 17), 80).convert(mode).save(original)
    copy = copied(original, tmp_path)
    assert copy.read_bytes() != original.read_bytes()
    assert open_rgb(copy).tobytes() == open_rgb(original).tobytes()
    assert copied(original, tmp_path / "..").read_bytes() == copy.read_bytes()


@pytest.mark.parametrize("mode", MODES)
def test_a_resized_copy_has_95_percent_of_width_and_height(tmp_path: Path, mode: str) -> None:
    original = tmp_path / ("a.tif" if mode == "CMYK" else "a.png")
    Image.new(mode, (100, 40)).save(original)
    with Image.open(copied(original, tmp_path, 0.95)) as image:
        assert image.size == (95, 38)


def test_a_copy_keeps_orientation_and_colour_profile(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (4, 4)).save(tmp_path / "a.jpg", exif=exif, icc_profile=b"a profile")
    with Image.open(copied(tmp_path / "a.jpg", tmp_path)) as image:
        assert image.getexif()[0x0112] == 6
        assert image.info["icc_profile"] == b"a profile"
