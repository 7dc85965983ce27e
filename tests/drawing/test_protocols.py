"""How writers are told to ask for pictures, and how their texts are read."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.writer_texts import CASES

from mmie_tasks.interleaved.protocols import NO_PICTURE, STEP, Prompt, read_steps

WORDS = {"step-2": "f6edc878b742"}
LIMIT = 2


def read(text, limit=LIMIT):
    written = read_steps(text, limit)
    parts = [f"<{part.text}>" if isinstance(part, Prompt) else part for part in written.content]
    return parts, dict(written.unused)


@pytest.mark.parametrize(
    ("text", "parts", "unused"), [case for _, *case in CASES], ids=lambda value: str(value)[:40]
)
def test_what_a_writer_writes_is_read_and_what_is_not_used_is_counted(text, parts, unused):
    read_parts, read_unused = read(text)
    assert read_unused == unused
    assert parts is None or read_parts == parts


@given(
    text=st.text()
    | st.lists(st.sampled_from(["[picture]", "<image>", "A", "\n", " "])).map("".join)
)
def test_any_text_is_read_within_the_limit_and_without_blank_parts(text):
    written = read_steps(text, 2)
    assert len(written.prompts) <= 2
    assert all(part.text.strip() for part in written.prompts)
    assert all(count > 0 for count in written.unused.values())
    assert (NO_PICTURE in written.unused) == (not written.prompts)
    lost = bool(text.strip()) and not any(written.content) and len(written.unused) == 1
    assert not lost


def test_the_words_of_a_protocol_do_not_change_without_its_version():
    words = "".join(map(STEP.instruction, (1, 2, 3)))
    assert {STEP.signature: hashlib.sha256(words.encode()).hexdigest()[:12]} == WORDS


def test_the_number_of_steps_stands_in_the_words():
    assert "exactly 2 steps, each followed by one picture" in STEP.instruction(2)
    assert "exactly 1 step, followed by one picture" in STEP.instruction(1)
