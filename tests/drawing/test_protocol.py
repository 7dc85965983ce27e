"""How a writer is told to ask for images, and how its text is read."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.drawing import protocol
from mmie_tasks.drawing.protocol import NO_MARKER, NO_WORDS, OVER_LIMIT, instruction, read_steps

WORDS = {"step-3": "f6edc878b742"}


def read(text, limit=2):
    steps = read_steps(text, limit)
    parts = [f"<{one.prompt}>" if one.prompt else one.text for one in steps.segments]
    return parts, dict(steps.unused)


@pytest.mark.parametrize(
    ("text", "parts", "unused"),
    [
        pytest.param("A.\n[picture]\nB.", ["A.", "<A.>", "B."], {}, id="own-line"),
        pytest.param("A. [Picture 1] B **[picture 2]**", ["A.", "<A.>", "B", "<B>"], {}, id="in"),
        pytest.param("A.\n- [picture: a red door]", ["A.", "<a red door>"], {}, id="words"),
        pytest.param("> A *b* **c**.\n[picture]", ["> A *b* **c**.", "<A *b* c.>"], {}, id="md"),
        pytest.param("[picture]\nA.", ["A."], {NO_WORDS: 1}, id="no-words"),
        pytest.param("A[picture]" * 3, ["A", "<A>", "A", "<A>", "A"], {OVER_LIMIT: 1}, id="limit"),
        pytest.param("A. <image> [image 1] [pic", [], {NO_MARKER: 1}, id="no-marker"),
        pytest.param("![picture](a.png) [picture](b)", [], {NO_MARKER: 1}, id="links"),
    ],
)
def test_a_text_is_read_and_what_is_not_used_is_counted(text, parts, unused):
    assert read(text) == (parts, unused)


@given(text=st.text() | st.lists(st.sampled_from(["[picture]", "A", "\n", " ", "**"])).map("".join))
def test_any_text_is_read_within_the_limit_and_without_blank_parts(text):
    steps = read_steps(text, 2)
    prompts = [one.prompt for one in steps.segments if one.prompt]
    assert len(prompts) <= 2
    assert all(prompt.strip() for prompt in prompts)
    assert bool(steps.segments) != (NO_MARKER in steps.unused)


def test_the_words_do_not_change_without_the_version():
    words = "".join(map(instruction, (1, 2, 3)))
    assert {protocol.SIGNATURE: hashlib.sha256(words.encode()).hexdigest()[:12]} == WORDS
    assert "exactly 1 step, followed by one picture" in words
