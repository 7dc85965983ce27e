"""MIA-Bench from a local folder: rows, which image is whose, and what can be wrong."""

import json
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hub_files import MIA_BENCH_EXAMPLE as DATA
from support.hub_files import PARQUET, mia_bench_rows, parquet

from mmie_tasks.benchmarks.mia_bench import data
from mmie_tasks.benchmarks.mia_bench import sample as samples
from mmie_tasks.benchmarks.mia_bench.data import NumberedImages, dataset
from mmie_tasks.benchmarks.mia_bench.sample import TYPES, MiaSample, fingerprint
from mmie_tasks.core.errors import BadSample, DataBroken
from mmie_tasks.hub.dataset import HubFolder

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


def row(**changes):
    return {
        "id": "7",
        "instruction": "Name the tools in two words. ",
        "type": "basic",
        "components": ["Name the tools ", "in two words"],
        "component_weight": [6, 4],
        "component_type": ["describe", "length_limit"],
        **changes,
    }


def test_a_sample_has_the_texts_as_released(monkeypatch):
    sample = MiaSample.from_doc(row())
    assert (sample.id, sample.weights) == ("7", (6, 4))
    assert sample.instruction.endswith(" ")  # the official prompt holds the blanks
    assert sample.components == ("Name the tools ", "in two words")
    assert not sample.contradictory
    marked = frozenset([fingerprint(sample.instruction, sample.components)])
    monkeypatch.setattr(samples, "_CONTRADICTORY", marked)
    assert MiaSample.from_doc(row(id="900")).contradictory


@given(st.dictionaries(st.sampled_from([*row()]), st.none() | st.text() | st.lists(st.integers())))
def test_any_row_is_a_sample_or_says_what_is_wrong(changes):
    with suppress(BadSample):
        assert len(MiaSample.from_doc(row(**changes)).components) <= 5


def test_a_fingerprint_knows_a_tidied_copy_and_nothing_else():
    original = fingerprint("Name  it ", ["Name ", "it"])
    assert original == fingerprint(" Name it", ["Name", " it"])
    assert original != fingerprint("Name it", ["Name it"])
    assert original != fingerprint("Name it", ["it", "Name"])


def test_a_row_has_what_is_asked_and_judged():
    rows = load(DATA)
    assert rows[3]["id"] == "3"
    assert rows[3]["url"] == "images/3.png"
    assert Path(rows[4]["image"]) == DATA / "images" / "4.webp"
    assert sum(rows[6]["component_weight"]) == 8
    assert rows[0]["data"].startswith("sha256:")
    categories = ("math", "math", "mention", "grammar", "length_limit")
    assert MiaSample.from_doc(rows[3]).categories == categories


def test_at_every_limit_the_types_have_their_shares_and_the_order_is_random(root):
    def sort_by_type(rows):
        rows[:] = [{**rows[0], "type": type_} for type_ in TYPES for _ in range(20)]

    change(root, sort_by_type)
    docs = dataset({"MIA_BENCH_DATA": str(root)})
    for limit in range(len(TYPES), len(docs), len(TYPES)):
        counts = Counter(docs[:limit]["type"])
        assert counts == dict.fromkeys(TYPES, limit // len(TYPES))
    assert docs[:5]["id"] == ["53", "3", "92", "72", "38"]


@pytest.mark.parametrize(
    ("image", "files", "path"),
    [
        pytest.param("https://a.org/c.jpg?x=1", ["000.webp"], "images/000.webp", id="address"),
        pytest.param("a.org/b/c.jpg", ["000.jpg", "c.jpg"], "images/000.jpg", id="no scheme"),
        pytest.param("https://a.org/c.jpg", ["c.jpg"], "images/000.jpg", id="no number: missing"),
        pytest.param("images/c.jpg", ["c.jpg", "000.jpg"], "images/c.jpg", id="file name"),
        pytest.param("b/1.jpg", ["000.jpg"], "b/1.jpg", id="missing file"),
    ],
)
def test_the_image_of_an_address_has_its_rows_number(image, files, path, tmp_path):
    (tmp_path / "images").mkdir()
    for name in files:
        (tmp_path / "images" / name).touch()
    assert NumberedImages(tmp_path).path(0, image) == tmp_path / path


@given(st.text(min_size=1))
def test_any_name_gives_a_path_in_the_folder_or_broken_data(name):
    with suppress(DataBroken):
        assert NumberedImages(DATA).path(0, name).is_relative_to(DATA)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ([], "row 2: not an object"),
        ({"image": None}, "row 2: `image`"),
        ({"image": "../a"}, r"row 2: .*'\.\./a'"),
        ({"image": "a\0b"}, "row 2: .*image|a.x00b"),
        ({"instruction": " "}, "id '2': `instruction`"),
        ({"instruction": "\ud800"}, "id '2': `instruction`"),
        ({"type": []}, "id '2': `type`"),
        ({"type": "hard"}, "id '2': `type`"),
        ({"components": ["a"] * 6}, "id '2': `components`"),
        ({"component_weight": [6]}, "id '2': .*`component_weight`"),
        ({"component_weight": [6, 0]}, r"id '2': `component_weight\[1\]`"),
        ({"component_weight": [True, 4]}, r"id '2': `component_weight\[0\]`"),
        ({"component_type": ["describe"]}, "id '2': .*`component_type`"),
        ({"component_type": ["OCR", "math"]}, r"id '2': `component_type\[0\]`"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(fields, problem, root):
    broken = row(**{"image": "a.png", **fields}) if isinstance(fields, dict) else fields
    change(root, lambda rows: rows.__setitem__(2, broken))
    with pytest.raises(DataBroken, match=problem):
        load(root)


@pytest.fixture
def snapshot(tmp_path):
    """A download of the Hub's files."""
    (tmp_path / "data").mkdir()
    (tmp_path / PARQUET).write_bytes(parquet(mia_bench_rows()))
    (tmp_path / "data" / "train-00000-of-00001.parquet").write_bytes(b"another table")
    (tmp_path / "new").mkdir()
    return tmp_path


def test_the_hubs_table_becomes_a_folder_with_the_bytes_of_its_images(snapshot, monkeypatch):
    hub = HubFolder(folder=snapshot / "new", source="apple/ml-mia-bench@abc")
    data.DATASET.fill(snapshot, hub.folder)
    monkeypatch.setattr(data, "DATASET", SimpleNamespace(fetch=lambda: hub))
    rows = sorted(dataset({}), key=lambda row: int(row["id"]))
    for row, original in zip(rows, mia_bench_rows(), strict=True):
        assert row["instruction"] == original["instruction"]
        assert Path(row["image"]).read_bytes() == original["image"]["bytes"]
        assert row["data"] == hub.source
    names = [Path(row["image"]).name for row in rows]
    assert names[3:7] == ["003.png", "004.webp", "005.png", "006.jpg"]


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        pytest.param(lambda _: b"PAR1 but no more", r"Row 0 of `.*\.parquet`", id="no-parquet"),
        pytest.param(
            lambda rows: rows[2].update(image=None), r"Row 2 of `.*it lacks 'image'", id="no-image"
        ),
    ],
)
def test_a_table_that_cannot_be_read_is_named_with_its_row(edit, problem, snapshot):
    rows = mia_bench_rows()
    (snapshot / PARQUET).write_bytes(edit(rows) or parquet(rows))
    with pytest.raises(DataBroken, match=problem):
        data.DATASET.fill(snapshot, snapshot / "new")
