"""The images that saved answers name are found beside the file, or are missing by name."""

import json
from base64 import b64encode

import pytest
from support.mmie_data import draw
from support.pictures import header_only

from mmie_tasks.answers.answer import read_answer
from mmie_tasks.answers.drawn import DrawingFacts, write_drawn_answer
from mmie_tasks.answers.matcher import MatchedAnswers
from mmie_tasks.answers.saved import read_answers
from mmie_tasks.benchmarks import model_answers
from mmie_tasks.benchmarks.model_answers import add_answer_folder
from mmie_tasks.benchmarks.task_answers import TaskAnswers, named_images
from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.record.segment import Segment

TEXT = "Fold. <image> Cut."
DATA_URI = f"data:image/png;base64,{b64encode(header_only(8, 8)).decode()}"
NO_DATA = "data:image/png;base64,AAAA"


@pytest.fixture(autouse=True)
def no_folders(monkeypatch):
    monkeypatch.setattr(model_answers, "_answer_folders", {})


def named(folder, **record):
    """What a record names; its file is in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "a.jsonl"
    path.write_text(json.dumps({"id": "SA-1", **record}, ensure_ascii=False), encoding="utf-8")
    (saved,) = read_answers([path]).answers
    return named_images(saved)


@pytest.mark.parametrize("write", [json.dumps, lambda x: json.dumps(x, ensure_ascii=False), list])
def test_images_of_parts_are_found_beside_the_file(tmp_path, write):
    draw(tmp_path / "my" / "ü 1.png")
    draw(tmp_path / "secret.png")
    names = ["ü 1.png", "../secret.png", "no.png"]
    images = named(tmp_path / "my", answer=write([{"image": name} for name in names]))
    shown = [part["image"] for part in json.loads(str(images.answer))]
    assert shown == [str(tmp_path / "my" / "ü 1.png"), *names[1:]]
    assert (images.count, images.unusable) == (3, tuple((name, "missing") for name in names[1:]))


def test_images_in_a_field_beside_the_answer_are_its_own(tmp_path):
    draw(tmp_path / "0.png")
    shown = Segment(image=str(tmp_path / "0.png"))
    for text, expected in ((TEXT, (Segment("Fold."), shown, Segment("Cut."))), (None, (shown,))):
        images = named(tmp_path, answer=text, images=["0.png"])
        assert read_answer([images.answer]).segments == expected
        assert (images.count, images.unusable) == (1, ())


@pytest.mark.parametrize(
    ("record", "field"),
    [
        pytest.param({"text": "A.", "image": "q.png", "question": "?"}, "question", id="question"),
        pytest.param({"answer": "A.", "generated_images": ["0.png"]}, "generated_images", id="key"),
        pytest.param({"answer": [{"text": "A."}], "images": ["0.png"]}, "answer", id="parts"),
    ],
)
def test_images_that_may_be_those_of_the_question_are_an_error(tmp_path, record, field):
    with pytest.raises(AnswersUnusable, match=rf"a\.jsonl, .*\.png`, .*`{field}`"):
        named(tmp_path, **record)


def test_an_image_in_the_text_of_a_question_is_ignored(tmp_path):
    question = [{"text": "?", "image": "q.png"}]
    assert named(tmp_path, answer="A.", question=question).answer == "A."


@pytest.mark.parametrize(
    ("answer", "unusable"),
    [
        ("Look: ![x](fig.png)", ()),
        ("fig.png", ()),
        ({"text": "A.", "images": ["https://h/0.png"]}, ("https://h/0.png",)),
        ({"text": "A.", "images": [DATA_URI]}, ()),
        ({"text": "A.", "images": [NO_DATA]}, (NO_DATA,)),
        ({"text": "A.", "images": ["x/fig.png"]}, ("x/fig.png",)),
        ({"text": "A.", "image": "fig.png"}, ("fig.png",)),
        ([{"text": "A.", "image": "fig.png"}], ("fig.png",)),
        (['{"images": ["1.png"]}', "B."], ("1.png",)),
    ],
)
def test_only_an_image_in_a_field_or_part_is_missing(tmp_path, answer, unusable):
    assert tuple(dict(named(tmp_path, answer=answer).unusable)) == unusable


def of_one(images):
    matched = MatchedAnswers(task="mmie", answers=(None,), unanswered=())
    return TaskAnswers(answers=(images.answer,), matched=matched, images=(images,))


def check(images, *, counts_missing=False):
    options = {"images_option": "--images", "count_option": "--missing count"}
    of_one(images).check(counts_missing=counts_missing, **options)


def test_images_in_markdown_are_counted_and_stop_nothing(tmp_path):
    draw(tmp_path / "0.png")
    answer = "Fold. ![](0.png) Cut. ![](1.png) ![](https://h/2.png)"
    images = named(tmp_path, answer=answer)
    assert of_one(images).text == "mmie: answers 1 of 1, images 1 of 3; 2 in Markdown missing"
    check(images)


def test_an_image_whose_header_cannot_be_read_is_counted_and_named(tmp_path):
    draw(tmp_path / "0.png")
    (tmp_path / "1.png").write_bytes(b"<html>404</html>")
    record = {"answer": TEXT, "images": ["0.png", "1.png", "2.png"]}
    images = named(tmp_path, **record)
    assert images.unusable == (("1.png", "unreadable"), ("2.png", "missing"))
    text = "mmie: answers 1 of 1, images 1 of 3; missing (1), unreadable (1)"
    assert of_one(images).text == text
    with pytest.raises(AnswersUnusable, match=r"`1\.png` is not an image[\s\S]*of 3 images"):
        check(images)
    check(images, counts_missing=True)


@pytest.mark.parametrize(
    ("answer", "unusual"),
    [
        (None, "; 1 null"),
        ("[LMMS_EVAL_REQUEST_FAILED] 500", "; 1 with an error in place of an answer"),
        ("<think>Fold", "; 1 empty"),
        ("", "; 1 empty"),
        ("Fold <img src='1.png'>", "; 1 with JSON or an image in a form that is not read"),
        ("Fold.", ""),
    ],
)
def test_an_answer_that_is_none_or_may_be_misread_is_counted(tmp_path, answer, unusual):
    answers = of_one(named(tmp_path, answer=answer))
    assert answers.text == f"mmie: answers 1 of 1, images 0 of 0{unusual}"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("![](1.png) ![](2.png)", r"`1\.png` does not exist\. 2 of 2 images[\s\S]*`--images`"),
        ("![](https://h/1.png) ![](2.png)", r"is a URL[\s\S]*as a data URI, or score"),
        ("Fold <img src='1.png'>", r"all others to `mmie` look like JSON or an image"),
    ],
)
def test_answers_of_which_nothing_can_be_read_end_the_run(tmp_path, answer, message):
    images = named(tmp_path, answer=answer)
    matched = MatchedAnswers(task="mmie", answers=(None, None), unanswered=())
    answers = TaskAnswers(answers=(images.answer,) * 2, matched=matched, images=(images,))
    options = {"images_option": "--images", "count_option": "--missing count"}
    with pytest.raises(AnswersUnusable, match=message):
        answers.check(counts_missing=False, **options)
    answers.check(counts_missing=True, **options)


@pytest.mark.parametrize(
    "name",
    ["/scratch/u1/run7/images/0.png", r"C:\Users\u\run7\images\0.png", "../run7/images/0.png"],
)
def test_a_path_of_another_machine_is_found_by_its_longest_end(tmp_path, name):
    for folder in ("saved/images", "saved", "other/run7/images"):
        draw(tmp_path / folder / "0.png")
    answer = [{"text": "A.", "image": name}]
    images = named(tmp_path / "saved", answer=answer)
    assert str(tmp_path / "saved" / "images" / "0.png") in str(images.answer)
    add_answer_folder(tmp_path / "other")
    images = named(tmp_path / "saved", answer=answer)
    found = tmp_path / "other" / "run7" / "images"
    assert str(found / "0.png") in str(images.answer)
    assert of_one(images).text == f"mmie: answers 1 of 1, images 1 of 1; 1 found in `{found}`"


def test_images_that_are_found_in_the_working_directory_are_counted_with_it(tmp_path, monkeypatch):
    for name in ("run/images/0.png", "run/images/1.png", "saved/images/0.png"):
        draw(tmp_path / name)
    monkeypatch.chdir(tmp_path / "run")
    names = ["images/0.png", "images/1.png", str(tmp_path / "run" / "images" / "1.png")]
    images = named(tmp_path / "saved", answer="A.", images=names)
    assert images.elsewhere == (tmp_path / "run" / "images" / "1.png",)


def test_two_images_that_are_found_as_one_file_are_an_error(tmp_path):
    draw(tmp_path / "0.png")
    answer = [{"text": "A.", "image": f"/scratch/{folder}/0.png"} for folder in ("one", "two")]
    images = named(tmp_path, answer=answer)
    with pytest.raises(AnswersUnusable, match=r"/one/0\.png` and `/scratch/two/0\.png`"):
        check(images, counts_missing=True)


def test_pictures_of_drawn_answers_are_found_beside_their_file(tmp_path):
    draw(tmp_path / "ä b.png")
    facts = DrawingFacts(signature="step-1,images,model=flux")
    drawn = write_drawn_answer([Segment(image="ä b.png", prompt="x")], facts)
    (segment,) = read_answer([named(tmp_path, answer=drawn).answer]).segments
    assert segment == Segment(image=str(tmp_path / "ä b.png"), prompt="x")


def test_an_image_in_a_form_that_is_not_read_is_not_called_a_missing_file(tmp_path):
    part = {"type": "image", "source": {"data": "AAAA"}}
    images = named(tmp_path, answer=[{"type": "text", "text": "A."}, part])
    with pytest.raises(AnswersUnusable, match="in a form that is not read"):
        check(images)
