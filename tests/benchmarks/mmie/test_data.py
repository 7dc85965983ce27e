"""MMIE from a local folder: what a row carries, what is drawn, and what can be wrong."""

import hashlib
import json

import pytest
from support.mmie_data import conversation, conversations_folder, in_file_order, segment

from mmie_tasks.benchmarks.mmie.data import dataset, missing_images
from mmie_tasks.core.errors import DataBroken, DataMissing, SettingWrong


def load(path, selection="all", **environment):
    """The rows in the order of the file; `test_selection` is about theirs."""
    return in_file_order(dataset(selection, {"MMIE_DATA": str(path), **environment}))


def test_a_row_carries_question_and_gold_with_absolute_paths(tmp_path):
    row = load(conversations_folder(tmp_path))[4]
    assert (row["id"], row["index"], row["category"]) == ("PBL-4", 4, "PBL")
    assert (row["field"], row["subfield"]) == ("Education", "Made up")
    assert row["question"] == [segment("Tale 4 begins.", f"{tmp_path}/images/12.png")]
    assert [one["image"] for one in row["gold"]] == [f"{tmp_path}/images/{i}.png" for i in (13, 14)]


def test_the_data_file_may_be_named_itself_and_lie_anywhere(tmp_path, monkeypatch):
    path = conversations_folder(tmp_path / "in")
    (path / "data.json").rename(path / "other.json")
    monkeypatch.chdir(tmp_path)
    assert load("in/other.json")[0]["question"][0]["image"] == f"{tmp_path}/in/images/0.png"


def test_the_revision_is_a_digest_of_the_data_file(tmp_path):
    path = conversations_folder(tmp_path)
    digest = hashlib.sha256((path / "data.json").read_bytes()).hexdigest()
    assert set(load(path)["data"]) == {f"sha256:{digest[:12]}"}


def test_a_byte_order_mark_does_not_matter(tmp_path):
    text = "\ufeff" + json.dumps([conversation("SA-1", "Where is Zoë?")], ensure_ascii=False)
    (tmp_path / "data.json").write_bytes(text.encode())
    assert load(tmp_path)[0]["question"][0]["text"] == "Where is Zoë?"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(b"", "not JSON (line 1, column 1)", id="empty"),
        pytest.param(b"<html>", "not JSON (line 1, column 1)", id="a web page"),
        pytest.param(b'["\xe9"]', "not JSON (byte 2 is not UTF-8)", id="Latin-1"),
        pytest.param(b"[" * 100_000, "not JSON (nested too deeply)", id="nested without end"),
        pytest.param(b'{"SA-1": {}}', "not a list with rows", id="by id"),
    ],
)
def test_a_data_file_that_is_none_is_broken_data(content, expected, tmp_path):
    (tmp_path / "data.json").write_bytes(content)
    with pytest.raises(DataBroken) as caught:
        load(tmp_path)
    assert str(caught.value).startswith(f"`{tmp_path}/data.json`: {expected}")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param([], "contains no `data.json`; it contains: nothing", id="empty"),
        pytest.param(
            ["a.json", "b"], "contains no `data.json`; it contains: a.json, b", id="others"
        ),
    ],
)
def test_a_folder_without_the_data_file_says_what_is_there(files, expected, tmp_path):
    for name in files:
        (tmp_path / name).write_text("[]", encoding="utf-8")
    with pytest.raises(DataMissing) as caught:
        load(tmp_path)
    assert expected in str(caught.value)
    assert "MMIE_DATA" in str(caught.value)


def test_the_example_of_the_repository_is_never_read(tmp_path):
    path = conversations_folder(tmp_path)
    (path / "overview.json").write_text("[", encoding="utf-8")
    assert len(load(path)) == 6
    (path / "data.json").rename(path / "overview.json")
    with pytest.raises(DataMissing, match=r"overview\.json"):
        load(path / "overview.json")


def test_no_folder_at_all_is_said(tmp_path):
    with pytest.raises(DataMissing, match=f"{tmp_path}/no"):
        load(tmp_path / "no")


def test_an_unknown_selection_is_refused_before_anything_is_read(tmp_path):
    with pytest.raises(SettingWrong, match=r"no selection `SA`.\s+hint: one of all, sa, pbl"):
        load(tmp_path / "no", "SA")


def test_missing_images_are_those_of_questions_each_with_a_sample(tmp_path):
    path = conversations_folder(tmp_path)
    docs = load(path)
    assert missing_images(docs) == {}
    for name in ("0.png", "1.png", "6.png"):  # the second is in a gold answer
        (path / "images" / name).unlink()
    (path / "images" / "6.png").mkdir()
    assert missing_images(docs) == {f"{path}/images/0.png": "SA-0", f"{path}/images/6.png": "MSR-2"}
    assert missing_images(docs.select([1, 2])) == {f"{path}/images/6.png": "MSR-2"}
