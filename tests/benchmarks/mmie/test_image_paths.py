"""Which file a reference of MMIE means."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.benchmarks.mmie.image_folder import ImageFolder


def create_files(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")


def file_of(root, reference, *, hub=False):
    """The file of a reference below the root; None where it is not there."""
    path = ImageFolder(root, hub=hub).path(reference)
    assert path.startswith(f"{root}/")
    return str(Path(path).relative_to(root)) if Path(path).is_file() else None


@pytest.mark.parametrize(
    ("files", "reference", "file"),
    [
        pytest.param(["images/0.png"], "images/0.png", "images/0.png", id="as it is"),
        pytest.param(["images/a/0.png"], "a/0.png", "images/a/0.png", id="below images"),
        pytest.param(["images/0.png"], "./images//0.png", "images/0.png", id="dots and slashes"),
        pytest.param(["images/0.png"], r"a\..\images\0.png", "images/0.png", id="backslash"),
        pytest.param(["a/0.png", "images/a/0.png"], "a/0.png", "a/0.png", id="the first"),
        pytest.param(["images/0.png"], "pictures/0.png", "images/0.png", id="the name alone"),
        pytest.param(["images/0.png/x"], "images/0.png", None, id="a folder is no file"),
        pytest.param(["images/images_2/0.png"], "images/0.png", "images/images_2/0.png", id="in"),
        pytest.param(["images/a/b/0.png"], "0.png", "images/a/b/0.png", id="archive"),
        pytest.param(["images/a/0.png", "images/b/0.png"], "0.png", None, id="either of two"),
        pytest.param(["images"], "images/0.png", None, id="a file for a folder"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("hub", [False, True])
def test_the_first_place_that_holds_it(files, reference, file, hub, tmp_path):
    create_files(tmp_path, *files)
    assert file_of(tmp_path, reference, hub=hub) == file


def test_what_is_not_there_is_expected_where_the_official_script_looks(tmp_path):
    assert ImageFolder(tmp_path, hub=False).path("./images/0.png") == f"{tmp_path}/images/0.png"


@pytest.mark.parametrize("file", ["images/0.png", "images/c/0.png"])
def test_two_references_never_get_one_file_by_a_guess(file, tmp_path):
    create_files(tmp_path, file)
    two = ImageFolder(tmp_path, hub=True, references=["a/0.png", "b/0.png"])
    assert not any(Path(two.path(name)).is_file() for name in ("a/0.png", "b/0.png"))
    spellings = ["a/0.png", "./a/0.png", r"a\0.png"]
    one = ImageFolder(tmp_path, hub=True, references=spellings)
    assert {one.path(name) for name in spellings} == {f"{tmp_path}/{file}"}


@pytest.mark.parametrize(
    "reference", ["..", "../0.png", "a/../../0.png", ".", r"..\0.png", "C:/0.png", "a\0.png"]
)
@pytest.mark.parametrize("hub", [False, True])
def test_a_reference_never_leaves_the_folder(reference, hub, tmp_path):
    create_files(tmp_path, "0.png", "data/0.png")
    assert ImageFolder(tmp_path / "data", hub=hub).path(reference) is None


def test_absolute_references_are_kept_in_a_local_folder_only(tmp_path):
    assert ImageFolder(tmp_path, hub=False).path("/elsewhere/./0.png") == "/elsewhere/./0.png"
    assert ImageFolder(tmp_path, hub=True).path("/elsewhere/0.png") is None


def test_a_link_never_leads_out(tmp_path):
    create_files(tmp_path, "out/secret.png", "data/images/1.png")
    (tmp_path / "data/images/0.png").symlink_to(tmp_path / "out/secret.png")
    (tmp_path / "data/a").symlink_to(tmp_path / "out")
    folder = ImageFolder(tmp_path / "data", hub=False)
    assert [folder.path(name) for name in ("images/0.png", "a/secret.png")] == [None, None]


def test_a_link_inside_is_followed_and_images_may_itself_be_one(tmp_path):
    create_files(tmp_path, "disk/0.png")
    (tmp_path / "disk/1.png").symlink_to("0.png")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/images").symlink_to("../disk")
    (tmp_path / "data/loop.png").symlink_to("loop.png")
    names = ("images/0.png", "1.png", "loop.png")
    expected = ["images/0.png", "images/1.png", None]
    assert [file_of(tmp_path / "data", name) for name in names] == expected


@given(st.text(alphabet="ab./\\\0:é"))
def test_any_reference_stays_inside_or_is_refused(reference):
    path = ImageFolder(Path("/nowhere/at/all"), hub=True).path(reference)
    assert path is None or os.path.normpath(path).startswith("/nowhere/at/all/")
