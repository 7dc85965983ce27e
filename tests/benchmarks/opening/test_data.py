"""Samples, folders, rows that cannot be used, missing pictures."""

import hashlib
from pathlib import Path

import pytest
from support.opening_data import EXAMPLE, draw, pin, row, write_data

from mmie_tasks.benchmarks.opening import data, official_files
from mmie_tasks.benchmarks.opening.data import dataset
from mmie_tasks.benchmarks.opening.sample import OpeningSample
from mmie_tasks.core.errors import DataBroken
from mmie_tasks.record.segment import Segment

FILE = "test_data.jsonl"
STEP = {"text": "a", "image": ""}
PICTURE = [{"text": "<BEGIN> <image>", "image": "./images/Task/1-i-1.jpg"}]


def test_a_row_has_its_topic_in_its_id():
    fields = row("1201003", [STEP], [{"text": "b", "image": "c.jpg"}])
    sample = OpeningSample.from_row(fields, "row 1")
    assert (sample.id, sample.subtask) == ("1201003", "Task")
    assert sample.topic == "image_based_3d_reasoning"
    assert sample.question == (Segment("a"),)
    assert sample.gold == (Segment("b", "c.jpg"),)


def test_the_example_is_read_with_absolute_pictures():
    docs = dataset({"OPENING_DATA": str(EXAMPLE / "data")})
    assert len(docs) == 7
    assert sorted(docs["row"]) == list(range(7))
    content = (EXAMPLE / "data" / "test_data.jsonl").read_bytes()
    assert set(docs["data"]) == {f"sha256:{hashlib.sha256(content).hexdigest()[:12]}"}
    (doc,) = docs.filter(lambda doc: doc["id"] == "2001006")
    assert doc["question"][1]["image"] == str(EXAMPLE / "data/images/Recipe Generation/6-i-1.jpg")


BENCH = "OpenING-benchmark"


@pytest.mark.parametrize(
    ("below", "images"),
    [
        *((name, name) for name in ("", BENCH, "OpenING-Benchmark", "OpenING")),
        (BENCH, f"{BENCH}/OpenING"),
    ],
)
def test_data_and_pictures_are_found_where_people_unpack_them(tmp_path, below, images):
    write_data(tmp_path / below, row(question=PICTURE))
    path = draw(tmp_path / images / "images/Task/1-i-1.jpg")
    (doc,) = dataset({"OPENING_DATA": str(tmp_path)})
    assert Path(doc["question"][0]["image"]) == path


def test_pictures_alone_are_joined_by_the_official_questions(tmp_path, monkeypatch):
    cached = write_data(tmp_path / "ours/opening/56b663b", row(question=PICTURE)) / FILE
    pins = {f"{BENCH}/{FILE}": pin(FILE, cached.read_text(encoding="utf-8"))}
    monkeypatch.setattr(official_files, "PINS", pins)
    monkeypatch.setattr(data, "PINS", pins)
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
        ([row(), row()], "row 1: the id '0101001' is that of row 0"),
        ([row(), "{"], "row 1: not JSON"),
        ([row(), "{}"], "row 1"),
        (["", " "], "no list of rows"),
        ([row(total_uid=101001)], "row 0.*`total_uid`"),
        ([row("2401001")], "row 0.*'2401001'"),
        ([row(question=[])], r"row 0.*`conversations\[0\].input`"),
        ([row(question=[STEP, {**STEP, "text": None}])], r"row 0.*\[0\].input\[1\].text`"),
        ([row(gold=[{"text": "a", "image": 3}])], r"row 0.*output\[0\].image`"),
        ([row(question=[{"text": "", "image": "../../a.jpg"}])], "row 0: .*a.jpg"),
    ],
)
def test_a_data_file_that_cannot_be_used_is_named_with_row_and_field(tmp_path, lines, words):
    with pytest.raises(DataBroken, match=rf"test_data\.jsonl.*{words}"):
        dataset({"OPENING_DATA": str(write_data(tmp_path, *lines))})


def test_samples_have_a_random_order_that_does_not_depend_on_the_file(tmp_path):
    rows = [row(f"01010{i:02}", subtask_name=f"Task {i // 5}") for i in range(10)]
    for lines in (rows, rows[::-1]):
        docs = dataset({"OPENING_DATA": str(write_data(tmp_path, *lines))})
        assert [int(uid[-2:]) for uid in docs["id"]] == [4, 9, 0, 6, 2, 8, 3, 7, 1, 5]
