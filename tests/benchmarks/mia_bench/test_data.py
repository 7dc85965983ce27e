"""MIA-Bench from a local folder: rows, which image is whose, and what can be wrong."""

import json
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hub_files import MIA_BENCH_EXAMPLE as DATA

from mmie_tasks.benchmarks.mia_bench import sample as samples
from mmie_tasks.benchmarks.mia_bench.data import NumberedImages, dataset
from mmie_tasks.benchmarks.mia_bench.sample import TYPES, MiaSample, fingerprint
from mmie_tasks.core.errors import BadSample, DataBroken

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


@pytest.mark.parametrize(
    ("broken", "names"),
    [
        pytest.param({"instruction": " "}, "`instruction`", id="empty"),
        pytest.param({"instruction": "\ud800"}, "`instruction`", id="surrogate"),
        pytest.param({"type": "hard"}, "`type`", id="type"),
        pytest.param({"components": ["a"] * 6}, "`components`", id="six"),
        pytest.param({"component_weight": [6]}, "`component_weight`", id="few"),
        pytest.param({"component_weight": [6, 0]}, r"`component_weight\[1\]`", id="zero"),
        pytest.param({"component_weight": [True, 4]}, r"`component_weight\[0\]`", id="truth"),
        pytest.param({"component_type": ["describe"]}, "`component_type`", id="types"),
        pytest.param({"component_type": ["OCR", "math"]}, r"`component_type\[0\]`", id="category"),
    ],
)
def test_a_broken_row_is_named(broken, names):
    with pytest.raises(BadSample, match=f"MIA-Bench.*{names}"):
        MiaSample.from_doc(row(**broken))


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
def test_the_image_of_an_address_is_numbered_and_any_other_is_the_named_file(
    image, files, path, tmp_path
):
    (tmp_path / "images").mkdir()
    for name in files:
        (tmp_path / "images" / name).touch()
    assert NumberedImages(tmp_path).path(0, image) == tmp_path / path


@given(st.text(min_size=1))
def test_any_name_gives_a_path_in_the_folder_or_broken_data(name):
    try:
        path = NumberedImages(DATA).path(0, name)
    except DataBroken:
        return
    assert path.is_relative_to(DATA)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        pytest.param(lambda r: r[2].pop("image"), "row 2: `image`", id="no picture"),
        pytest.param(lambda r: r[2].update(image="../a"), r"row 2: .*'\.\./a'", id="outside"),
        pytest.param(lambda r: r[2].update(image="a\0b"), "row 2: .*image|a.x00b", id="NUL"),
        pytest.param(lambda r: r[2].update(type=[]), "id '2': `type`", id="field"),
        pytest.param(lambda r: r.insert(2, []), "row 2: not an object", id="no object"),
        pytest.param(lambda r: r.clear(), "no list of rows", id="empty"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(edit, message, root):
    change(root, edit)
    with pytest.raises(DataBroken, match=message):
        load(root)
