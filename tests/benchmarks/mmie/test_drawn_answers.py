"""MMIE's record of answers of ``--model interleaved``: who drew them, what was drawn, and what
could not be.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.mmie_data import conversations_folder, draw
from support.mmie_judge import surround

from mmie_tasks.answers.drawn import DrawingFacts, write_drawn_answer, write_undrawn_answer
from mmie_tasks.benchmarks.mmie import benchmark, export
from mmie_tasks.record.segment import Segment
from mmie_tasks.results.marks import paper_marks
from mmie_tasks.results.run import load_run

FACTS = DrawingFacts(
    signature="step-1,images,model=flux",
    drawn=1,
    failed={"refused": 2},
    unused={"pictures over the limit": 1},
)


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    surround(monkeypatch, tmp_path)
    monkeypatch.setenv("MMIE_DATA", str(conversations_folder(tmp_path / "data")))
    monkeypatch.setenv(
        "MMIE_TASKS_JUDGE", "openai:nobody,base_url=http://127.0.0.1:9/v1,cache=off,max_retries=0"
    )


@pytest.fixture
def docs():
    return benchmark.process_docs(SimpleNamespace(config_name="all"))


def record_of(doc, answer):
    return json.loads(json.dumps(dict(benchmark.process_results(doc, [answer]).items())["record"]))


def drawn_answer():
    path = draw(Path("a.png").absolute())
    picture = Segment(image=str(path), prompt="<b>scissors</b>")
    return write_drawn_answer([Segment(text="Cut."), picture], FACTS)


def test_the_record_has_the_prompts_and_what_was_not_drawn_or_not_used(docs):
    record = record_of(docs[0], drawn_answer())
    assert record["answer"] == [
        {"text": "Cut."},
        {
            "image": str(Path("a.png").absolute()),
            "prompt": "<b>scissors</b>",
            "sha256": hashlib.sha256(Path("a.png").read_bytes()).hexdigest(),
        },
    ]
    facts = record["facts"]
    assert (facts["pictures_drawn"], facts["pictures_failed"], facts["pictures_unused"]) == (
        1,
        2,
        1,
    )
    assert facts["not_drawn"] == "refused (2)"
    assert facts["unused"] == "pictures over the limit (1)"


@pytest.mark.parametrize(
    ("reason", "unscored"),
    [
        ("unavailable", "not_drawn"),
        ("not_stored", "not_drawn"),
        ("refused", "unavailable"),  # of the judge that these tests have
    ],
)
def test_a_picture_withheld_by_the_drawers_fault_leaves_the_sample_unscored(docs, reason, unscored):
    facts = DrawingFacts(signature="step-1,images,model=flux", failed={"refused": 1, reason: 1})
    record = record_of(docs[0], write_drawn_answer([Segment(text="Cut.")], facts))
    assert record["verdicts"]["official"]["reason"] == unscored
    assert record["signature"]["benchmark"]["answers"] == "step-1,images,model=flux"
    if unscored == "not_drawn":
        assert f"{reason} (1)" in record["verdicts"]["official"]["detail"]


@pytest.mark.parametrize("text", ["42", "[NO_ANSWER] x", "", "[ERROR] x"])
def test_an_answer_without_pictures_is_judged_as_the_writers_text_alone(docs, text):
    record = record_of(
        docs[2], write_undrawn_answer(text, DrawingFacts(signature="step-1,images,model=flux"))
    )
    alone = record_of(docs[2], text)
    assert record["signature"]["benchmark"].pop("answers") == "step-1,images,model=flux"
    if text.startswith("["):  # a failure is shown as the runner has it
        assert record.pop("answer") != alone.pop("answer")
    assert record == alone


def test_every_answer_names_protocol_and_drawer_in_its_signature_even_if_no_judge_can_be_opened(
    docs, monkeypatch
):
    monkeypatch.setenv("MMIE_TASKS_JUDGE", "no_such_judge")
    for answer in (drawn_answer(), write_undrawn_answer("[ERROR] x", FACTS)):
        signature = record_of(docs[0], answer)["signature"]
        assert signature["benchmark"]["answers"] == "step-1,images,model=flux"
        assert set(signature["judges"][0]) == {"judge", "why"}
        assert signature["benchmark"]["paper_judge"] == "no"


@pytest.fixture
def run(docs):
    """A run of two samples: a drawn answer, and a text."""
    records = [
        record_of(docs[0], drawn_answer()),
        record_of(docs[2], write_undrawn_answer("42", FACTS)),
    ]
    lines = [
        json.dumps({"doc_id": number, "record": record}) for number, record in enumerate(records)
    ]
    log = Path("run/20260101_120000_samples_mmie.jsonl")
    log.parent.mkdir()
    log.write_text("\n".join(lines), encoding="utf-8")
    return str(log.parent)


def test_a_run_with_drawn_answers_is_exported_in_the_official_form(run):
    export.run_export([run, "-o", "official"], {"MMIE_DATA": "data"})
    drawn, text = json.loads(Path("official/data.json").read_text(encoding="utf-8"))
    assert [set(part) for part in drawn["answer"]] == [{"text", "image"}] * 2
    assert Path("official", drawn["answer"][1]["image"]).read_bytes() == Path("a.png").read_bytes()
    assert text["answer"] == [{"text": "42", "image": None}]


def test_a_run_with_drawn_answers_is_marked(run):
    task_run = load_run(run).tasks["mmie"]
    (signature,) = task_run.signatures
    assert signature.fields["answers"] == "step-1,images,model=flux"
    marks = paper_marks(task_run)
    assert "pictures drawn by our reconstruction (step-1), not by the paper's pipeline" in marks
    assert "4 pictures not drawn" in marks
