"""MMIE's record of answers of ``--model interleaved``: who drew them, and what was not drawn."""

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.mmie_data import conversations_folder, draw
from support.mmie_judge import surround

from mmie_tasks.answers.drawn import DrawingFacts, write_drawn_answer, write_undrawn_answer
from mmie_tasks.benchmarks.mmie import benchmark
from mmie_tasks.record.segment import Segment

SIGNATURE = "step-1,images,model=flux"


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


def drawing(**facts):
    return DrawingFacts(signature=SIGNATURE, **facts)


def test_the_record_has_the_prompts_and_what_was_not_drawn_or_not_used(docs):
    path = draw(Path("a.png").absolute())
    segments = [Segment(text="Cut."), Segment(image=str(path), prompt="<b>scissors</b>")]
    facts = drawing(drawn=1, failed={"refused": 2}, unused={"pictures over the limit": 1})
    record = record_of(docs[0], write_drawn_answer(segments, facts))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    image = {"image": str(path), "prompt": "<b>scissors</b>", "sha256": digest}
    assert record["answer"] == [{"text": "Cut."}, image]
    expected = {"pictures_drawn": 1, "pictures_failed": 2, "pictures_unused": 1}
    expected |= {"not_drawn": "refused (2)", "unused": "pictures over the limit (1)"}
    assert expected.items() <= record["facts"].items()


@pytest.mark.parametrize("reason", ["unavailable", "not_stored", "refused"])
def test_a_picture_withheld_by_the_drawers_fault_leaves_the_sample_unscored(docs, reason):
    facts = drawing(failed={"refused": 1, reason: 1})
    record = record_of(docs[0], write_drawn_answer([Segment(text="Cut.")], facts))
    official = record["verdicts"]["official"]
    assert record["signature"]["benchmark"]["answers"] == SIGNATURE
    if reason == "refused":
        assert official["reason"] == "unavailable"  # the judge, which gets the text
    else:
        assert official["reason"] == "not_drawn"
        assert f"{reason} (1)" in official["detail"]


@pytest.mark.parametrize("text", ["42", "[NO_ANSWER] x", "", "[ERROR] x"])
def test_an_answer_without_pictures_is_judged_as_the_writers_text_alone(docs, text):
    record = record_of(docs[2], write_undrawn_answer(text, drawing()))
    alone = record_of(docs[2], text)
    assert record["signature"]["benchmark"].pop("answers") == SIGNATURE
    if text.startswith("["):  # a failure is shown as the runner has it
        assert record.pop("answer") != alone.pop("answer")
    assert record == alone


def test_protocol_and_drawer_are_in_the_signature_even_if_no_judge_can_be_opened(docs, monkeypatch):
    monkeypatch.setenv("MMIE_TASKS_JUDGE", "no_such_judge")
    for write, content in ((write_drawn_answer, [Segment("A")]), (write_undrawn_answer, "[ERROR]")):
        signature = record_of(docs[0], write(content, drawing()))["signature"]
        assert signature["benchmark"]["answers"] == SIGNATURE
        assert set(signature["judges"][0]) == {"judge", "why"}
        assert signature["benchmark"]["paper_judge"] == "no"
