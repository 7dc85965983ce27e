"""How writers are told to ask for pictures, and how their texts are read.

``python tests/interleaved/test_protocols.py`` writes the page's table.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mmie_tasks
from mmie_tasks.interleaved.protocols import (
    AROUND,
    CUT_OFF,
    INSTRUCT,
    LIKE_MARKER,
    NO_FORM,
    NO_PICTURE,
    NO_WORDS,
    OVER_LIMIT,
    PROTOCOLS,
    Prompt,
)

WORDS = {"step-3": "f6edc878b742", "describe-2": "a646cd1ed17a", "instruct-1": "7d492b80f4d1"}
PAGE = Path(mmie_tasks.__file__).parent / "interleaved" / "README.md"
START, END = "<!-- Written by tests/interleaved/test_protocols.py -->\n", "<!-- end -->\n"
LIMIT = 2

STEPS = '{"steps": [{"text": "A.", "picture": "a cat"}, {"text": "B."}]}'
READ = ["A.", "<a cat>", "B."]
# What it is for the page, or empty; the text; texts and, in brackets, prompts; what is counted.
STEP_CASES = [
    ("a marker on a line of its own", "A.\n[picture]\nB.", ["A.", "<A.>", "B."], {}),
    ("", "- [picture]\nA.\n> <image>\n", ["A.", "<A.>"], {NO_WORDS: 1}),
    (
        "with Markdown around it",
        "A.\n\n**[Picture 1]**\n\nB.\n`[picture]`",
        ["A.", "<A.>", "B.", "<B.>"],
        {},
    ),
    (
        "`<image>` or `[image 1]` on such a line",
        "A.\n<image>\nB.\n[Image 2]",
        ["A.", "<A.>", "B.", "<B.>"],
        {},
    ),
    (
        "a marker with words: they are the prompt",
        "A.\n[picture: a red door]",
        ["A.", "<a red door>"],
        {},
    ),
    (
        "markers within lines only",
        "A. [picture] B. **[picture]** C.",
        ["A.", "<A.>", "B.", "<B.>", "C."],
        {},
    ),
    (
        "one within a line, beside others",
        "Use [picture].\nA.\n[picture]",
        ["Use [picture].\nA.", "<Use [picture].\nA.>"],
        {LIKE_MARKER: 1},
    ),
    ("", "A.\n[picture]\nB. `[picture]`", ["A.", "<A.>", "B. `[picture]`"], {LIKE_MARKER: 1}),
    (
        "",
        "Use **[picture: a hen]**.\n[image 1]\n[picture: a cat]\n",
        ["Use **[picture: a hen]**.", "<Use [picture: a hen].>", "<a cat>"],
        {LIKE_MARKER: 1},
    ),
    (
        'Markdown, the step\'s number and "Sure!" are in no prompt',
        "Sure! Here is the rest:\n\n1. **Step 2:** A *red* door.\n[picture]",
        ["Sure! Here is the rest:\n\n1. **Step 2:** A *red* door.", "<A red door.>"],
        {},
    ),
    ("", "```\n# Step B\n* A | b\n[picture]\n```", ["```\n# Step B\n* A | b", "<A  b>", "```"], {}),
    (
        "`[image 1]` of the question, within a line",
        "As [image 1] shows: <image> A.",
        ["As [image 1] shows: <image> A."],
        {NO_PICTURE: 1},
    ),
    ("no marker", "A.\n\nB.", ["A.\n\nB."], {NO_PICTURE: 1}),
    (
        "more markers than pictures that the judge sees",
        "A.\n[picture]\nB.\n[picture]\nC.\n[picture]\nD.",
        ["A.", "<A.>", "B.", "<B.>", "C.", "D."],
        {OVER_LIMIT: 1},
    ),
    ("", "A. [picture]\n" * 100, None, {OVER_LIMIT: 98}),
    ("a marker before any text", "[picture]\nA.", ["A."], {NO_WORDS: 1, NO_PICTURE: 1}),
    ("", "[picture]", [""], {NO_WORDS: 1, NO_PICTURE: 1}),
    ("", "A.\n[picture]\n \n[picture]", ["A.", "<A.>"], {NO_WORDS: 1}),
    (
        "a marker that is cut off",
        "A.\n[picture]\nB.\n[pict",
        ["A.", "<A.>", "B.\n[pict"],
        {LIKE_MARKER: 1},
    ),
    (
        "escaped, or in other brackets",
        "A. \\[picture\\] B. (picture) {picture}",
        ["A. \\[picture\\] B. (picture) {picture}"],
        {LIKE_MARKER: 3, NO_PICTURE: 1},
    ),
    (
        "in another language or other words",
        "A.\n[图片]\nB.\n**[Insert picture here]**\nC.\n【picture】",
        None,
        {LIKE_MARKER: 3, NO_PICTURE: 1},
    ),
    (
        "links",
        "![picture](a.png), [picture](b)",
        ["![picture](a.png), [picture](b)"],
        {NO_PICTURE: 1},
    ),
]
DESCRIBE_CASES = [
    ("as requested, also in a code fence", STEPS, READ, {}),
    ("", f"```json\n{STEPS}\n```", READ, {}),
    ("with prose around it", f"Sure {{x}}: {STEPS} Done.", READ, {AROUND: 1}),
    (
        "with a comma after the last value",
        '{"steps": [{"text": "A,]", "picture": "a cat",},],}',
        ["A,]", "<a cat>"],
        {},
    ),
    (
        "cut off: its whole steps",
        '{"steps": [{"text": "A.", "picture": "a cat"}, {"text": "B',
        ["A.", "<a cat>"],
        {CUT_OFF: 1},
    ),
    ("", '{"steps": [{"text": "A."', ['{"steps": [{"text": "A."'], {NO_FORM: 1, NO_PICTURE: 1}),
    ("inside another object", f'{{"answer": {STEPS}}}', READ, {AROUND: 1}),
    (
        "a list of steps, another key",
        '[{"text": "A.", "image_description": "a cat"}]',
        ["A.", "<a cat>"],
        {},
    ),
    ("", '{"steps": ["A.", {"picture": "a cat"}]}', ["A.", "<a cat>"], {}),
    ("", '{"steps": [{"text": "A\nB", "picture": null}]}', ["A\nB"], {NO_PICTURE: 1}),
    (
        "further keys",
        '{"steps": [{"text": "A.", "picture": "a cat", "title": "T", "n": 1, "x": []}]}',
        ["A.", "<a cat>"],
        {"`title` of a step": 1, "`n` of a step": 1},
    ),
    (
        "an empty description",
        '{"steps": [{"text": "A.", "picture": ""}]}',
        ["A."],
        {NO_WORDS: 1, NO_PICTURE: 1},
    ),
    (
        "more descriptions than pictures that the judge sees",
        '[{"picture": "a"}, {"picture": "b"}, {"text": "C.", "picture": "c"}]',
        ["<a>", "<b>", "C."],
        {OVER_LIMIT: 1},
    ),
    (
        "other JSON, or prose",
        '{"steps": [{"caption": "A."}]}',
        ['{"steps": [{"caption": "A."}]}'],
        {NO_FORM: 1, NO_PICTURE: 1},
    ),
    ("", '{"steps": []}', ['{"steps": []}'], {NO_FORM: 1, NO_PICTURE: 1}),
    ("", "[" * 100_000, ["[" * 100_000], {NO_FORM: 1, NO_PICTURE: 1}),
    (
        "",
        '{"steps": [{"text": 5, "picture": ["x"]}]}',
        [],
        {"`text` of a step": 1, "`picture` of a step": 1, NO_PICTURE: 1},
    ),
]
CASES = {"step": STEP_CASES, "describe": DESCRIBE_CASES}


def read(name, text, limit=LIMIT):
    written = PROTOCOLS[name].read(text, limit)
    parts = [f"<{part.text}>" if isinstance(part, Prompt) else part for part in written.parts]
    return parts, dict(written.unused)


@pytest.mark.parametrize(
    ("name", "text", "parts", "unused"),
    [(name, *case) for name, cases in CASES.items() for _, *case in cases],
    ids=lambda value: str(value)[:40],
)
def test_what_a_writer_writes_is_read_and_what_is_not_used_is_counted(name, text, parts, unused):
    read_parts, read_unused = read(name, text)
    assert read_unused == unused
    assert parts is None or read_parts == parts


def table() -> str:
    """The page's table."""
    rows = [
        (
            name,
            description,
            _code(text),
            _shown(parts),
            ", ".join(f"{n} {k}" for k, n in unused.items()),
        )
        for name, cases in CASES.items()
        for description, text, parts, unused in cases
        if description
    ]
    head = ("protocol", "the writer writes", "example", "the judge sees; prompts", "counted")
    lines = [f"| {' | '.join(cells)} |\n" for cells in (head, ("---",) * len(head), *rows)]
    return "".join(lines)


