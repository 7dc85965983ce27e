"""Images that models leave on disk without naming them in their answers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.mmie_data import draw

from mmie_tasks.answers.images import ImageResolver, metadata_images, resolve_images, row_images
from mmie_tasks.answers.parser import parse_answer
from mmie_tasks.record.segment import Segment


@pytest.fixture
def resolver(tmp_path):
    return ImageResolver([tmp_path / "a", tmp_path], tmp_path / "keep")


def names(paths):
    return [path.name for path in paths]


def test_a_folder_gives_the_images_of_the_row_by_seed(resolver, tmp_path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    for name in ("0007_s10.png", "0007_s2.png", "0008_s0.png", "00007_s0.png", "7_s0.png",
                 "0007_s1.jpg", "0007_sx.png", "12345_s0.png"):  # fmt: skip
        (folder / name).touch()
    for reference in (str(folder), "out", f"file://{folder}/"):
        existing = resolver.existing_folder(reference)
        assert names(row_images(existing, 7)) == ["0007_s2.png", "0007_s10.png"]
        assert names(row_images(existing, 12345)) == ["12345_s0.png"]
        assert row_images(existing, 9) == []


def test_files_written_later_are_listed(tmp_path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    assert row_images(folder, 7) == []
    (folder / "0007_s0.png").touch()
    os.utime(folder, ns=(1, 1))
    assert names(row_images(folder, 7)) == ["0007_s0.png"]


@pytest.mark.parametrize("reference", ["no", "/no", "file.txt", "../x", "https://x/y", "\0", ""])
def test_a_reference_to_no_folder_has_none(resolver, tmp_path, reference) -> None:
    (tmp_path / "file.txt").touch()
    assert resolver.existing_folder(reference) is None
    assert not resolver.is_folder(reference)


def write_metadata(folder: Path, content: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "3_metadata.json").write_text(text, encoding="utf-8")


def test_a_metadata_file_beside_the_answer_names_its_images(resolver, tmp_path) -> None:
    write_metadata(
        tmp_path / "mmie", {"generated_images": ["x/1.png", "", "/y/2.png"], "doc_id": "3"}
    )
    assert metadata_images(resolver.roots, "mmie", 3) == ["x/1.png", "/y/2.png"]
    write_metadata(tmp_path / "edit", {"generated_image_path": "out/7.png", "stage2_answer": "A"})
    # As qwen_image_edit writes it.
    assert metadata_images(resolver.roots, "edit", 3) == ["out/7.png"]
    assert metadata_images(resolver.roots, "mmie", 4) == []
    assert metadata_images(resolver.roots, "mmie_sa", 3) == []


@pytest.mark.parametrize(
    "content",
    [
        pytest.param('{"generated_images": ["a', id="cut off"),
        pytest.param("[" * 100_000, id="nested"),
        pytest.param({}, id="no key"),
        pytest.param({"generated_images": "a.png"}, id="a text"),
        pytest.param({"generated_image_path": 1}, id="a number"),
    ],
)
def test_a_broken_metadata_file_is_skipped(resolver, tmp_path, content) -> None:
    write_metadata(tmp_path / "a" / "mmie", content)
    assert metadata_images(resolver.roots, "mmie", 3) == []
    write_metadata(tmp_path / "mmie", {"generated_images": ["a.png"]})
    assert metadata_images(resolver.roots, "mmie", 3) == ["a.png"]


def test_a_metadata_file_is_only_read_inside_a_root(resolver, tmp_path) -> None:
    write_metadata(tmp_path.parent / "outside", {"generated_images": ["a.png"]})
    (tmp_path / "mmie").symlink_to(tmp_path.parent / "outside")
    assert metadata_images(resolver.roots, "mmie", 3) == []
    assert metadata_images(resolver.roots, "../outside", 3) == []
    assert metadata_images(resolver.roots, "\0", 3) == []


def resolved(resolver, answer, row=7):
    return resolve_images(parse_answer([answer], resolver.is_folder), resolver, "mmie", row)


def files_of(segments):
    return tuple(Path(s.image) for s in segments if s.image and not s.problem)


def test_text_and_images_stay_in_their_order_and_every_image_is_resolved(tmp_path, resolver):
    path = draw(tmp_path / "a.png")
    segments = resolved(resolver, '{"text": "A <image> B <image>", "images": ["a.png", "no.png"]}')
    assert [(segment.text, segment.image) for segment in segments if segment.text] == [
        ("A", None),
        ("B", None),
    ]
    assert files_of(segments) == (path,)
    assert [segment.problem for segment in segments if segment.image] == ["", "missing"]


def test_a_folder_gives_the_images_of_the_sample(tmp_path, resolver):
    mine = [draw(tmp_path / "wan" / f"0007_s{seed}.png", seed) for seed in (0, 1)]
    draw(tmp_path / "wan" / "0008_s0.png")
    assert files_of(resolved(resolver, "./wan")) == tuple(mine)
    assert [segment.problem for segment in resolved(resolver, "./wan", row=9)] == ["unreadable"]


def test_images_that_a_model_left_on_disk_follow_its_text(tmp_path, resolver):
    path = draw(tmp_path / "made.png")
    note = tmp_path / "mmie" / "7_metadata.json"
    note.parent.mkdir()
    note.write_text('{"generated_images": ["made.png"]}')
    assert resolved(resolver, "Words.")[0] == Segment("Words.")
    assert files_of(resolved(resolver, "Words.")) == (path,)
    assert files_of(resolved(resolver, "Words.", row=8)) == ()
    assert files_of(resolved(resolver, '[{"text": "Own.", "image": "no.png"}]')) == ()


def test_a_text_stays_before_the_images_of_its_folder(tmp_path, resolver):
    draw(tmp_path / "wan" / "0007_s0.png")
    segments = resolved(resolver, '{"text": "Here.", "images": ["wan"]}')
    assert [segment.text for segment in segments] == ["Here.", None]
    assert [Path(path).name for path in files_of(segments)] == ["0007_s0.png"]
