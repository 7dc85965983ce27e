"""MMIE's data: rows, images, the samples that a task takes, and what can be wrong."""

import hashlib
import json
import os
import re
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hostile import JSON_VALUES
from support.mmie_data import conversation, conversations_folder, folder, in_file_order, segment

from mmie_tasks.benchmarks.mmie import data
from mmie_tasks.benchmarks.mmie.data import ImageFolder, dataset, ids_of_1k, missing_images
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, MmieSample
from mmie_tasks.core.errors import BadSample, DataBroken, DataMissing, SettingWrong
from mmie_tasks.record.segment import Segment

ORDER = ["PBL-1", "SA-1", "PBL-3", "PBL-4", "SA-0", "PBL-2", "MSR-0", "PBL-0", "SA-2"]


def load(path, selection="all"):
    return dataset(selection, {"MMIE_DATA": str(path)})


def load_rows(path, rows, selection="all"):
    return load(folder(path, rows, pictures=False), selection)


def read(row):
    return MmieSample.from_row(row, "row 0")


# Rows


def test_a_sample_has_the_turns_of_each_role_in_order():
    question = [segment("Look:", "images/0.png"), {"image": "images/1.png", "more": 1}]
    row = conversation("PBL-7", question, [segment("", ""), {}], field=["Art"])
    row["conversations"].append({"from": "human", "content": "And?"})
    sample = read(row)
    assert (sample.id, sample.category) == ("PBL-7", "PBL")
    assert sample.field == ""
    parts = [Segment("Look:", "images/0.png"), Segment(None, "images/1.png"), Segment("And?")]
    assert list(sample.question) == parts
    assert sample.gold == (Segment(""), Segment())
    assert read(conversation("MSR-1", "Why?", [{"text": 21.6}])).gold == (Segment("21.6"),)


@given(
    st.fixed_dictionaries({"id": st.just("SA-1")}, optional={"conversations": JSON_VALUES})
    | st.dictionaries(st.sampled_from(["id", "conversations", "field"]), JSON_VALUES)
    | JSON_VALUES
)
def test_any_json_is_read_or_refused(row):
    with suppress(BadSample):
        assert read(row).category in CATEGORIES


# The data file