def _shown(parts: list[str] | None) -> str:
    is_prompt = [part[:1] == "<" for part in parts or ()]
    shown = [
        f"picture of {_code(part[1:-1])}" if prompt else _code(part)
        for part, prompt in zip(parts or (), is_prompt, strict=True)
    ]
    return ", ".join(shown) or "the text"


def _code(text: str) -> str:
    line = text.replace("\n", "↵").replace("|", "\\|")
    return f"`` {line} ``" if "`" in line else f"`{line}`"


def with_table(page: str) -> str:
    before, _, rest = page.partition(START)
    return before + START + table() + END + rest.partition(END)[2]


def test_the_page_has_the_table():
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page) == page


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
        assert (NO_PICTURE in written.unused) == (not written.prompts)
        lost = bool(text.strip()) and not any(written.parts) and len(written.unused) == 1
        assert not lost


def test_the_words_of_a_protocol_do_not_change_without_its_version():
    words = {
        protocol.signature: hashlib.sha256(
            "".join(map(protocol.instruction, (1, 2, 3))).encode()
        ).hexdigest()[:12]
        for protocol in (*PROTOCOLS.values(), INSTRUCT)
    }
    assert words == WORDS


def test_the_number_of_steps_stands_in_the_words():
    for protocol in PROTOCOLS.values():
        assert "exactly 2 steps, each followed by one picture" in protocol.instruction(2)
        assert "exactly 1 step, followed by one picture" in protocol.instruction(1)


def test_the_words_for_models_that_draw_themselves_name_no_marker_and_no_drawer():
    words = INSTRUCT.instruction(2)
    assert PROTOCOLS["step"].instruction(2).startswith(words)
    assert not any(name in words for name in ("marker", "[", "text-to-image"))


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
