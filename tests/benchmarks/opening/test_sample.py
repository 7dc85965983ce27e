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
        pytest.param([], "row 7: not an object", id="a list"),
        pytest.param(row(total_uid=101001), "`total_uid`", id="a number as id"),
        pytest.param(row("2401001"), "'2401001'", id="an unknown topic"),
        pytest.param(row("0001001"), "'0001001'", id="topic 0"),
        pytest.param(row("x"), "'x'", id="another id"),
        pytest.param(row(subtask_name=None), "id '0101001': `subtask_name`", id="no task"),
        pytest.param(row(conversations=[]), r"`conversations\[0\]`", id="no turns"),
        pytest.param(row(conversations=None), "`conversations`", id="null"),
        pytest.param(row(question=[]), r"`conversations\[0\].input`", id="no question"),
        pytest.param(row(question="a"), r"`conversations\[0\].input`", id="a text as question"),
        pytest.param(
            row(question=[STEP, {"text": None, "image": None}]),
            r"`conversations\[0\].input\[1\].text`",
            id="text null",
        ),
        pytest.param(row(gold=[{"text": "a", "image": 3}]), r"output\[0\].image`", id="image"),
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
