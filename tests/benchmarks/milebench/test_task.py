"""The functions that the task files name, and what MileBench notes of an answer."""

import math
import shutil
from pathlib import Path

import pytest
from PIL import Image
from support.example import DATA, copy_of
from support.logged_records import signature_of

from mmie_tasks.benchmarks.milebench import benchmark, data
from mmie_tasks.benchmarks.milebench.data import dataset
from mmie_tasks.benchmarks.milebench.sample import DATASETS
from mmie_tasks.core.errors import DataMissing
from mmie_tasks.record.record import Record


def docs(selection="DocVQA", root=DATA):
    return dataset(selection, {"MILEBENCH_DATA": str(root)})


def record_of(doc, answer="A"):
    return Record.of_line(benchmark.process_results(doc, [answer]))


def test_a_model_gets_images_at_their_placeholders_and_no_file_name():
    doc = docs()[0]
    n = len(doc["images"])
    (turn,) = benchmark.doc_to_messages(doc)
    images = [part["url"] for part in turn["content"] if part["type"] == "image"]
    text = "".join(part.get("text", "") for part in turn["content"])
    assert turn["content"][0] == {"type": "text", "text": doc["instruction"] + "\n"}
    assert turn["content"][1]["type"] == "image"
    assert [isinstance(image, Image.Image) for image in images] == [True] * n
    assert ".png" not in text
    assert "DocVQA" not in text
    assert benchmark.doc_to_text(doc).count("<image>") == n == len(benchmark.doc_to_visual(doc))
    labelled = benchmark.doc_to_text(doc, {"image_token": "[image {n}]"})
    assert "[image 1][image 2]" in labelled
    assert "<image>" not in labelled


def test_a_combined_task_shows_the_published_image_and_needs_no_other(tmp_path):
    root = copy_of("DocVQA", tmp_path)
    shutil.rmtree(root / "DocVQA" / "images")
    doc = docs("DocVQA@combined1", root)[0]
    (combined,) = doc["combined"]
    (image,) = benchmark.doc_to_visual(doc)
    assert image.width == 800 * math.ceil(math.sqrt(len(doc["images"])))
    text = benchmark.doc_to_text(doc)
    assert text.startswith("<image>\n")
    assert "<Image 1> <Image 2> " in text
    data.check_data([doc])
    record = record_of(doc)
    images = [segment.image for segment in record.question if segment.image]
    assert (images, record.groups["level"]) == ([combined], ("medium",))
    Path(combined).unlink()
    with pytest.raises(DataMissing, match=f"1 of the 1 images .*{combined}"):
        data.check_data([doc])


def test_a_right_answer_scores_in_every_row_it_counts_for():
    doc = docs("all")[0]
    assert doc["dataset"] == "ActionLocalization"
    rows = benchmark.process_results(doc, [doc["gold"]])
    own = {"id": doc["id"], "image_set": doc["image_set"], "group": "ActionLocalization"}
    assert rows["official_real"] == {**own, "points": 1.0}
    assert rows["official_diag"] == {}
    signature = signature_of(rows["record"])
    assert signature.startswith("task:milebench@5-E|variant:test|prompt:official|")


def test_gold_answers_have_full_marks_in_every_dataset():
    rows = [benchmark.process_results(doc, [doc["gold"]]) for doc in docs("all")]
    parts = [row["robust"] for row in rows]
    assert benchmark.real(parts) == pytest.approx(100, abs=1e-4)
    assert math.isnan(benchmark.real([part for part in parts if part.get("group") != "TQA"]))
    assert {row["record"]["groups"]["dataset"][0] for row in rows} == set(DATASETS)


def test_the_record_has_groups_facts_and_the_question_with_its_images_in_place():
    doc = docs()[0]
    record = record_of(doc)
    assert record.groups == {"dataset": ("DocVQA",), "task": ("S-2",), "level": ("medium",)}
    assert [segment.image for segment in record.question if segment.image] == doc["images"]
    assert record.facts == {"rule": "choice", "images": len(doc["images"]), "option": "A"}
    assert "option" not in record_of(doc, "Please try again later.").facts


@pytest.mark.parametrize(
    ("context", "depth"),
    [("1234567" + "." * 12, 0.05), ("." * 9 + "1234567...", 0.5), ("." * 19, None)],
)
def test_the_depth_of_a_needle_is_its_position_in_the_text(context, depth):
    """The prompt has a line end before the context."""
    doc = docs("TextNeedleInAHaystack")[0] | {"gold": "1234567", "context": context}
    facts = record_of(doc | {"images": [], "instruction": "", "choices": []}).facts
    assert (facts["needle_length"], facts.get("needle_depth")) == (0, depth)
