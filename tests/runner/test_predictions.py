"""The model `predictions` without a runner: saved answers are returned for requests."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from datasets import Dataset
from support.judge_server import JudgeServer
from support.mmie_data import conversations_folder, draw
from support.pictures import MODERATION

from mmie_tasks.answers.failures import MISSING
from mmie_tasks.benchmarks import model_answers
from mmie_tasks.benchmarks.mmie.data import dataset
from mmie_tasks.runner.predictions import Predictions


@dataclass
class Task:
    """The used part of the runner's task object."""

    eval_docs_no_media: object

    def doc_to_messages(self, doc: object) -> object:
        raise AssertionError("opened an image")


@dataclass
class Request:
    args: tuple[object, ...]
    task_name: str = "t"
    metadata: dict[str, object] = field(default_factory=dict)


ROWS = [
    {"id": f"DocVQA/{n}", "index": 0, "gold": n, "image": f"not/there/{n}.png"} for n in range(3)
]


def requests(docs: object, *doc_ids: int, task: str = "t") -> list[Request]:
    owner = Task(docs)
    return [
        Request((f"Question {n}?", owner.doc_to_messages, {"until": []}, n, task, "test"))
        for n in doc_ids
    ]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "answers.json"
    path.write_text(
        json.dumps({"DocVQA/0": "zero", "DocVQA/2": ["two", "rounds"]}), encoding="utf-8"
    )
    return path


@pytest.mark.parametrize("docs", [Dataset.from_list(ROWS), ROWS], ids=["dataset", "list"])
def test_saved_answers_are_returned_in_the_order_of_the_requests(
    saved: Path, docs: object, logs: list[str]
) -> None:
    sent = requests(docs, 2, 0, 1, 0)
    with pytest.raises(SystemExit, match=r"No answer to 1 of 3 samples of `t`[\s\S]*missing=count"):
        Predictions(path=str(saved)).generate_until(sent)
    model = Predictions(path=str(saved), missing="count", batch_size=4, device="cuda:0")
    assert model.generate_until_multi_round(sent) == [["two", "rounds"], "zero", MISSING, "zero"]
    report = "t: answers 2 of 3"
    assert logs == [f"predictions: {report}\n"]


def test_a_row_of_another_order_keeps_its_answer_and_a_url_names_a_sample(tmp_path: Path) -> None:
    docs = [{"id": str(n), "index": 2 - n, "url": f"http://h/{n}.jpg"} for n in range(3)]
    path = tmp_path / "a.jsonl"
    lines = [{"url": "http://h/2.jpg", "text": "two", "question_id": 0}, {"id": 0, "answer": "no"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    model = Predictions(path=path, missing="count")
    assert model.generate_until(requests(docs, 0, 1, 2)) == ["no", MISSING, "two"]


def with_images(folder: Path) -> Path:
    """Two answers with images, the second of which is missing."""
    draw(folder / "a.png")
    path = folder / "with_images.jsonl"
    lines = [{"id": f"SA-{n}", "text": "A. <image>", "images": [f"{'ab'[n]}.png"]} for n in (0, 1)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


DOCS = [{"id": "SA-0"}, {"id": "SA-1"}]


@pytest.mark.parametrize("task", ["mmie", "opening"])
def test_a_missing_image_ends_the_run_unless_it_is_only_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs: list[str], task: str
) -> None:
    monkeypatch.setattr(model_answers, "_answer_folders", {})
    path = with_images(tmp_path)
    with pytest.raises(SystemExit) as error:
        Predictions(path=path).generate_until(requests(DOCS, 0, 1, task=task))
    for named in ("line 2", "`b.png`", "2 images", f"`{tmp_path}`", "images=", "missing=count"):
        assert named in str(error.value)
    sent = requests(DOCS, 0, 1, task=task)
    found, missing = Predictions(path=path, missing="count").generate_until(sent)
    assert json.loads(str(found))["images"] == [str(tmp_path / "a.png")]
    assert json.loads(str(missing))["images"] == ["b.png"]
    assert "images 1 of 2" in logs[-1]
    draw(tmp_path / "else" / "b.png")
    sent = requests(DOCS, 0, 1, task=task)
    _, missing = Predictions(path=path, images=tmp_path / "else").generate_until(sent)
    assert json.loads(str(missing))["images"] == [str(tmp_path / "else" / "b.png")]


def test_a_dead_drawer_ends_the_run(tmp_path: Path) -> None:
    docs = dataset("all", {"MMIE_DATA": str(conversations_folder(tmp_path / "data", 1))})
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"SA-0": "A cat.[picture]"}), encoding="utf-8")
    with JudgeServer(models=("image-model",)) as server:
        server.draws(MODERATION)
        t2i = f"images:image-model;base_url={server.url};size=32x32"
        with pytest.raises(SystemExit, match="could not be drawn, the last: HTTP 400"):
            Predictions(path=path, t2i=t2i).generate_until(requests(docs, 0, task="mmie_step"))


def test_a_task_without_a_single_answer_ends_the_run(saved: Path) -> None:
    docs = [{"id": "ALFRED/0"}, {"id": "IEdit/1"}]
    with pytest.raises(SystemExit, match=r"id `ALFRED/0`. Saved, for example: id `DocVQA/0`"):
        Predictions(path=saved).generate_until(requests(docs, 0, 1))
