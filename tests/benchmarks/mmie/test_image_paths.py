"""Which file a reference of MMIE means."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.benchmarks.mmie.data import image_paths


def create_files(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")


def resolved(root, *references, hub=False):
    """The file of every reference below the root; None where it is not there."""
    paths = image_paths(root, references, hub=hub)
    assert list(paths) == list(dict.fromkeys(references))
    existing = {one: path for one, path in paths.items() if Path(path).is_file()}
    lost = {path for one, path in paths.items() if one not in existing}
    assert all(path.startswith(f"{root}/") for path in lost)
    names = [existing.get(one) for one in references]
    return [path and str(Path(path).relative_to(root)) for path in names]


@pytest.mark.parametrize(
    ("files", "reference", "file"),
    [
        pytest.param(["images/0.png"], "images/0.png", "images/0.png", id="as it is"),
        pytest.param(["images/a/0.png"], "a/0.png", "images/a/0.png", id="below images"),
        pytest.param(["0.png"], "pictures/0.png", None, id="last part elsewhere"),
        pytest.param(["images/0.png"], "pictures/0.png", "images/0.png", id="last below images"),
        pytest.param(["images/0.png"], "./images//0.png", "images/0.png", id="dots and slashes"),
        pytest.param(["images/0.png"], "a/../images/0.png", "images/0.png", id="up and down"),
        pytest.param(["images/0.png"], r"images\0.png", "images/0.png", id="backslash"),
        pytest.param(["a/0.png", "images/a/0.png"], "a/0.png", "a/0.png", id="first of 1 and 2"),
        pytest.param(
            ["images/a/0.png", "images/0.png"], "a/0.png", "images/a/0.png", id="first of 2 and 3"
        ),
        pytest.param(["b/0.png"], "a/0.png", None, id="another folder"),
        pytest.param(["images/0.png/x"], "images/0.png", None, id="a folder is no file"),
        pytest.param(["images/0.PNG"], "images/0.png", None, id="another ending"),
        pytest.param([], "images/0.png", None, id="nothing there"),
        pytest.param(["images"], "images/0.png", None, id="a file for a folder"),
    ],
)
@pytest.mark.parametrize("hub", [False, True])
def test_the_first_place_that_holds_it(files, reference, file, hub, tmp_path):
    create_files(tmp_path, *files)
    assert resolved(tmp_path, reference, hub=hub) == [file]


def test_what_is_not_there_is_expected_where_the_official_script_looks(tmp_path):
    paths = image_paths(tmp_path, ["./images/0.png", "b.png"], hub=False)
    assert list(paths.values()) == [f"{tmp_path}/images/0.png", f"{tmp_path}/b.png"]


def test_two_references_never_get_one_file_by_a_guess(tmp_path):
    create_files(tmp_path, "images/0.png", "images/1.png")
    assert resolved(tmp_path, "a/0.png", "b/0.png") == [None, None]
    assert resolved(tmp_path, "images/0.png", "b/0.png") == ["images/0.png", None]
    assert resolved(tmp_path, "a/0.png", "b/1.png") == ["images/0.png", "images/1.png"]


def test_two_spellings_of_one_reference_get_one_file(tmp_path):
    create_files(tmp_path, "images/0.png")
    assert resolved(tmp_path, "a/0.png", "./a/0.png", r"a\0.png") == ["images/0.png"] * 3


@pytest.mark.parametrize(
    ("files", "reference", "file"),
    [
        pytest.param(["images_2/0.png"], "images/0.png", "images_2/0.png", id="renamed"),
        pytest.param(["MMIE/images/0.png"], "images/0.png", "MMIE/images/0.png", id="a folder"),
        pytest.param(["a/b/c/0.png"], "0.png", "a/b/c/0.png", id="several folders"),
        pytest.param(["x/a/0.png", "x/b/0.png"], "images/0.png", None, id="either of two"),
        pytest.param(["x/a0.png", "x/._0.png"], "images/0.png", None, id="only the end of a name"),
    ],
)
def test_the_folders_of_the_archive_are_found_by_looking(files, reference, file, tmp_path):
    create_files(tmp_path, *(f"images/{name}" for name in files))
    assert resolved(tmp_path, reference) == [file and f"images/{file}"]


def test_in_the_archive_two_references_never_get_one_file(tmp_path):
    create_files(tmp_path, "images/c/0.png")
    assert resolved(tmp_path, "a/0.png", "b/0.png", hub=True) == [None, None]


@pytest.mark.parametrize("reference", ["..", "../0.png", "a/../../0.png", ".", "a/..", r"..\0.png"])
@pytest.mark.parametrize("hub", [False, True])
def test_a_reference_never_leaves_the_folder(reference, hub, tmp_path):
    create_files(tmp_path, "0.png", "data/0.png")
    paths = image_paths(tmp_path / "data", ["0.png", reference], hub=hub)
    assert paths == {"0.png": f"{tmp_path}/data/0.png", reference: None}


@pytest.mark.parametrize("reference", ["C:/0.png", "C:0.png", r"\\server\0.png", "a\0.png"])
def test_a_drive_or_a_nul_is_outside(reference, tmp_path):
    assert image_paths(tmp_path, [reference], hub=False) == {reference: None}


def test_absolute_references_are_kept_in_a_local_folder_only(tmp_path):
    given_paths = ["/elsewhere/./0.png", f"{tmp_path}/../0.png"]
    assert image_paths(tmp_path, given_paths, hub=False) == {one: one for one in given_paths}
    assert image_paths(tmp_path, ["/elsewhere/0.png"], hub=True) == {"/elsewhere/0.png": None}


@pytest.mark.parametrize(
    ("link", "target", "reference"),
    [
        pytest.param("images/0.png", "secret.png", "images/0.png", id="a file"),
        pytest.param("a", "", "a/secret.png", id="a folder"),
    ],
)
def test_a_link_never_leads_out(link, target, reference, tmp_path):
    create_files(tmp_path, "out/secret.png", "data/images/1.png")
    (tmp_path / "data" / link).symlink_to(tmp_path / "out" / target)
    paths = image_paths(tmp_path / "data", [reference, "images/1.png"], hub=False)
    assert paths == {reference: None, "images/1.png": f"{tmp_path}/data/images/1.png"}


def test_a_link_inside_is_followed(tmp_path):
    create_files(tmp_path, "store/0.png")
    (tmp_path / "images").mkdir()
    (tmp_path / "images/0.png").symlink_to("../store/0.png")
    (tmp_path / "a").symlink_to("store")
    (tmp_path / "loop.png").symlink_to("loop.png")
    (tmp_path / "dangling.png").symlink_to("nothing.png")
    references = ["images/0.png", "a/0.png", "loop.png", "dangling.png"]
    assert resolved(tmp_path, *references) == ["images/0.png", "a/0.png", None, None]


def test_the_folder_of_images_may_itself_be_a_link(tmp_path):
    create_files(tmp_path, "disk/0.png", "disk-2/1.png")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/images").symlink_to("../disk")
    assert resolved(tmp_path / "data", "images/0.png", "0.png") == ["images/0.png"] * 2
    (tmp_path / "disk/1.png").symlink_to("../disk-2/1.png")
    paths = image_paths(tmp_path / "data", ["images/1.png"], hub=False)
    assert paths == {"images/1.png": None}


@given(st.lists(st.text(alphabet="ab./\\\0:é"), max_size=4))
def test_any_reference_stays_inside_or_is_refused(references):
    root = Path("/nowhere/at/all")
    paths = [path for path in image_paths(root, references, hub=True).values() if path]
    assert all(os.path.normpath(path).startswith(f"{root}/") for path in paths)
