"""MIA-Bench from a local folder: which picture is whose, and what can be wrong."""

import json
import runpy
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loguru import logger
from support.mia_bench_hub import ANNOTATION, DATA

from mmie_tasks.benchmarks.mia_bench import data as mia_bench
from mmie_tasks.benchmarks.mia_bench.data import dataset, image_paths, words_digest
from mmie_tasks.benchmarks.mia_bench.sample import CATEGORIES, TYPES, Sample
from mmie_tasks.core.errors import DataBroken, DataMissing


def load(root):
    return list(dataset({"MIA_BENCH_DATA": str(root)}))


@pytest.fixture
def root(tmp_path):
    shutil.copytree(DATA, tmp_path, dirs_exist_ok=True)
    return tmp_path


def change(root, edit):
    path = root / ANNOTATION
    rows = json.loads(path.read_text(encoding="utf-8"))
    edit(rows)
    path.write_text(json.dumps(rows), encoding="utf-8")


def create_images(root, *names):
    (root / "images").mkdir(exist_ok=True)
    for name in names:
        (root / "images" / name).write_bytes(b"x")


def relative_paths(root, *named):
    paths = image_paths(root, dict(enumerate(named)))
    return [path and str(path.relative_to(root)) for path in paths.values()]


def test_a_row_carries_what_is_asked_and_judged():
    rows = load(DATA)
    assert rows[3]["id"] == "3"
    assert rows[3]["url"] == "images/3.png"
    assert Path(rows[4]["image"]) == DATA / "images" / "4.webp"
    assert sum(rows[6]["component_weight"]) == 8
    assert rows[0]["data"].startswith("sha256:")
    assert Sample.from_doc(rows[3]).categories == ("math", "math", "mention", "grammar", "length_limit")


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


@pytest.mark.parametrize(
    ("image", "file"),
    [
        pytest.param("https://a.org/b/c.jpg", "c.jpg", id="as it is"),
        pytest.param("a.org/b/c.jpg", "c.jpg", id="no scheme"),
        pytest.param("https://a.org/c.jpg?w=860&h=645", "c.jpg", id="query cut off"),
        pytest.param("https://a.org/c.jpg?w=860", "c.jpg?w=860", id="query kept"),
        pytest.param("https://a.org/c.jpg#top", "c.jpg", id="fragment"),
        pytest.param("https://a.org/two%20words.jpg", "two words.jpg", id="decoded"),
        pytest.param("https://a.org/two%20words.jpg", "two%20words.jpg", id="not decoded"),
        pytest.param("https://a.org/b/1428?format=w", "1428.png", id="an ending given"),
        pytest.param("https://a.org/b/1428/?format=w", "1428", id="slash behind the name"),
        pytest.param("https://a.org/?blob=62", "000.jpg", id="no name, numbered"),
        pytest.param("https://a.org/b/c.jpg", "000.webp", id="numbered, other ending"),
    ],
)
def test_the_picture_of_an_address_is_found(image, file, tmp_path):
    create_images(tmp_path, file)
    assert relative_paths(tmp_path, image) == [f"images/{file}"]


def test_a_number_wins_over_a_name(tmp_path):
    create_images(tmp_path, "c.jpg", "000.jpg")
    assert relative_paths(tmp_path, "https://a.org/c.jpg") == ["images/000.jpg"]


def test_a_number_that_is_the_name_of_another_row_is_no_number(tmp_path):
    create_images(tmp_path, "c.jpg", "000.jpg")
    assert relative_paths(tmp_path, "https://a.org/c.jpg", "https://a.org/000.jpg") == [
        "images/c.jpg",
        "images/000.jpg",
    ]


def test_one_digit_is_a_name_and_no_number(tmp_path):
    """The official file has addresses that end in 1.jpg to 4.jpg, far from rows 1 to 4."""
    create_images(tmp_path, "1.jpg", "b.jpg")
    named = ["https://a.org/1.jpg", "https://a.org/b.jpg"]
    assert relative_paths(tmp_path, *named) == ["images/1.jpg", "images/b.jpg"]


def test_a_name_that_addresses_share_is_never_guessed(tmp_path):
    create_images(tmp_path, "1.jpg")
    named = ["https://a.org/x/1.jpg", "https://a.org/y/1.jpg", "https://a.org/c.jpg"]
    assert relative_paths(tmp_path, *named) == [None, None, "images/c.jpg"]


def test_numbers_settle_what_addresses_share(tmp_path):
    create_images(tmp_path, "1.jpg", "000.jpg", "001.jpg")
    named = ["https://a.org/x/1.jpg", "https://a.org/y/1.jpg"]
    assert relative_paths(tmp_path, *named) == ["images/000.jpg", "images/001.jpg"]


def test_one_address_in_two_rows_is_one_picture(tmp_path):
    create_images(tmp_path, "c.jpg")
    assert relative_paths(tmp_path, *["https://a.org/c.jpg"] * 2) == ["images/c.jpg"] * 2


