from __future__ import annotations

from pathlib import Path

import pytest

from mmie_tasks.preflight.findings import download, folder, kept_folder, noted


def test_a_folder_that_is_not_there_yet_is_where_it_would_be_made(tmp_path: Path) -> None:
    found = folder("cache", tmp_path / "a" / "b", "set X")
    assert found.status in ("ok", "warning")
    assert "free for" in found.found
    assert not (tmp_path / "a").exists()


def test_a_file_in_the_way_of_a_folder_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    found = folder("cache", tmp_path / "a" / "b", "set X")
    assert (found.status, found.hint) == ("problem", "set X")


@pytest.mark.parametrize(
    ("sizes", "status", "said"),
    [
        pytest.param([3 * 2**20], "ok", "3.0 MiB, which", id="known"),
        pytest.param([3 * 2**20, None], "ok", "3.0 MiB or more, which", id="one-unknown"),
        pytest.param([None], "ok", "size unknown, which", id="unknown"),
        pytest.param([2**60], "problem", "1073741824.0 GiB", id="no-room"),
    ],
)
def test_a_download_is_told_with_its_size(
    tmp_path: Path, sizes: list[int | None], status: str, said: str
) -> None:
    found = download("data", "MMIE", sizes, tmp_path)
    assert found.status == status
    assert said in found.found


def test_what_an_earlier_run_brought_is_found_by_its_note(tmp_path: Path) -> None:
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "a%2Fb.txt").write_text("c0ffee\n")
    assert noted(tmp_path, "a/b") == "c0ffee"
    assert noted(tmp_path, "main") == ""
    assert kept_folder(tmp_path, "a/b") is None
    (tmp_path / "c0ffee").mkdir()
    assert kept_folder(tmp_path, "a/b") == tmp_path / "c0ffee"
