"""Every picture is drawn once."""

from __future__ import annotations

import pytest

from mmie_tasks.interleaved.drawer import (
    DrawerMisconfigured,
    DrawerRefused,
    Picture,
    PictureNotStored,
    PictureRequest,
)
from mmie_tasks.interleaved.pictures import PictureStore, draw_all

CAT, DOG, OWL = (
    PictureRequest(prompt=prompt, seed=1) for prompt in ("a \ud800", "a dog", "an owl")
)


class Pens:
    """A drawer whose pictures are their prompts; it refuses dogs."""

    def __init__(self):
        self.prompts = []

    def draw(self, requests):
        for index, request in reversed(list(enumerate(requests))):
            self.prompts.append(request.prompt)
            refusal = DrawerRefused("no dogs")
            content = request.prompt.encode(errors="replace")
            picture = Picture(content=content, suffix=".png")
            yield index, refusal if request is DOG else picture


def draw(folder, requests, pens, signature="pens"):
    return draw_all(pens, PictureStore(folder, signature), requests, shows_bar=True)


def test_a_picture_is_drawn_once_in_a_run_and_in_all_later_ones(tmp_path):
    pens = Pens()
    outcomes = draw(tmp_path, [CAT, OWL, CAT], pens)
    assert outcomes[CAT].read_bytes() == b"a ?"
    assert draw(tmp_path, [OWL, CAT], pens) == outcomes
    assert sorted(pens.prompts) == [CAT.prompt, "an owl"]


def test_the_bar_counts_the_pictures_that_are_stored_and_is_shown_by_one_process(tmp_path, capfd):
    draw(tmp_path, [CAT], Pens())
    capfd.readouterr()
    draw(tmp_path, [CAT, OWL], Pens())
    assert "Drawing: 100%" in (shown := capfd.readouterr().err.rpartition("\r")[2])
    assert "2/2" in shown
    draw_all(Pens(), PictureStore(tmp_path, "other"), [CAT], shows_bar=False)
    assert capfd.readouterr().err == ""


def test_pictures_of_other_seeds_prompts_and_drawers_are_others(tmp_path):
    store = PictureStore(tmp_path, "pens")
    store.add(CAT, Picture(content=b"1", suffix=".webp"))
    assert store.find(CAT).suffix == ".webp"
    assert store.find(PictureRequest(prompt=CAT.prompt, seed=2)) is None
    assert store.find(PictureRequest(prompt=f"{CAT.prompt} ", seed=1)) is None
    assert PictureStore(tmp_path, "pens,size=64x64").find(CAT) is None


def test_a_refusal_is_an_outcome_and_is_requested_again_later(tmp_path):
    pens = Pens()
    outcomes = draw(tmp_path, [DOG, CAT], pens)
    assert isinstance(outcomes[DOG], DrawerRefused)
    draw(tmp_path, [DOG, CAT], pens)
    assert pens.prompts.count("a dog") == 2
    assert pens.prompts.count(CAT.prompt) == 1


def test_a_folder_that_cannot_be_written_is_known_before_anything_is_drawn(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DrawerMisconfigured, match=str(tmp_path)):
        PictureStore(tmp_path / "file", "pens").prepare()
    PictureStore(tmp_path / "new", "pens").prepare()
    assert [path.read_text() for path in tmp_path.rglob("drawer.txt")] == ["pens\n"]


def test_once_a_picture_cannot_be_stored_no_further_one_is_drawn(tmp_path):
    (tmp_path / "full").write_text("a file in the place of a folder")
    pens = Pens()
    outcomes = draw(tmp_path / "full", [CAT, DOG, OWL], pens)
    assert all(isinstance(outcome, PictureNotStored) for outcome in outcomes.values())
    assert len(outcomes) == 3
    assert pens.prompts == ["an owl"]
    assert "cannot be written" in str(outcomes[CAT])