@pytest.mark.parametrize(
    ("names", "image"),
    [
        pytest.param(("000.jpg", "000.png"), "https://a.org/c.jpg", id="numbered twice"),
        pytest.param(("14.jpg", "14.png"), "https://a.org/14", id="two endings"),
    ],
)
def test_two_pictures_for_one_row_are_broken_data(names, image, tmp_path):
    create_images(tmp_path, *names)
    with pytest.raises(DataBroken, match=f"{names[0]}, {names[1]}"):
        image_paths(tmp_path, {0: image})


def test_a_picture_that_is_not_there_has_the_path_where_it_belongs(tmp_path):
    create_images(tmp_path)
    named = [
        *("https://a.org/c.jpg", "https://a.org/?x=1", "https://a.org/7/?x=1"),
        *("b/1.jpg", "a.b/x/1.jpg", "a.b/y/1.jpg"),
    ]
    assert relative_paths(tmp_path, *named) == ["images/c.jpg", None, None, "b/1.jpg", None, None]


@pytest.mark.parametrize(
    "image",
    [
        "../x.jpg",
        "/etc/hostname",
        r"..\x.jpg",
        "C:\\x.jpg",
        "https://a.org/..",
        "https://a.org/%2e%2e",
        "https://a.org/..%2Fsecret.jpg",
    ],
)
def test_a_picture_never_lies_outside_the_folder(image, tmp_path):
    inner = tmp_path / "data"
    inner.mkdir()
    create_images(inner, "other.jpg")
    (inner / "secret.jpg").write_bytes(b"x")
    try:
        path = image_paths(inner, {0: image})[0]
    except DataBroken:
        return
    assert path.parent == inner / "images"
    assert not path.is_file()


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    (tmp_path / "secret").write_bytes(b"x")
    inner = tmp_path / "data"
    inner.mkdir()
    create_images(inner)
    (inner / "images" / "c.jpg").symlink_to(tmp_path / "secret")
    with pytest.raises(DataBroken, match=r"c\.jpg"):
        image_paths(inner, {0: "https://a.org/c.jpg"})


@given(st.lists(st.text(min_size=1), max_size=4))
def test_any_names_give_paths_or_broken_data(named):
    try:
        paths = image_paths(DATA, dict(enumerate(named)))
    except DataBroken:
        return
    assert all(path is None or path.is_relative_to(DATA) for path in paths.values())
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
        pytest.param(lambda r: r[2].pop("components"), "sample 2: `components`", id="nothing asked"),
        pytest.param(lambda r: r[2].update(type="hard"), "sample 2: `type`", id="other type"),
        pytest.param(lambda r: r.insert(2, []), "row 2 is list", id="no object"),
        pytest.param(lambda r: r.clear(), "not a list with rows", id="empty"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(edit, message, root):
    change(root, edit)
    with pytest.raises(DataBroken, match=message):
        load(root)


@pytest.fixture
def log():
    lines = []
    sink = logger.add(lambda line: lines.append(str(line)), format="{message}", level="WARNING")
    yield lines
    logger.remove(sink)


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        pytest.param({"image": "../secret.png"}, "row 9: The dataset names '../secret.png'", id="outside"),
        pytest.param({"components": None}, "sample 9: `components` is NoneType", id="components"),
        pytest.param({"type": ["basic"]}, "sample 9: `type` is ['basic']", id="type"),
    ],
)
def test_an_odd_row_is_left_out_and_counted_and_the_others_keep_their_ids(row, problem, log, root):
    (root.parent / "secret.png").write_bytes(b"x")
    change(root, lambda rows: rows.extend([rows[0], {**rows[0], **row}, *rows, *rows[:7]]))
    rows = load(root)
    assert [row["id"] for row in rows] == [str(i) for i in range(25) if i != 9]
    assert Path(rows[3]["image"]).name == "3.png"
    [line] = [line for line in log if "left out" in line]
    assert line.startswith("MIA-Bench: 1 of 25 rows cannot be used and are left out")
    assert problem in line
    assert ",left_out=1,rows=" in rows[0]["data"]
    with pytest.raises(DataBroken) as caught:
        dataset({"MIA_BENCH_DATA": str(root), "MMIE_TASKS_ODD_ROWS": "stop"})
    assert problem in str(caught.value)


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b'{"a": 1}', b"[" * 100_000])
def test_what_is_no_list_in_json_is_broken_data(content, root):
    (root / ANNOTATION).write_bytes(content)
    with pytest.raises(DataBroken, match=ANNOTATION):
        load(root)


@pytest.mark.parametrize("changed", [False, True])
def test_four_hundred_rows_of_other_words_are_said_to_be(changed, root, monkeypatch):
    change(root, lambda rows: rows.extend(rows[0] for _ in range(392)))
    words = words_digest([Sample.from_doc(row) for row in load(root)])
    monkeypatch.setattr(mia_bench, "OFFICIAL_WORDS", words)
    if changed:
        change(root, lambda rows: rows[7].update(instruction="Describe."))
    lines: list[str] = []
    sink = logger.add(lines.append, level="INFO")
    load(root)
    logger.remove(sink)
    assert any("differ from those" in line for line in lines) == changed
