"""MIA-Bench from a local folder: which picture is whose, and what can be wrong."""

import json
import runpy
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hub_files import MIA_BENCH_EXAMPLE as DATA

from mmie_tasks.benchmarks.mia_bench import data as mia_bench
from mmie_tasks.benchmarks.mia_bench.data import dataset, image_paths, words_digest
from mmie_tasks.benchmarks.mia_bench.sample import CATEGORIES, TYPES, Sample
from mmie_tasks.core.errors import DataBroken, DataMissing

ANNOTATION = "instruction_benchmark_all.json"


def load(root):
    """The rows in the order of the file."""
    return sorted(dataset({"MIA_BENCH_DATA": str(root)}), key=lambda row: int(row["id"]))


@pytest.fixture
def root(tmp_path):
    shutil.copytree(DATA, tmp_path, dirs_exist_ok=True)
    return tmp_path


def change(root, edit):
    path = root / ANNOTATION
    rows = json.loads(path.read_text(encoding="utf-8"))
    edit(rows)
    path.write_text(json.dumps(rows), encoding="utf-8")


@pytest.mark.parametrize(
    ("image", "files", "path"),
    [
        pytest.param("https://a.org/c.jpg?x=1", ["000.webp"], "images/000.webp", id="address"),
        pytest.param("a.org/b/c.jpg", ["000.jpg", "c.jpg"], "images/000.jpg", id="no scheme"),
        pytest.param("https://a.org/c.jpg", ["c.jpg"], "images/000.jpg", id="no number: missing"),
        pytest.param("images/c.jpg", ["c.jpg", "000.jpg"], "images/c.jpg", id="file name"),
        pytest.param("b/1.jpg", [], "b/1.jpg", id="missing file"),
    ],
)
def test_the_image_of_an_address_is_numbered_and_any_other_is_the_named_file(
    image, files, path, tmp_path
):
    create_images(tmp_path, *files)
    assert relative_paths(tmp_path, image) == [path]


def create_images(root, *names):
    (root / "images").mkdir(exist_ok=True)
    for name in names:
        (root / "images" / name).write_bytes(b"x")


def relative_paths(root, *named):
    paths = image_paths(root, dict(enumerate(named)))
    return [str(path.relative_to(root)) for path in paths.values()]


def test_a_row_carries_what_is_asked_and_judged():
    rows = load(DATA)
    assert rows[3]["id"] == "3"
    assert rows[3]["url"] == "images/3.png"
    assert Path(rows[4]["image"]) == DATA / "images" / "4.webp"
    assert sum(rows[6]["component_weight"]) == 8
    assert rows[0]["data"].startswith("sha256:")
    assert Sample.from_doc(rows[3]).categories == (
        "math",
        "math",
        "mention",
        "grammar",
        "length_limit",
    )


