"""How writers are told to ask for pictures, and how their texts are read."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.interleaved.protocols import (
    AROUND,
    NO_FORM,
    NO_WORDS,
    OVER_LIMIT,
    PROTOCOLS,
    Prompt,
)

WORDS = {"step-1": "4a9113c56a34", "describe-1": "7a9ad28adc0a"}


def read(name, text, limit=3):
    written = PROTOCOLS[name].read(text, limit)
    parts = [f"<{part.text}>" if isinstance(part, Prompt) else part for part in written.parts]
    return parts, dict(written.unused)


@pytest.mark.parametrize(
    ("text", "parts", "unused"),
    [
        pytest.param(
            "A.\n[picture]\nB.", ["A.", "<A.>", "B."], {}, id="text-after-the-last-marker"
        ),
        pytest.param(
            "A. [picture] B.\n[picture]", ["A.", "<A.>", "B.", "<B.>"], {}, id="two-steps"
        ),
        pytest.param("A.\n\nB.", ["A.\n\nB."], {}, id="no-marker"),
        pytest.param(
            "A.<image>\nB.[Image 2]C. <IMG_3>",
            ["A.", "<A.>", "B.", "<B.>", "C.", "<C.>"],
            {},
            id="spellings",
        ),
        pytest.param("[picture]\nA.", ["A."], {NO_WORDS: 1}, id="marker-before-any-text"),
        pytest.param("A. [picture]\n \n[picture]", ["A.", "<A.>"], {NO_WORDS: 1}, id="empty-step"),
        pytest.param(
            "A.[picture]B.[picture]C.[picture]D.[picture]E.",
            None,
            {OVER_LIMIT: 1},
            id="over-the-limit",
        ),
        pytest.param("A. [picture]\n" * 100, None, {OVER_LIMIT: 97}, id="a-hundred-markers"),
        pytest.param(
            "See ![picture](a.png), [picture](b) and `picture`.", None, {}, id="links-are-text"
        ),
        pytest.param("[picture]", [""], {NO_WORDS: 1}, id="nothing-but-a-marker"),
    ],
)
def test_the_text_before_a_marker_is_the_prompt_of_its_picture(text, parts, unused):
    read_parts, read_unused = read("step", text)
    assert read_unused == unused
    assert parts is None or read_parts == parts


def test_markers_over_the_limit_are_removed_and_their_steps_stay():
    assert read("step", "A.[picture]B.[picture]C.", limit=1)[0] == ["A.", "<A.>", "B.", "C."]


STEPS = '{"steps": [{"text": "A.", "picture": "a cat"}, {"text": "B."}]}'


@pytest.mark.parametrize(
    ("text", "parts", "unused"),
    [
        pytest.param(STEPS, ["A.", "<a cat>", "B."], {}, id="as-requested"),
        pytest.param(f"```json\n{STEPS}\n```", ["A.", "<a cat>", "B."], {}, id="code-fence"),
        pytest.param(
            f"Here:\n```json\n{STEPS}\n```",
            ["A.", "<a cat>", "B."],
            {AROUND: 1},
            id="prose-and-fence",
        ),
        pytest.param(
            f"Sure. {STEPS} Done.", ["A.", "<a cat>", "B."], {AROUND: 1}, id="prose-around"
        ),
        pytest.param(
            '{"steps": [{"text": "A\nB", "picture": null}]}',
            ["A\nB"],
            {},
            id="line-break-in-a-string",
        ),
        pytest.param(
            '{"steps": ["A.", {"picture": "a cat"}]}',
            ["A.", "<a cat>"],
            {},
            id="a-step-that-is-a-text",
        ),
        pytest.param(
            '[{"text": "A.", "image_description": "a cat"}]',
            ["A.", "<a cat>"],
            {},
            id="a-list-another-key",
        ),
        pytest.param(
            '{"steps": [{"text": "A.", "image": "a.png", "picture": "a cat"}]}',
            ["A.", "<a cat>"],
            {"`image` of a step": 1},
            id="two-keys",
        ),
        pytest.param(
            '{"steps": [{"text": "A.", "picture": ""}]}',
            ["A."],
            {NO_WORDS: 1},
            id="empty-description",
        ),
        pytest.param(
            '{"steps": [{"text": "A.", "title": "T", "n": 1, "tags": []}]}',
            ["A."],
            {"`title` of a step": 1, "`n` of a step": 1},
            id="other-keys",
        ),
        pytest.param(
            '{"steps": [{"text": 5, "picture": ["x"]}]}', [], None, id="values-of-other-types"
        ),
        pytest.param("Just prose.", ["Just prose."], {NO_FORM: 1}, id="prose"),
        pytest.param('{"steps": []}', ['{"steps": []}'], {NO_FORM: 1}, id="no-steps"),
        pytest.param(
            '{"steps": [{"text": "A."', ['{"steps": [{"text": "A."'], {NO_FORM: 1}, id="cut-off"
        ),
        pytest.param("[" * 100_000, ["[" * 100_000], {NO_FORM: 1}, id="nested-too-deeply"),
    ],
)
def test_descriptions_are_read_from_json(text, parts, unused):
    read_parts, read_unused = read("describe", text)
    assert read_parts == parts
    assert unused is None or read_unused == unused


def test_descriptions_over_the_limit_are_counted_and_their_texts_stay():
    text = '{"steps": [{"text": "A.", "picture": "a"}, {"text": "B.", "picture": "b"}]}'
    assert read("describe", text, limit=1) == (["A.", "<a>", "B."], {OVER_LIMIT: 1})


@given(
    text=st.text()
    | st.lists(st.sampled_from(["[picture]", "<image>", "A", "\n", " ", STEPS, "{", "}"])).map(
        "".join
    )
)
def test_any_text_is_read_within_the_limit_and_without_blank_parts(text):
    for protocol in PROTOCOLS.values():
        written = protocol.read(text, 2)
        assert len(written.prompts) <= 2
        assert all(part.text.strip() for part in written.prompts)
        assert all(count > 0 for count in written.unused.values())
        lost = bool(text.strip()) and not any(written.parts) and not written.unused
        assert not lost


def test_the_words_of_a_protocol_do_not_change_without_its_version():
    words = {
        protocol.signature: hashlib.sha256(
            "".join(map(protocol.instruction, (1, 2, 3))).encode()
        ).hexdigest()[:12]
        for protocol in PROTOCOLS.values()
    }
    assert words == WORDS


def test_the_limit_stands_in_the_words():
    for protocol in PROTOCOLS.values():
        assert "2" in protocol.instruction(2)
        assert "1 picture" in protocol.instruction(1) or "once" in protocol.instruction(1)
