"""Samples, folders, rows that cannot be used, missing pictures."""

import hashlib
from pathlib import Path

import pytest
from support.opening_data import EXAMPLE, draw, row, write_data

from mmie_tasks.benchmarks.opening import data, official_files
from mmie_tasks.benchmarks.opening.data import dataset
from mmie_tasks.benchmarks.opening.sample import OpeningSample
from mmie_tasks.core.errors import BadSample, DataBroken
from mmie_tasks.hub.pinned_file import Pin
from mmie_tasks.record.segment import Segment

STEP = {"text": "a", "image": ""}
PICTURE = [{"text": "<BEGIN> <image>", "image": "./images/Task/1-i-1.jpg"}]


def test_a_row_has_its_topic_in_its_id():
    sample = OpeningSample.from_row(
        row("1201003", [STEP], [{"text": "b", "image": "c.jpg"}]), "row 1"
    )
    assert (sample.id, sample.topic, sample.subtask) == (
        *("1201003", "image_based_3d_reasoning"),
        "Task",
    )
    assert sample.question == (Segment("a"),)
    assert sample.gold == (Segment("b", "c.jpg"),)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param(row(total_uid=101001), "`total_uid`", id="a number as id"),
        pytest.param(row("2401001"), "'2401001'", id="an unknown topic"),
        pytest.param(row(question=[]), r"`conversations\[0\].input`", id="no question"),
        pytest.param(
            row(question=[STEP, {"text": None, "image": None}]),
            r"`conversations\[0\].input\[1\].text`",
            id="text null",
        ),
        pytest.param(row(gold=[{"text": "a", "image": 3}]), r"output\[0\].image`", id="image"),
    ],
)
def test_an_odd_row_is_named_with_its_field(fields, words):
    with pytest.raises(BadSample, match=f"row 7.*{words}|{words}"):
        OpeningSample.from_row(fields, "row 7")


def test_the_example_is_read_with_absolute_pictures():
    docs = dataset({"OPENING_DATA": str(EXAMPLE / "data")})
    assert len(docs) == 7
    assert sorted(docs["row"]) == list(range(7))
    content = (EXAMPLE / "data" / "test_data.jsonl").read_bytes()
    assert set(docs["data"]) == {f"sha256:{hashlib.sha256(content).hexdigest()[:12]}"}
    (doc,) = docs.filter(lambda doc: doc["id"] == "2001006")
    assert doc["question"][1]["image"] == str(EXAMPLE / "data/images/Recipe Generation/6-i-1.jpg")


@pytest.mark.parametrize(
    ("below", "images"),
    [
        ("", ""),
        ("OpenING-benchmark", "OpenING-benchmark"),
        ("OpenING-Benchmark", "OpenING-Benchmark"),
        ("OpenING", "OpenING"),
        ("OpenING-benchmark", "OpenING-benchmark/OpenING"),
    ],
)
def test_data_and_pictures_are_found_where_people_unpack_them(tmp_path, below, images):
    write_data(tmp_path / below, row(question=PICTURE))
    path = draw(tmp_path / images / "images/Task/1-i-1.jpg")
    (doc,) = dataset({"OPENING_DATA": str(tmp_path)})
    assert Path(doc["question"][0]["image"]) == path


def test_pictures_alone_are_joined_by_the_official_questions(tmp_path, monkeypatch):
    source = write_data(tmp_path / "cache", row(question=PICTURE)) / "test_data.jsonl"
    content = source.read_bytes()
    pin = Pin(
        name="questions",
        url="http://127.0.0.1:9",
        size_bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        local="",
    )
    pins = {"OpenING-benchmark/test_data.jsonl": pin}
    monkeypatch.setattr(official_files, "PINS", pins)
    monkeypatch.setattr(data, "PINS", pins)
    cached = tmp_path / "ours" / "opening" / "56b663b" / "test_data.jsonl"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(content)
    path = draw(tmp_path / "images/Task/1-i-1.jpg")
    environment = {"MMIE_TASKS_CACHE": str(tmp_path / "ours"), "HF_HUB_OFFLINE": "1"}
    (doc,) = dataset({**environment, "OPENING_DATA": str(tmp_path)})
    assert Path(doc["question"][0]["image"]) == path
    assert doc["data"] == "LanceZPF/OpenING@56b663b"
    (doc,) = dataset(environment)
    assert doc["question"][0]["image"] == str(cached.parent / "images/Task/1-i-1.jpg")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        pytest.param([row(), row()], "row 1: the id '0101001' is that of row 0", id="repeated"),
        pytest.param([row(), "{"], "row 1: not JSON", id="no JSON"),
        pytest.param([row(), "{}"], "row 1", id="another form"),
        pytest.param(
            [row(question=[{"text": "", "image": "../../a.jpg"}])], "row 0: .*a.jpg", id="outside"
        ),
        pytest.param(["", " "], "no list of rows", id="no rows"),
    ],
)
def test_a_data_file_that_cannot_be_used_is_an_error_that_names_the_row(tmp_path, lines, words):
    with pytest.raises(DataBroken, match=rf"test_data\.jsonl.*{words}"):
        dataset({"OPENING_DATA": str(write_data(tmp_path, *lines))})


def test_samples_have_a_random_order_that_does_not_depend_on_the_file(tmp_path):
    rows = [row(f"01010{i:02}", subtask_name=f"Task {i // 5}") for i in range(10)]
    for lines in (rows, rows[::-1]):
        docs = dataset({"OPENING_DATA": str(write_data(tmp_path, *lines))})
        assert [int(uid[-2:]) for uid in docs["id"]] == [4, 9, 0, 6, 2, 8, 3, 7, 1, 5]
