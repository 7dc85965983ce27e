"""Failures are distinguished from answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.answers.saved import MISSING, NOT_TEXT, as_answer, failure_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(MISSING, id="missing"),
        pytest.param(f"{NOT_TEXT} 3", id="not text"),
        pytest.param("[LMMS_EVAL_REQUEST_FAILED after 5 retries] 503", id="request"),
        pytest.param("[LMMS_EVAL_BUDGET_EXCEEDED]", id="budget"),
        pytest.param("[GENERATION_FAILED] out of memory", id="generation"),
        pytest.param("[ERROR] no file", id="error"),
        pytest.param("\n [ERROR]", id="after white space"),
    ],
)
def test_a_failure_is_recognised_by_its_beginning(text: str) -> None:
    assert failure_of(text)
    assert failure_of(["fine", text])
    assert failure_of(f"It says {text}") is None


@pytest.mark.parametrize("value", [None, 3, {}, "", "B", [], ["a", "b"]])
def test_anything_else_is_no_failure(value: object) -> None:
    assert failure_of(value) is None


@given(JSON)
def test_any_json_value_becomes_text_that_can_be_written(value: object) -> None:
    answer = as_answer(value)
    rounds = (answer,) if isinstance(answer, str) else answer
    for text in rounds:
        text.encode()
    if value is None or isinstance(value, (bool, int, float)):
        assert failure_of(answer)


@given(st.text())
def test_text_stays_as_it_is(text: str) -> None:
    assert as_answer(text) == text


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        pytest.param(None, MISSING, id="null"),
        pytest.param(float("nan"), f"{NOT_TEXT} NaN", id="not a number"),
        pytest.param([], f"{NOT_TEXT} []", id="empty list"),
        pytest.param({"a": 1}, f'{NOT_TEXT} {{"a": 1}}', id="object"),
        pytest.param(["one", 2], f'{NOT_TEXT} ["one", 2]', id="mixed list"),
        pytest.param(["one"], "one", id="one round"),
        pytest.param(["one", "two"], ("one", "two"), id="two rounds"),
        pytest.param(
            [{"text": "a"}, {"image": "images/é.png"}],
            '{"content": [{"text": "a"}, {"image": "images/é.png"}]}',
            id="parts",
        ),
        pytest.param(
            {"text": "a", "images": ["x.png"]},
            '{"text": "a", "images": ["x.png"]}',
            id="text and images",
        ),
        pytest.param("a\ud800\udc00b\udfff", "a\U00010000b\ufffd", id="surrogates"),
    ],
)
def test_values_become_answers(value: object, answer: object) -> None:
    assert as_answer(value) == answer
