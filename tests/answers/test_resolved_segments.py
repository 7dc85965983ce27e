from pathlib import Path

import pytest
from support.mmie_data import draw

from mmie_tasks.answers.images import ImageResolver, resolve_images
from mmie_tasks.answers.parsing import parse_answer
from mmie_tasks.record.segment import Segment


@pytest.fixture
def resolver(tmp_path):
    return ImageResolver([tmp_path / "root"], tmp_path / "keep")


def resolved(resolver, answer, row=7):
    return resolve_images(parse_answer([answer], resolver.is_folder), resolver, "mmie", row)


def files_of(segments):
    return tuple(Path(s.image) for s in segments if s.image and not s.problem)


def test_text_and_images_stay_in_their_order_and_every_image_is_resolved(tmp_path, resolver):
    path = draw(tmp_path / "root" / "a.png")
    segments = resolved(resolver, '{"text": "A <image> B <image>", "images": ["a.png", "no.png"]}')
    assert [(segment.text, segment.image) for segment in segments if segment.text] == [
        ("A", None),
        ("B", None),
    ]
    assert files_of(segments) == (path,)
    assert [segment.problem for segment in segments if segment.image] == ["", "missing"]


def test_a_folder_gives_the_images_of_the_sample(tmp_path, resolver):
    mine = [draw(tmp_path / "root" / "wan" / f"0007_s{seed}.png", seed) for seed in (0, 1)]
    draw(tmp_path / "root" / "wan" / "0008_s0.png")
    assert files_of(resolved(resolver, "./wan")) == tuple(mine)
    assert [segment.problem for segment in resolved(resolver, "./wan", row=9)] == ["unreadable"]


def test_images_that_a_model_left_on_disk_follow_its_text(tmp_path, resolver):
    path = draw(tmp_path / "root" / "made.png")
    note = tmp_path / "root" / "mmie" / "7_metadata.json"
    note.parent.mkdir()
    note.write_text('{"generated_images": ["made.png"]}')
    assert resolved(resolver, "Words.")[0] == Segment("Words.")
    assert files_of(resolved(resolver, "Words.")) == (path,)
    assert files_of(resolved(resolver, "Words.", row=8)) == ()
    assert files_of(resolved(resolver, '[{"text": "Own.", "image": "no.png"}]')) == ()


def test_a_text_stays_before_the_images_of_its_folder(tmp_path, resolver):
    draw(tmp_path / "root" / "wan" / "0007_s0.png")
    segments = resolved(resolver, '{"text": "Here.", "images": ["wan"]}')
    assert [segment.text for segment in segments] == ["Here.", None]
    assert [Path(path).name for path in files_of(segments)] == ["0007_s0.png"]
