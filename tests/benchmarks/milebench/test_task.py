"""The functions the YAMLs name, without the runner."""

import math
import shutil
from pathlib import Path

import pytest
from PIL import Image
from support.example import DATA, copy_of
from support.logged_records import signature_of

from mmie_tasks.answers.failures import MISSING
from mmie_tasks.benchmarks.milebench import benchmark, data
from mmie_tasks.benchmarks.milebench.data import dataset
from mmie_tasks.benchmarks.milebench.sample import DATASETS
from mmie_tasks.core.errors import DataMissing
from mmie_tasks.core.verdict import Scored
from mmie_tasks.hub.run_images import ImageOpener
from mmie_tasks.record.record import Record
from mmie_tasks.record.rows import coverage
from mmie_tasks.record.segment import Segment


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MILEBENCH_DATA", str(DATA))
    monkeypatch.setattr(benchmark.BENCHMARK, "opener", ImageOpener())


def docs(selection="DocVQA", root=DATA):
    return dataset(selection, {"MILEBENCH_DATA": str(root)})


def test_a_chat_model_gets_images_at_their_placeholders_and_no_file_name():
    doc = docs()[0]
    (turn,) = benchmark.doc_to_messages(doc)
    images = [part for part in turn["content"] if part["type"] == "image"]
    text = "".join(part.get("text", "") for part in turn["content"])
    assert turn["content"][0] == {"type": "text", "text": doc["instruction"] + "\n"}
    assert [part["type"] for part in turn["content"]].index("image") == 1
    assert len(images) == len(doc["images"])
    assert all(isinstance(part["url"], Image.Image) for part in images)
    assert ".png" not in text
    assert "DocVQA" not in text


def test_a_wrapper_gets_placeholders_or_labels():
    doc = docs()[0]
    n = len(doc["images"])
    assert benchmark.doc_to_text(doc).count("<image>") == n == len(benchmark.doc_to_visual(doc))
    labelled = benchmark.doc_to_text(doc, {"image_token": "[image {n}]"})
    assert "[image 1][image 2]" in labelled
    assert "<image>" not in labelled


def test_a_combined_task_shows_the_published_image_and_needs_no_other(tmp_path):
    root = copy_of("DocVQA", tmp_path)
    shutil.rmtree(root / "DocVQA" / "images")
    doc = docs("DocVQA@combined1", root)[0]
    (image,) = benchmark.doc_to_visual(doc)
    assert image.width == 800 * math.ceil(math.sqrt(len(doc["images"])))
    assert benchmark.doc_to_text(doc).startswith("<image>\n")
    assert "<Image 1> <Image 2> " in benchmark.doc_to_text(doc)
    data.check_data([doc])
    record = benchmark.process_results(doc, [doc["gold"]])["record"]
    images = [part["image"] for part in record["question"] if "image" in part]
    assert (images, record["groups"]["level"]) == (doc["combined"], ("medium",))
    Path(doc["combined"][0]).unlink()
    with pytest.raises(DataMissing, match=f"1 of the 1 images .*{Path(doc['combined'][0]).name}"):
        data.check_data([doc])


def test_missing_images_are_counted_before_anything_is_generated(tmp_path):
    root = copy_of("DocVQA", tmp_path)
    data.check_data(docs(root=root))
    (root / "DocVQA" / "images" / "3.png").unlink()
    with pytest.raises(DataMissing, match=r"1 of the \d images .* sample DocVQA/.*3\.png"):
        data.check_data(docs(root=root))


def test_an_image_that_breaks_later_makes_only_its_sample_unscored(tmp_path):
    root = copy_of("DocVQA", tmp_path)
    doc = docs(root=root)[1]
    whole = Path(doc["images"][0])
    whole.write_bytes(whole.read_bytes()[:60])
    data.check_data(docs(root=root))
    assert len(benchmark.doc_to_visual(doc)) == len(doc["images"])
    rows = benchmark.process_results(doc, [doc["gold"]])
    assert rows["official"]["unscored"] == "bad_image"
    assert whole.name in rows["record"]["verdicts"]["official"]["detail"]


def test_missing_data_stops_the_runner_with_a_message(monkeypatch):
    monkeypatch.setenv("MILEBENCH_DATA", "/nowhere")
    stub = docs()
    stub.info.config_name = "DocVQA"
    with pytest.raises(SystemExit, match="no such folder"):
        benchmark.process_docs(stub)


def test_a_right_answer_scores_in_every_row_it_counts_for():
    doc = next(doc for doc in docs("all") if doc["dataset"] == "DocVQA")
    rows = benchmark.process_results(doc, [doc["gold"]])
    own = {"id": doc["id"], "image_set": doc["image_set"]}
    assert rows["official_real"] == {**own, "group": "DocVQA", "points": 1.0}
    assert rows["official_diag"] == {}
    signature = signature_of(rows["record"])
    assert signature.startswith("task:milebench@5-E|variant:test|prompt:official|")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(MISSING, "no_answer"), ("[LMMS_EVAL_REQUEST_FAILED after 5 retries] 503", "no_answer")],
)
def test_a_failure_has_no_score_key(answer, reason):
    rows = benchmark.process_results(docs()[0], [answer])
    assert rows["official"]["unscored"] == rows["robust"]["unscored"] == reason
    assert "score" not in rows["official"]
    assert coverage([rows["coverage"]]) == 0
    assert math.isnan(benchmark.percent([rows["official"]]))


@pytest.mark.parametrize("form", ["<think>{}</think>{}", "{}</think>{}"])
def test_thinking_is_not_scored_in_a_run_and_from_its_log(form):
    doc = docs()[0]
    answer = form.format("Option A first, then (A) or B?", doc["gold"])
    rows = benchmark.process_results(doc, [answer])
    assert rows["official"]["points"] == rows["robust"]["points"] == 1
    record = Record.of_line(rows)
    assert (record.answer, record.facts["thinking"]) == ((Segment(text=doc["gold"]),), 1)
    assert benchmark.BENCHMARK.regraded(record) == record


@pytest.mark.parametrize(
    "answer", ["<think>a</think>nan", "<think>a</think>[ERROR] b", "<thi<think>a</think>nk>B"]
)
def test_an_answer_is_not_read_twice(answer):
    record = Record.of_line(benchmark.process_results(docs()[0], [answer]))
    assert isinstance(record.official, Scored)
    assert benchmark.BENCHMARK.regraded(record) == record


def test_perfect_answers_score_one_where_the_scorer_allows():
    rows = [benchmark.process_results(doc, [doc["gold"]]) for doc in docs("all")]
    parts = [row["robust"] for row in rows]
    assert benchmark.real(parts) == pytest.approx(100, abs=1e-4)
    assert math.isnan(benchmark.real([part for part in parts if part.get("group") != "TQA"]))
    assert {row["record"]["groups"]["dataset"][0] for row in rows} == set(DATASETS)
