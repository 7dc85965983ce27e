"""Answers that ask for images: what is drawn, stored, counted and left alone."""

from pathlib import Path

import pytest

from mmie_tasks.answers.answer import read_answer
from mmie_tasks.answers.drawn import read_drawn_answer
from mmie_tasks.core.errors import DataMissing
from mmie_tasks.drawing.answers import AnswerDrawer, UndrawnAnswer
from mmie_tasks.drawing.drawer import Drawer, NotDrawn


class Pens(Drawer):
    """A drawer whose images are their prompts, last first; it refuses dogs, and dies of owls."""

    model, signature = "org/pens", "pens,size=1x1"

    def __init__(self):
        self.prompts = []

    def check(self): ...

    def draw(self, requests):
        for index, request in reversed(list(enumerate(requests))):
            self.prompts.append(request.prompt)
            outcome = f"{request.seed} {request.prompt}".encode()
            if "dog" in request.prompt:
                outcome = NotDrawn("refused", "no dogs")
            if "owl" in request.prompt:
                outcome = NotDrawn("unavailable", "no owls")
            yield index, outcome


@pytest.fixture
def pens():
    return Pens()


def draw(pens, folder, *texts, limit=2, shows_bar=False):
    samples = enumerate(texts)
    answers = [UndrawnAnswer(sample_id=f"s{n}", text=text, limit=limit) for n, text in samples]
    return AnswerDrawer(drawer=pens, folder=folder).draw(answers, shows_bar=shows_bar)


def test_an_image_is_drawn_once_in_a_run_and_in_all_later_ones(pens, tmp_path, capfd):
    text = "A \ud800 cat.[picture] A hen.[picture]"
    (first,) = draw(pens, tmp_path, text)
    segments = read_answer([first]).segments
    assert [one.prompt for one in segments if one.prompt] == ["A � cat.", "A hen."]
    assert Path(segments[1].image).read_bytes().endswith(" A � cat.".encode())
    assert draw(pens, tmp_path, text) == draw(pens, tmp_path, first) == [first]
    assert len(pens.prompts) == 2
    draw(pens, tmp_path, text, text, shows_bar=True)  # another sample has other seeds
    assert len({path.read_bytes() for path in tmp_path.rglob("*.png")}) == len(pens.prompts) == 4
    assert "4/4" in capfd.readouterr().err.rpartition("\r")[2]


def test_what_could_not_be_drawn_is_left_out_and_counted(pens, tmp_path, logs):
    texts = ["<think>x</think>A dog.[picture] A cat.[picture] End.[picture]", "An owl.[picture]"]
    texts += [f"{number}.[picture]" for number in range(3)]
    first, second, *_ = (read_drawn_answer(one) for one in draw(pens, tmp_path, *texts))
    words = [one.text or one.prompt for one in first.answer]
    assert words == ["A dog.", "A cat.", "A cat.", "End."]
    assert (first.facts.drawn, first.facts.failed) == (1, {"refused": 1})
    assert first.facts.unused == {"images over the limit": 1, "thinking": 1}
    assert first.facts.signature == "step-3,pens,size=1x1"
    assert (first.facts.withheld, second.facts.withheld) == ({}, {"unavailable": 1})
    assert any("no owls" in line for line in logs)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        pytest.param("42", 2, id="no-marker"),
        pytest.param("A cat.[picture]", 0, id="no-images-wanted"),
        pytest.param("[NO_ANSWER] no [picture]", 2, id="failure"),
        pytest.param('{"text": "A [picture]", "images": ["a.png"]}', 2, id="own-images"),
        pytest.param("", 2, id="empty"),
    ],
)
def test_other_texts_stay_as_they_are_and_are_signed(pens, tmp_path, text, limit):
    answer = read_drawn_answer(draw(pens, tmp_path, text, limit=limit)[0])
    assert (answer.answer, pens.prompts) == (text, [])
    assert answer.facts.signature.startswith("step-3,pens")


@pytest.mark.parametrize(
    ("texts", "requests"),
    [
        pytest.param(["An owl."] * 40 + ["A cat."] * 2, 18, id="16-in-a-row"),
        pytest.param(["An owl."] * 3, 3, id="all"),
        pytest.param(["A dog."] * 40, 16, id="refuses-everything"),
        pytest.param(["A dog."] * 40 + ["A cat."], None, id="refuses-much"),
        pytest.param(["An owl."] * 15 + ["A cat.", *["An owl."] * 15], None, id="15-in-a-row"),
    ],
)
def test_a_dead_drawer_ends_the_run_and_what_was_drawn_is_stored(pens, tmp_path, texts, requests):
    texts = [f"{text}[picture]" for text in texts]
    if requests is None:
        assert len(draw(pens, tmp_path, *texts)) == len(texts)
        return
    with pytest.raises(DataMissing, match="in a row could not be drawn, the last: no "):
        draw(pens, tmp_path, *texts)
    assert len(pens.prompts) == requests
    assert len(list(tmp_path.rglob("*.png"))) == sum("cat" in text for text in texts)


def test_the_last_image_that_is_missing_may_fail(pens, tmp_path):
    texts = ["A cat.[picture]", "An owl.[picture]"]
    draw(pens, tmp_path, *texts)
    again = [read_drawn_answer(one) for one in draw(pens, tmp_path, *texts)]
    assert [one.facts.withheld for one in again] == [{}, {"unavailable": 1}]
