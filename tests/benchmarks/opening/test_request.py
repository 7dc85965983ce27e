"""Requests for answers: pictures that are sent or lost, and answers that are not judged."""

import hashlib
import io
import json
from pathlib import Path
from random import Random

import pytest
from PIL import Image
from support.opening_data import PROMPTS, draw
from support.settings import change

from mmie_tasks.benchmarks.opening.benchmark import BENCHMARK
from mmie_tasks.benchmarks.opening.jpeg import reencode

TEXTS = json.loads(PROMPTS.read_text(encoding="utf-8"))
NOISE = Image.frombytes("RGB", (40, 40), Random(0).randbytes(4_800))  # noqa: S311 - not secret
DRAW = ("<BEGIN> Draw.", None)


def doc_of(*question, steps=2):
    return {
        "id": "0101001",
        "row": 0,
        "topic": "storybook_creation",
        "subtask": "T",
        "question": [{"text": text, "image": image and str(image)} for text, image in question],
        "gold": [{"text": "Gold.", "image": None}] * steps,
    }


def built(*steps, question=DRAW):
    content = [{"text": text, "image": image and str(image)} for text, image in steps]
    return BENCHMARK.prepared(doc_of(question), [json.dumps({"content": content})])


def encoded(image, kind):
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK", "1"])
def test_an_image_is_encoded_again_as_pillow_does_it(tmp_path, mode):
    image = NOISE.convert(mode)
    (tmp_path / "a").write_bytes(encoded(image, "TIFF"))
    path = reencode(tmp_path / "a", tmp_path / "new", (51, 52))
    assert path.read_bytes() == encoded(image.resize((51, 52)), "JPEG")


@pytest.mark.parametrize("content", [b"", b"text", encoded(NOISE, "PNG")[:-20]])
def test_what_is_no_whole_image_is_not_encoded(tmp_path, content):
    (tmp_path / "a").write_bytes(content)
    assert reencode(tmp_path / "a", tmp_path, (8, 8)) is None
    assert reencode(tmp_path / "none", tmp_path, (8, 8)) is None


def test_a_request_has_system_message_schema_and_every_picture_as_a_square_jpeg(tmp_path):
    asked, cut = draw(tmp_path / "q.jpg"), draw(tmp_path / "a.png", kind="PNG")
    request = built(("Cut.", cut), question=("<BEGIN> Look <image>", asked)).request
    assert request.system == TEXTS["judge"]["system"]
    function = TEXTS["judge"]["function"]
    assert (request.schema.name, request.schema.description) == ("grade", function["description"])
    assert request.schema.parameters == json.dumps(function["parameters"])
    assert request.max_tokens == 2000
    shown = [p.read_bytes() if isinstance(p, Path) else p for p in request.parts]
    square = [encoded(Image.open(path).resize((512, 512)), "JPEG") for path in (asked, cut)]
    assert shown == [
        *("INPUT:  Look  <IMG_0></IMG_0>", square[0]),
        *("\nOUTPUT: Cut. <IMG_1></IMG_1>", square[1], TEXTS["judge"]["ending"]),
    ]


def test_a_picture_in_a_mode_that_jpeg_lacks_is_lost_and_counted(tmp_path):
    odd, usual = draw(tmp_path / "a.png", "RGBA"), draw(tmp_path / "b.jpg")
    lost = built(("Cut.", odd), ("Fold.", usual))
    counts = {"pictures_lost": 1, "answer_pictures": 2, "shown_pictures": 1}
    assert {**counts, "lost": "no JPEG (1)"}.items() <= lost.record.facts.items()
    assert lost.request.parts[1:3] == ("\nOUTPUT: Cut.", "Fold. <IMG_0></IMG_0>")


def test_a_picture_that_is_no_file_or_no_picture_is_lost_and_counted(tmp_path):
    (tmp_path / "t.jpg").write_text("text", encoding="utf-8")
    steps = [("Cut.", tmp_path / name) for name in ("none.png", "b\\a.jpg", ".", "t.jpg")]
    lost = [built(step).record.facts["lost"] for step in steps]
    assert lost == ["missing (1)"] * 2 + ["unreadable (1)"] * 2


@pytest.mark.parametrize("name", ["none.jpg", "alpha.png"])
def test_a_question_is_judged_without_its_picture_only_by_a_setting(tmp_path, name, monkeypatch):
    draw(tmp_path / "alpha.png", "RGBA")
    question = ("Look <image>", tmp_path / name)
    unseen = built(("Cut.", None), question=question)
    official = unseen.record.official
    assert (unseen.request, official.reason) == (None, "bad_image")
    assert name in official.detail
    assert unseen.record.facts["question_pictures_lost"] == 1
    assert "shown_pictures" not in unseen.record.facts
    assert "missing" not in BENCHMARK.request_provenance()
    change(monkeypatch, BENCHMARK, missing_images="blind")
    assert built(("Cut.", None), question=question).request.parts[0] == "INPUT: Look "
    assert BENCHMARK.request_provenance()["missing"] == "blind"


def test_an_empty_answer_is_judged():
    for answer, text in (("", "\nOUTPUT: "), ("[]", "\nOUTPUT: None")):
        assert BENCHMARK.prepared(doc_of(DRAW), [answer]).request.parts[1] == text


def test_the_number_of_steps_is_told_unless_a_setting_says_not(monkeypatch):
    doc = doc_of(DRAW, steps=3)
    assert "Answer in 3 steps" in str(BENCHMARK.question(doc, {}))
    assert BENCHMARK.request_provenance()["steps"] == "told"
    change(monkeypatch, BENCHMARK, steps="untold")
    assert "steps" not in str(BENCHMARK.question(doc, {}))
    assert BENCHMARK.request_provenance()["steps"] == "untold"


def test_a_missing_picture_is_left_out_of_the_question(tmp_path):
    there = draw(tmp_path / "a.jpg")
    doc = doc_of(("a", tmp_path / "none.jpg"), ("b", there))
    assert BENCHMARK.question(doc, {})[-5:] == ["a", "\n", "b", "\n", there]


def test_the_record_has_the_sha256_of_each_image_of_the_answer(tmp_path):
    first, second = draw(tmp_path / "1.jpg"), draw(tmp_path / "2.jpg", "L")
    answer = built(("One.", first), ("Two.", None), ("Three.", second)).record.answer
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in (first, second)]
    assert [step.sha256 for step in answer] == [digests[0], "", digests[1]]
