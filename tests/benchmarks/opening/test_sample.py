"""Samples, and rows that cannot be used."""

from __future__ import annotations

import pytest
from support.opening_data import Row, row

from mmie_tasks.benchmarks.opening.sample import Sample
from mmie_tasks.core.errors import BadSample
from mmie_tasks.record.segment import Segment

STEP = {"text": "a", "image": ""}


def test_a_row_has_its_topic_in_its_id() -> None:
    sample = Sample.from_row(row("1201003", [STEP], [{"text": "b", "image": "c.jpg"}]), "row 1")
    assert (sample.id, sample.topic, sample.subtask) == (
        *("1201003", "image_based_3d_reasoning"),
        "Task",
    )
    assert sample.question == (Segment("a"),)
    assert sample.gold == (Segment("b", "c.jpg"),)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param([], "row 7 is list", id="a list"),
        pytest.param(row(total_uid=101001), "`total_uid` is 101001", id="a number as id"),
        pytest.param(row("2401001"), "'2401001'", id="an unknown topic"),
        pytest.param(row("0001001"), "'0001001'", id="topic 0"),
        pytest.param(row("x"), "'x'", id="another id"),
        pytest.param(row(subtask_name=None), "id 0101001: `subtask_name` is None", id="no task"),
        pytest.param(row(conversations=[]), "`conversations` has 0 turns", id="no turns"),
        pytest.param(row(conversations=None), "`conversations` is NoneType", id="null"),
        pytest.param(row(question=[]), "`input` is empty", id="no question"),
        pytest.param(row(question="a"), "`input` is str", id="a text as question"),
        pytest.param(
            row(question=[STEP, {"text": None, "image": None}]),
            r"`input`\[1\]: `text` is NoneType",
            id="text null",
        ),
        pytest.param(
            row(gold=[{"text": "a", "image": 3}]), r"`output`\[0\]: `image` is int", id="image"
        ),
    ],
)
def test_an_odd_row_is_named_with_its_field(fields: object, words: str) -> None:
    with pytest.raises(BadSample, match=f"row 7.*{words}|{words}"):
        Sample.from_row(fields, "row 7")


def doc(**fields: object) -> Row:
    steps = [{"text": "a", "image": None}]
    names = {"id": "0101001", "topic": "storybook_creation", "subtask": "T", "row": 0}
    return {**names, "question": steps, "gold": steps, **fields}


def test_a_doc_is_read_again() -> None:
    assert Sample.from_doc(doc()).question == (Segment("a"),)
