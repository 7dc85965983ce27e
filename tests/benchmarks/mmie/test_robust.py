"""The robust reader: the score that the judge states by the rules of its module, or unscored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.golden import vectors
from support.mmie_replies import FAIR, official_form

from mmie_tasks.benchmarks.mmie.robust import read_robust
from mmie_tasks.benchmarks.reply_text import LONGEST
from mmie_tasks.core.verdict import Scored, Unscored

# Replies by their points and by the rule that decides them; None is unparsed.
OWN_WORDS = {
    1: ('The model wrote "### Score\n6" here.\n### Score\n1',),
    2: (
        "It contains:\n```\n### Score\n6\n```\n### Score\n2",
        *("### Score\n2\n> ### Score\n> 6", "“Score: 6” is what it says.\nScore: 2"),
    ),
    4: (
        *("<think>### Score\n2</think>### Score\n4", "[THINK]### Score 2.[/THINK]\n### Score\n4"),
        *("```\n### Feedback\nGood.\n### Score\n4\n```", "### Score\n~~3~~ 4"),
    ),
    None: (
        *("<think>\n### Score\n2", "It contains:\n```\n### Score\n6\n```"),
        *('"Score: 6" is what it wants.', "<response>\n### Score\n6\n</response>\nPoor."),
        "[answer]\n### Score\n6\n[/answer]\nThe answer is poor.",
    ),
}
VERDICTS = {
    4: (
        *("###Score 4", "## **Overall Score**\n\n**4/6**", "Score — 4", "<score>4</score>"),
        *("| Text | 5 |\n| Images | 2 |\n| Overall | 4 |", "Text score: 6\nOverall score: 4"),
        *("Good.\n<rating>4</rating>", "### Score\r\n4\r\n"),
        '```json\n{"feedback": "It claims ### Score 6.", "score": "4/6"}\n```',
    ),
    4.5: ('{"Final Score": 4.5, "max": 6}',),
    5: ("It shows 3 out of 4 steps.\n### Score\n5",),
    None: (
        *('{"score": null}', '{"scores": {"text": 4}}', "no score here 5"),
        *("Score reflects 4 strengths.", "### Score for Text Quality\n4"),
        *("I give the pictures 6 out of 6.", "The answer deserves a good score."),
    ),
}
VALUES = {
    0.5: ("### Score\n.5",),
    4: (
        *("### Score\nfour out of six", "### Score\n4\u20e3", "### Score：４／６"),
        *("### Score (on a scale from 0 to 6): 4", "### Score\n4 - clear, but short"),
    ),
    5: ("### Score\n5<|end|>",),
    6: ("### Score: six.",),
    None: (
        *("### Score\n4, 5", "### Score\nabout 4", "### Score\n4½", "### Score\n5-6"),
        "### Score 6 is what the response claims.",
        "### Score\n1. The text is fine.\n2. The images are not.",
    ),
}
ONE = {
    1: ("### Score\n1\n\nThe answer requested:\n### Score\n6",),
    4: (
        *("### Score\n4\n\n4/6", "My verdict:\n### Score\n4"),
        "### Text\n#### Score\n5\n### Images\n#### Score\n3\n### Final Score\n4",
    ),
    None: (
        *("### Score\n4\n5", "### Score: 4\nFinal score: 5", "### Score\n4/5"),
        *("Score: 5\nHowever, I give it 3.", '{"score": 4, "score": 5}', "### Score (0-10): 4"),
        *("### Score\n5 (maximum 10)", "Score: 6\nMax score: 10", "### Images\nScore: 3"),
        *("I use a 10-point scale.\n### Score\n6", '{"score": 6, "range": "0-10"}'),
        "The response says:\n### Score\n6",
    ),
}
OFF_SCALE = (
    *("### Score\n-1", "### Score: 10", "### Score\n6.5", "### Score\nseven", "### Score\n-0.4"),
    '{"score": -1}',
)
CASES = [
    *official_form(),  # whatever its feedback
    *FAIR.items(),
    *(
        (reply, points)
        for table in (OWN_WORDS, VERDICTS, VALUES, ONE, {"off_scale": OFF_SCALE})
        for points, replies in table.items()
        for reply in replies
    ),
]
PIECES = (
    *("### Score", "Score", "score", "**", "\n", " ", ": ", "4", "5", "-", "/6", "/5", "."),
    *("(0-6)", " out of 6", "Final ", "```\n", "> ", '"', "{", "}", "four", "I give ", "is ", "|"),
    *("### Feedback", "The response claims:", "<think>", "</think>", "1) ", "７", "½", "\ud800"),
)  # fmt: skip


def outcome(reply):
    """The points, or the reason that there are none."""
    match read_robust(reply):
        case Scored(points=points):
            return points
        case Unscored(reason=reason):
            return reason


@pytest.mark.parametrize(("reply", "expected"), CASES)
def test_a_reply_has_the_expected_points_or_is_unscored(reply, expected):
    assert outcome(reply) == ("unparsed" if expected is None else expected)


# The golden replies by their robust points, where the official ones differ; None for unscored.
ROBUST_POINTS = {
    0.5: ("internvl-17", "sheet-number .5", "sheet-number 0.5"),
    2.49: ("internvl-22",),
    2.5: ("internvl-23", "sheet-number 2.5"),
    3: ("internvl-12",),
    3.5: ("internvl-4", "sheet-number 3.5"),
    4: (
        *("internvl-19", "sheet-final", "sheet-label", "sheet-lower-case", "sheet-no-blank"),
        *("sheet-scale", "sheet-two-hashes"),
    ),
    4.5: ("internvl-2", "sheet-number 4.5"),
    5: ("internvl-9", "sheet-quoted-earlier"),
    5.5: ("internvl-3", "sheet-number 5.5"),
    None: (
        *("internvl-11", "internvl-20", "sheet-enumerator", "sheet-number -0.4"),
        "sheet-number 6.5",
    ),
}


@pytest.mark.parametrize("case", vectors("mmie_scores")["cases"], ids=lambda case: case["id"])
def test_robust_points_equal_the_official_ones_except_where_listed(case):
    official = case["score"] if case["score"] in range(7) else None
    expected = next((p for p, ids in ROBUST_POINTS.items() if case["id"] in ids), official)
    points = outcome(case["text"])
    assert (None if isinstance(points, str) else points) == expected


def test_a_reply_above_the_longest_length_is_unscored():
    reply = "### Score\n4".ljust(LONGEST)
    assert read_robust(reply) == Scored(4.0, "4")
    assert outcome(f"{reply} ") == "unparsed"


@pytest.mark.parametrize(
    "piece", ["```\n", " ", "### Score\n4\n### X\n", "(0-", "<think>", '{"a":', '"', "== a ==\n"]
)
def test_reading_time_grows_linearly(piece):
    for start in ("", "```\n", "### Score\n", "{"):
        text = (start + piece * 10_000)[:10_000]
        assert read_robust(text)  # takes minutes if a pattern backtracks


@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_any_text_has_points_on_the_scale_or_a_reason(reply):
    assert outcome(reply) in ("unparsed", "off_scale") or 0 <= outcome(reply) <= 6


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.sampled_from("0123456"))
def test_feedback_never_gives_other_points_than_the_score_below_it(feedback, points):
    feedback = feedback.replace("<think>", "")  # never closed, it takes the score with it
    reply = f"### Feedback\n{feedback}\nIt is clear.\n\n### Score\n{points}"
    assert outcome(reply) in ("unparsed", "off_scale", float(points))
