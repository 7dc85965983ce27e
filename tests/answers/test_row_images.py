"""Images that models leave on disk without naming them in their answers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mmie_tasks.answers.images import Finder
from mmie_tasks.answers.parsing import read


@pytest.fixture
def finder(tmp_path):
    return Finder([tmp_path / "a", tmp_path], tmp_path / "keep")


def names(paths):
    return [path.name for path in paths]


def test_a_folder_gives_the_images_of_the_row_by_seed(finder, tmp_path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    for name in ("0007_s10.png", "0007_s2.png", "0008_s0.png", "00007_s0.png", "7_s0.png",
                 "0007_s1.jpg", "0007_sx.png", "12345_s0.png"):  # fmt: skip
        (folder / name).touch()
    for reference in (str(folder), "out", f"file://{folder}/"):
        assert names(finder.find_folder(reference, 7)) == ["0007_s2.png", "0007_s10.png"]
        assert names(finder.find_folder(reference, 12345)) == ["12345_s0.png"]
        assert finder.find_folder(reference, 9) == []


def test_files_that_come_later_are_seen(finder, tmp_path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    assert finder.find_folder("out", 7) == []
    (folder / "0007_s0.png").touch()
    os.utime(folder, ns=(1, 1))
    assert names(finder.find_folder("out", 7)) == ["0007_s0.png"]


@pytest.mark.parametrize("reference", ["no", "/no", "file.txt", "../x", "https://x/y", "\0", ""])
def test_what_is_no_folder_has_no_images(finder, tmp_path, reference) -> None:
    (tmp_path / "file.txt").touch()
    assert finder.find_folder(reference, 0) == []
    assert not finder.is_folder(reference)


def test_the_finder_tells_the_reader_what_is_a_folder(finder, tmp_path) -> None:
    (tmp_path / "out" / "task").mkdir(parents=True)
    assert read(["out/task"]).shape == "text"
    assert read(["out/task"], is_folder=finder.is_folder).shape == "folder"


def note(folder: Path, content: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "3_metadata.json").write_text(text, encoding="utf-8")


def test_a_note_beside_the_answer_names_its_images(finder, tmp_path) -> None:
    note(tmp_path / "mmie", {"generated_images": ["x/1.png", "", "/y/2.png"], "doc_id": "3"})
    assert finder.side_files("mmie", 3) == ["x/1.png", "/y/2.png"]
    assert finder.side_files("mmie", 4) == []
    assert finder.side_files("mmie_sa", 3) == []


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("", id="empty"),
        pytest.param('{"generated_images": ["a', id="cut off"),
        pytest.param("[" * 100_000, id="nested"),
        pytest.param([], id="list"),
        pytest.param({}, id="no key"),
        pytest.param({"generated_images": "a.png"}, id="a text"),
        pytest.param({"generated_images": [1]}, id="numbers"),
        pytest.param(" " * 5_000_000 + "{}", id="very large"),
    ],
)
def test_a_broken_note_is_passed_over(finder, tmp_path, content) -> None:
    note(tmp_path / "a" / "mmie", content)
    assert finder.side_files("mmie", 3) == []
    note(tmp_path / "mmie", {"generated_images": ["a.png"]})
    assert finder.side_files("mmie", 3) == ["a.png"]


def test_a_note_is_only_read_inside_a_root(finder, tmp_path) -> None:
    note(tmp_path.parent / "outside", {"generated_images": ["a.png"]})
    (tmp_path / "mmie").symlink_to(tmp_path.parent / "outside")
    assert finder.side_files("mmie", 3) == []
    assert finder.side_files("../outside", 3) == []
    assert finder.side_files("\0", 3) == []


def test_a_note_that_is_no_file_is_not_opened(finder, tmp_path) -> None:
    (tmp_path / "mmie").mkdir()
    os.mkfifo(tmp_path / "mmie" / "3_metadata.json")
    assert finder.side_files("mmie", 3) == []
