"""Texts of writers, and what the protocol reads in them."""

from __future__ import annotations

from mmie_tasks.interleaved.protocols import LIKE_MARKER, NO_PICTURE, NO_WORDS, OVER_LIMIT

# What it is, or empty; the text; texts and, in brackets, prompts; what is counted.
CASES = [
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