def test_at_every_limit_the_types_have_their_shares_and_the_order_is_random(root):
    def sort_by_type(rows):
        rows[:] = [{**rows[0], "type": type_} for type_ in TYPES for _ in range(20)]

    change(root, sort_by_type)
    docs = dataset({"MIA_BENCH_DATA": str(root)})
    for limit in range(len(TYPES), len(docs), len(TYPES)):
        counts = Counter(docs[:limit]["type"])
        assert counts == dict.fromkeys(TYPES, limit // len(TYPES))
    assert docs[:5]["id"] == ["53", "3", "92", "72", "38"]


def test_the_revision_moves_with_the_annotation(root):
    change(root, lambda rows: rows[0].update(instruction="Describe."))
    assert load(root)[0]["data"] != load(DATA)[0]["data"]


def test_the_example_has_every_type_and_category():
    samples = [Sample.from_doc(row) for row in load(DATA)]
    assert {sample.type for sample in samples} == set(TYPES)
    assert {category for sample in samples for category in sample.categories} == set(CATEGORIES)
    assert {len(sample.components) for sample in samples} == {2, 3, 4, 5}


def test_the_example_is_what_its_program_writes(tmp_path):
    runpy.run_path(str(DATA.parent / "make.py"))["main"](tmp_path)
    for path in (DATA.parent / "data" / ANNOTATION, DATA.parent / "answers" / "answers.jsonl"):
        again = tmp_path / path.relative_to(DATA.parent)
        assert again.read_bytes() == path.read_bytes(), "run make.py"
    drawn = {path.name for path in (tmp_path / "data" / "images").iterdir()}
    assert drawn == {path.name for path in (DATA / "images").iterdir()}


def test_two_pictures_for_one_row_are_broken_data(tmp_path):
    create_images(tmp_path, "000.jpg", "000.png")
    with pytest.raises(DataBroken, match=r"000\.jpg, 000\.png"):
        image_paths(tmp_path, {0: "https://a.org/c.jpg"})


@given(st.lists(st.text(min_size=1), max_size=4))
def test_any_names_give_paths_or_broken_data(named):
    try:
        paths = image_paths(DATA, dict(enumerate(named)))
    except DataBroken:
        return
    assert all(path.is_relative_to(DATA) for path in paths.values())
    assert len(paths) == len(named)


def test_without_its_pictures_a_folder_is_of_no_use(root):
    shutil.rmtree(root / "images")
    with pytest.raises(DataMissing, match="images") as error:
        load(root)
    assert "images/007.jpg" in str(error.value)


def test_a_picture_that_is_missing_does_not_end_the_reading(root):
    (root / "images" / "2.png").unlink()
    assert not Path(load(root)[2]["image"]).exists()


def test_a_name_longer_than_names_can_be_is_a_missing_picture(root):
    change(root, lambda rows: rows[2].update(image="x" * 5_000))
    assert load(root)[2]["image"].endswith("xxx")


def test_no_folder_and_no_annotation_are_told_apart(tmp_path):
    with pytest.raises(DataMissing, match="no such folder"):
        load(tmp_path / "nowhere")
    create_images(tmp_path)
    with pytest.raises(DataMissing, match=r"contains no .*; it contains: images"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        pytest.param(lambda r: r[2].pop("image"), "row 2: `image`", id="no picture"),
        pytest.param(lambda r: r[2].update(image=7), "row 2: `image`", id="a number for a picture"),
        pytest.param(lambda r: r[2].update(image="a\0b"), "row 2: `image`", id="NUL"),
        pytest.param(lambda r: r.insert(2, []), "row 2: not an object", id="no object"),
        pytest.param(lambda r: r.clear(), "not a list with rows", id="empty"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(edit, message, root):
    change(root, edit)
    with pytest.raises(DataBroken, match=message):
        load(root)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        pytest.param(
            {"image": "../secret.png"}, "row 9: The dataset names '../secret.png'", id="outside"
        ),
        pytest.param({"components": None}, "id '9': `components`", id="components"),
        pytest.param({"type": ["basic"]}, "id '9': `type`", id="type"),
    ],
)
def test_a_row_is_an_error_that_names_its_field(row, problem, root):
    (root.parent / "secret.png").write_bytes(b"x")
    change(root, lambda rows: rows.extend([rows[0], {**rows[0], **row}, *rows]))
    with pytest.raises(DataBroken) as caught:
        load(root)
    assert problem in caught.value.message


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b'{"a": 1}', b"[" * 100_000])
def test_what_is_no_list_in_json_is_broken_data(content, root):
    (root / ANNOTATION).write_bytes(content)
    with pytest.raises(DataBroken, match=ANNOTATION):
        load(root)


@pytest.mark.parametrize("changed", [False, True])
def test_four_hundred_rows_of_other_words_are_said_to_be(changed, logs, root, monkeypatch):
    change(root, lambda rows: rows.extend(rows[0] for _ in range(392)))
    words = words_digest(load(root))
    monkeypatch.setattr(mia_bench, "OFFICIAL_WORDS", words)
    if changed:
        change(root, lambda rows: rows[7].update(instruction="Describe."))
    logs.clear()
    load(root)
    assert any("differ from those" in line for line in logs) == changed
