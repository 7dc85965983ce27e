"""Answers of ``--model interleaved``: read as the writer's text, or as texts and pictures with
their prompts.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.answer_shapes import SHAPES

from mmie_tasks.answers.drawn import (
    DrawingFacts,
    read_drawn_answer,
    write_drawn_answer,
    write_undrawn_answer,
)
from mmie_tasks.answers.failures import MISSING, NOT_TEXT, failure_of
from mmie_tasks.answers.files import read_answers
from mmie_tasks.answers.parser import parse_answer
from mmie_tasks.answers.saved import as_answer
from mmie_tasks.record.segment import Segment

FACTS = DrawingFacts(
    signature="step-1,images,model=flux", drawn=1, failed={"refused": 2}, unused={"empty step": 3}
)
PARTS = (
    Segment(text="A fox."),
    Segment(image="/o/a.png", prompt="a red fox"),
    Segment(text=" It runs.\n"),
)
DRAWN = write_drawn_answer(PARTS, FACTS)
TEXTS = [shape.answer for shape in SHAPES if isinstance(shape.answer, str)]
FAILURES = [
    "[LMMS_EVAL_REQUEST_FAILED after 3 retries] 503",
    " [ERROR] x",
    MISSING,
    f"{NOT_TEXT} 3",
]
AS_WRITTEN = replace(FACTS, drawn=0)


@given(
    st.one_of(
        st.text(st.characters()),
        st.sampled_from([*TEXTS, *FAILURES, DRAWN, "<think>Hm.", "", "\ud800"]),
    )
)
def test_an_answer_without_drawn_pictures_is_the_writers_answer_alone(text: str) -> None:
    parsed, alone = parse_answer([write_undrawn_answer(text, FACTS)]), parse_answer([text])
    assert replace(parsed, drawing=None) == replace(alone, drawing=None)
    assert parsed.drawing == AS_WRITTEN


def test_drawn_pictures_have_their_prompts_and_texts_stay_unchanged() -> None:
    parsed = parse_answer([DRAWN])
    assert parsed.segments == PARTS
    assert (parsed.shape, parsed.unread, parsed.drawing) == ("json:content", {}, FACTS)
    assert parse_answer([write_drawn_answer([], FACTS)]).shape == "empty"


@given(
    st.lists(
        st.one_of(
            st.builds(Segment, text=st.text(st.characters())),
            st.builds(Segment, image=st.just("/o/a.png"), prompt=st.text()),
        )
    )
)
def test_any_texts_and_prompts_can_be_read_and_saved(parts: list[Segment]) -> None:
    parsed = parse_answer([write_drawn_answer(parts, FACTS)])
    assert parsed.drawing is not None
    assert parsed.drawing.drawn == sum(part.image is not None for part in parts)
    "".join(
        f"{segment.text}{segment.image}{segment.prompt}" for segment in parsed.segments
    ).encode()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda answer: answer["drawing"].pop("signature"), id="no signature"),
        pytest.param(lambda answer: answer.update(more="x"), id="another key"),
        pytest.param(
            lambda answer: answer["content"][1].pop("prompt"), id="a picture without a prompt"
        ),
        pytest.param(
            lambda answer: answer["content"][0].update(role="user"), id="another key in a part"
        ),
        pytest.param(lambda answer: answer["content"].append(3), id="a number for a part"),
    ],
)
def test_other_objects_are_read_as_before(change) -> None:
    answer = json.loads(DRAWN)
    change(answer)
    text = json.dumps(answer)
    assert read_drawn_answer(text) is None
    parsed = parse_answer([text])
    assert parsed.drawing is None
    assert all(segment.prompt == "" for segment in parsed.segments)
    assert parsed.unread


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"signature": "a|b"}, id="a bar"),
        pytest.param({"signature": "a", "failed": {"refused": -1}}, id="a negative count"),
        pytest.param({"signature": "a", "unused": 3}, id="no counts"),
    ],
)
def test_an_edited_file_cannot_break_a_log(facts: dict[str, object]) -> None:
    assert read_drawn_answer(json.dumps({"answer": "42", "drawing": facts})) is None


@pytest.mark.parametrize("text", FAILURES)
def test_a_failure_of_the_writer_stays_a_failure(text: str) -> None:
    assert failure_of(write_undrawn_answer(text, FACTS)) == failure_of(text) is not None


@pytest.mark.parametrize(
    "text", [DRAWN, write_undrawn_answer("42", FACTS), write_undrawn_answer(MISSING, FACTS)]
)
def test_a_saved_answer_is_the_same_text_in_every_log(text: str, tmp_path: Path) -> None:
    records = {
        "1_samples_mmie.jsonl": {"doc_id": 0, "resps": [[text]], "official": {"id": "SA-0"}},
        "b.jsonl": {"id": "SA-0", "answer": text},
        "c.jsonl": {"id": "SA-0", "answer": json.loads(text)},
    }
    for name, record in records.items():
        (tmp_path / name).write_text(json.dumps(record), encoding="utf-8")
        (saved,) = read_answers(str(tmp_path / name)).answers
        assert saved.answer == text
    assert as_answer(text) == text
