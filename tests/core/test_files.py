"""A file or folder is there whole or not at all."""

import pytest

from mmie_tasks.core.files import atomic_write, create_folder_once


def test_a_file_whose_writing_fails_stays_as_it_was(tmp_path):
    target = tmp_path / "new" / "replies.jsonl"
    with atomic_write(target) as part:
        part.write_text("first")
    with pytest.raises(OSError, match="disk"), atomic_write(target) as part:  # noqa: PT012
        part.write_text("half")
        raise OSError("disk full")
    assert [path.read_text() for path in target.parent.iterdir()] == ["first"]


def test_a_folder_that_was_not_filled_completely_is_filled_anew_and_a_whole_one_is_kept(tmp_path):
    def fails(folder):
        (folder / "half").touch()
        raise OSError("disk full")

    target = tmp_path / "data"
    with pytest.raises(OSError, match="disk"):
        create_folder_once(target, fails, "filling")
    assert not target.exists()
    (tmp_path / "data.unfinished").mkdir()
    (tmp_path / "data.unfinished" / "half").touch()  # left by a killed process
    create_folder_once(target, lambda folder: (folder / "whole").touch(), "filling")
    create_folder_once(target, fails, "filling")
    assert [path.name for path in target.iterdir()] == ["whole"]
