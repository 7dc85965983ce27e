"""Thinking is removed from answers: no judge sees it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.answers.parsing import parse_answer, strip_thinking


@pytest.mark.parametrize(
    ("text", "left"),
    [
        pytest.param("<think>a</think>b", "b", id="in front"),
        pytest.param("<think>\na\n</think>\n\nb\n\nc\n", "b\n\nc", id="lines"),
        pytest.param("a <analysis>b</analysis>c", "a c", id="in the middle"),
        pytest.param("<THINK>a</Think>b", "b", id="case"),
        pytest.param("<think>a<think>b</think>c</think>d", "d", id="nested"),
        pytest.param("<think>a<analysis>b</think>c", "c", id="other tag inside"),
        pytest.param("<think>a <think> is a tag</think>c", "c", id="named in thinking"),
        pytest.param("<think>a<think>b</think>c<think>d", "c", id="named, then again"),
        pytest.param("<think>a</think>b<think>c</think>d", "bd", id="twice"),
        pytest.param("a</think>b", "b", id="no opening"),
        pytest.param("a</think>b</think>c", "c", id="no opening, twice"),
        pytest.param("a<think>b</think>c</think>d", "d", id="one closing too many"),
        pytest.param("a</think>b<think>c", "b", id="no opening, then no closing"),
        pytest.param("a <think>b", "a", id="no closing"),
        pytest.param("<think>a</think>", "", id="nothing else"),
    ],
)
def test_thinking_is_removed_and_the_answer_stays(text, left) -> None:
    stripped = strip_thinking(text)
    assert (stripped.text, stripped.removed) == (left, True)


@given(st.text(alphabet="ab<>/ \n"))
def test_a_text_without_thinking_stays_as_it_is(text) -> None:
    assert strip_thinking(text).text == text
    assert not strip_thinking(text).removed


@given(st.lists(st.sampled_from(["<think>", "</think>", "<analysis>", "</analysis>", "a", " "])))
def test_no_tag_remains(pieces) -> None:
    left = strip_thinking("".join(pieces)).text
    assert "<" not in left


@given(st.text(alphabet="abc <>{}\n"), st.text(alphabet="xyz", min_size=1))
def test_thinking_never_changes_the_answer(thinking, answer) -> None:
    for text in (f"<think>{thinking}</think>{answer}", f"{thinking}</think>{answer}"):
        parsed = parse_answer([text])
        assert [segment.text for segment in parsed.segments] == [answer]
        assert parsed.thinking_removed


@pytest.mark.parametrize(
    ("answer", "pieces"),
    [
        pytest.param('<think>{"a": 1}</think>{"text": "b", "images": []}', ["b"], id="before JSON"),
        pytest.param(
            'a</think>\n{"text": "b", "images": ["c.png"]}', ["b", "c.png"], id="head off"
        ),
        pytest.param(
            '{"text": "<think>a <image></think>b <image> c", "images": ["1.png"]}',
            ["b", "1.png", "c"],
            id="places in thinking take no image",
        ),
        pytest.param(
            '{"content": [{"text": "<think>a"}, {"text": "b", "image": "1.png"}, '
            '{"text": "c</think>d"}, {"text": " e "}]}',
            ["1.png", "d", " e "],
            id="over several parts",
        ),
        pytest.param(
            '{"content": [{"text": "<think>a"}, {"image": "1.png"}, {"text": "b"}]}',
            ["1.png", "b"],
            id="unclosed in a part",
        ),
        pytest.param(
            '[{"type": "reasoning", "summary": []}, {"type": "text", "text": "b"}]',
            ["b"],
            id="a part of its own",
        ),
        pytest.param("{'text': '<think>a</think>b', 'images': []}", ["b"], id="repr"),
        pytest.param("<think>a</think>![x](o/1.png) b", ["o/1.png", "b"], id="markdown"),
    ],
)
def test_thinking_is_removed_inside_and_around_objects(answer, pieces) -> None:
    parsed = parse_answer([answer])
    segments = [part for s in parsed.segments for part in (s.text, s.image) if part is not None]
    assert (segments, parsed.thinking_removed) == (pieces, True)


def test_images_are_an_answer_even_if_all_text_was_thinking() -> None:
    parsed = parse_answer([json.dumps({"text": "<think>a", "images": ["1.png"]})])
    assert [segment.image for segment in parsed.segments] == ["1.png"]
    assert parsed.failure == ""
