from pathlib import Path

import pytest
from support.mmie_data import draw

from mmie_tasks.answers.images import Finder, Piece, resolve
from mmie_tasks.answers.parsing import read


@pytest.fixture
def finder(tmp_path):
    return Finder([tmp_path / "root"], tmp_path / "keep")


def pieces(finder, answer, index=7):
    return resolve(read([answer], finder.is_folder), finder, "mmie", index)


def files_of(found):
    return tuple(piece.found.path for piece in found if piece.found and piece.found.path)


def test_text_and_images_stay_in_their_order_and_every_image_is_looked_for(tmp_path, finder):
    there = draw(tmp_path / "root" / "a.png")
    found = pieces(finder, '{"text": "A <image> B <image>", "images": ["a.png", "no.png"]}')
    assert [(piece.text, piece.image) for piece in found if piece.text] == [
        ("A", None),
        ("B", None),
    ]
    assert files_of(found) == (there,)
    assert [piece.found.problem for piece in found if piece.found] == ["", "missing"]


def test_a_folder_is_the_images_of_the_sample_in_it(tmp_path, finder):
    mine = [draw(tmp_path / "root" / "wan" / f"0007_s{seed}.png", seed) for seed in (0, 1)]
    draw(tmp_path / "root" / "wan" / "0008_s0.png")
    assert files_of(pieces(finder, "./wan")) == tuple(mine)
    assert [piece.found.problem for piece in pieces(finder, "./wan", index=9)] == ["unreadable"]


def test_images_that_a_model_of_words_left_on_disk_follow_its_words(tmp_path, finder):
    there = draw(tmp_path / "root" / "made.png")
    note = tmp_path / "root" / "mmie" / "7_metadata.json"
    note.parent.mkdir()
    note.write_text('{"generated_images": ["made.png"]}')
    assert pieces(finder, "Words.")[0] == Piece("Words.")
    assert files_of(pieces(finder, "Words.")) == (there,)
    assert files_of(pieces(finder, "Words.", index=8)) == ()
    assert files_of(pieces(finder, '[{"text": "Own.", "image": "no.png"}]')) == ()


def test_a_text_stays_before_the_folder_it_came_with(tmp_path, finder):
    draw(tmp_path / "root" / "wan" / "0007_s0.png")
    found = pieces(finder, '{"text": "Here.", "images": ["wan"]}')
    assert [piece.text for piece in found] == ["Here.", None]
    assert [Path(path).name for path in files_of(found)] == ["0007_s0.png"]