def test_a_row_has_question_and_gold_with_absolute_paths(tmp_path, monkeypatch):
    path = conversations_folder(tmp_path) / "data.json"
    content = f"\ufeff{path.read_text()}".replace("Tale", "Märchen")  # with a byte order mark
    (tmp_path / "other.json").write_text(content, encoding="utf-8")
    path.unlink()
    monkeypatch.chdir(tmp_path.parent)
    row = in_file_order(load(f"{tmp_path.name}/other.json"))[4]
    assert (row["id"], row["index"], row["category"]) == ("PBL-4", 4, "PBL")
    assert row["field"] == "Education"
    assert row["question"] == [segment("Märchen 4 begins.", f"{tmp_path}/images/12.png")]
    assert [one["image"] for one in row["gold"]] == [f"{tmp_path}/images/{i}.png" for i in (13, 14)]
    assert row["data"] == f"sha256:{hashlib.sha256(content.encode()).hexdigest()[:12]}"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"<html>", "not JSON (line 1, column 1)"),
        (b'["\xe9"]', "not JSON (byte 2 is not UTF-8)"),
        (b"[" * 100_000, "not JSON (nested too deeply)"),
        ({"SA-1": {}}, "no list of rows"),
        (["SA-1"], "row 0: not an object"),
        ([conversation("sa-1")], "row 0, id 'sa-1': `id` contains none"),
        ([conversation("")], "row 0, id '': `id`"),
        ([conversation(7)], "row 0, id 7: `id`"),
        ([{"id": "SA-1"}], "row 0, id 'SA-1': `conversations`"),
        ([conversation("SA-1", "?", [segment("a"), {"text": [7]}])], "[1].content[1].text`"),
        ([conversation("SA-1", "a\ud800")], "content[0].text`"),
        ([conversation("SA-1", [{"image": 7}])], "content[0].image`"),
        ([conversation("SA-1", [segment("", "../a.png")])], "its question names '../a.png', not a"),
        ([conversation("SA-1")] * 2, "row 1: the id 'SA-1' is that of row 0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unusable_data_file_is_named_with_row_and_field(content, problem, tmp_path):
    is_raw = isinstance(content, bytes)
    (tmp_path / "data.json").write_bytes(content if is_raw else json.dumps(content).encode())
    with pytest.raises(DataBroken, match=f"^`{tmp_path}/data.json`: .*{re.escape(problem)}"):
        load(tmp_path)


def test_a_gold_image_outside_the_folder_is_left_out(tmp_path):
    (doc,) = load_rows(tmp_path, [conversation("SA-1", "Why?", [segment("So.", "../a.png")])])
    assert doc["gold"] == [segment("So.")]


def test_a_folder_without_the_data_file_says_what_it_contains(tmp_path):
    with pytest.raises(DataMissing, match=f"{tmp_path}/no"):
        load(tmp_path / "no")
    (tmp_path / "overview.json").write_text("[]", encoding="utf-8")
    for path in (tmp_path, tmp_path / "overview.json"):  # the example is never read
        with pytest.raises(DataMissing, match=r"contains no `data.json`.*: overview.json"):
            load(path)


# Images


@pytest.mark.parametrize(
    ("files", "reference", "file"),
    [
        pytest.param(["images/0.png"], "images/0.png", "images/0.png", id="as it is"),
        pytest.param(["images/a/0.png"], "a/0.png", "images/a/0.png", id="below images"),
        pytest.param(["images/0.png"], r".\a\..\images//0.png", "images/0.png", id="spelling"),
        pytest.param(["a/0.png", "images/a/0.png"], "a/0.png", "a/0.png", id="the first"),
        pytest.param(["images/images_2/0.png"], "images/0.png", "images/images_2/0.png", id="in"),
        pytest.param(["images/a/b/0.png"], "0.png", "images/a/b/0.png", id="innermost"),
        pytest.param(["images/a/0.png", "images/b/0.png"], "0.png", "0.png", id="either of two"),
        pytest.param(["images/c/0.png"], "a/0.png", "a/0.png", id="never by the name alone"),
        pytest.param(["images/0.png/x"], "./images/0.png", "images/0.png", id="no file"),
    ],
)
@pytest.mark.parametrize("hub", [False, True])
def test_the_file_of_a_reference(files, reference, file, hub, tmp_path):
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert ImageFolder.of(tmp_path, hub=hub).path(reference) == f"{tmp_path}/{file}"


@pytest.mark.parametrize("hub", [False, True])
def test_a_reference_never_leaves_the_folder(hub, tmp_path):
    (tmp_path / "0.png").touch()
    (tmp_path / "data").mkdir()
    images = ImageFolder.of(tmp_path / "data", hub=hub)
    for reference in ("..", "../0.png", "a/../../0.png", r"..\0.png", "a\0.png"):
        assert images.path(reference) is None
    assert images.path("/etc/0.png") == (None if hub else "/etc/0.png")  # as officially


@given(st.text(alphabet="ab./\\\0:é"))
def test_any_reference_stays_inside_or_is_refused(reference):
    path = ImageFolder.of(Path("/nowhere/at/all"), hub=True).path(reference)
    assert path is None or os.path.normpath(path).startswith("/nowhere/at/all/")


def test_missing_images_are_those_of_questions_each_with_a_sample(tmp_path):
    path = conversations_folder(tmp_path)
    docs = in_file_order(load(path))
    assert missing_images(docs) == {}
    for name in ("0.png", "1.png", "6.png"):  # the second is in a gold answer
        (path / "images" / name).unlink()
    (path / "images" / "6.png").mkdir()
    assert missing_images(docs) == {f"{path}/images/0.png": "SA-0", f"{path}/images/6.png": "MSR-2"}


# The samples of a task


def ids(**counts):
    return {name: [f"{name}-{i}" for i in range(count)] for name, count in counts.items()}


@pytest.mark.parametrize("category", CATEGORIES)
def test_a_category_is_its_rows_with_an_index_of_their_own(category, tmp_path):
    rows = load(conversations_folder(tmp_path, n=7), category.lower())
    expected = [f"{category}-{i}" for i in range(7) if CATEGORIES[i % 3] == category]
    assert list(in_file_order(rows)["id"]) == expected
    assert list(rows["row"]) == list(range(len(expected)))


@pytest.mark.parametrize("selection", ["all", "1k"])
def test_the_order_is_the_same_whatever_that_of_the_file(selection, tmp_path):
    rows = [conversation(one) for some in ids(PBL=5, MSR=1, SA=3).values() for one in some]
    for order in (rows, rows[::-1]):
        docs = load_rows(tmp_path, order, selection)
        assert list(docs["id"]) == [order[index]["id"] for index in docs["index"]] == ORDER


def test_a_selection_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(SettingWrong, match=r"no selection `SA`.\s+hint: one of all, sa, pbl"):
        load(tmp_path / "no", "SA")
    with pytest.raises(DataMissing, match="has no row of the category MSR"):
        load(conversations_folder(tmp_path, n=2), "msr")


@pytest.mark.parametrize("level", ["INFO", "WARNING"])
def test_other_counts_than_the_published_are_logged(level, logs, monkeypatch, tmp_path):
    path = conversations_folder(tmp_path, n=5)
    environment = {"MMIE_DATA": str(path)} if level == "INFO" else {}
    fetched = SimpleNamespace(folder=path, source="MMIE/MMIE@abc")
    monkeypatch.setattr(data, "DATASET", SimpleNamespace(fetch=lambda: fetched))
    docs = dataset("all", environment)
    assert set(docs["data"]) == {"MMIE/MMIE@abc"} or level == "INFO"
    [line] = logs
    assert line.record["level"].name == level
    assert line.startswith("MMIE: 5 samples (2 SA + 2 PBL + 1 MSR); published are 20,103 (5,0")


@pytest.mark.parametrize(
    ("counts", "drawn"),
    [
        pytest.param((5005, 11482, 3616), (249, 571, 180), id="published"),
        pytest.param((2000, 2000, 2000), (334, 333, 333), id="a tie goes to the first"),
        pytest.param((3, 2, 1), (3, 2, 1), id="fewer"),
    ],
)
def test_the_small_sample_has_the_shares_of_the_whole(counts, drawn):
    named = ids(**dict(zip(CATEGORIES, counts, strict=True)))
    drawn_counts = Counter(one.partition("-")[0] for one in ids_of_1k(named))
    assert tuple(drawn_counts[name] for name in CATEGORIES) == drawn


def test_the_small_sample_has_the_smallest_hashes(tmp_path):
    def lot(name):
        return hashlib.sha256(f"mmie_1k:{name}".encode()).hexdigest()

    (names,) = ids(SA=1500).values()
    docs = in_file_order(load_rows(tmp_path, [conversation(name) for name in names], "1k"))
    assert list(docs["id"]) == sorted(sorted(names, key=lot)[:1000], key=names.index)
