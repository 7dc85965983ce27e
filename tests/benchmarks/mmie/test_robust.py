"""The robust reader: the score that the judge states by the rules of its module, or unscored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.golden import vectors
from support.mmie_replies import FAIR, official_form

from mmie_tasks.benchmarks.mmie.robust import read_robust
from mmie_tasks.benchmarks.reply_text import LONGEST
from mmie_tasks.core.verdict import Scored, Unscored

# The points of each reply by the rule that decides it; None is unparsed.
OWN_WORDS = {
    "<think>### Score\n2</think>### Score\n4": 4,
    "[THINK]### Score 2.[/THINK]\n### Score\n4": 4,
    "<think>\n### Score\n2": None,
    "```\n### Feedback\nGood.\n### Score\n4\n```": 4,
    "It contains:\n```\n### Score\n6\n```\n### Score\n2": 2,
    "It contains:\n```\n### Score\n6\n```": None,
    "### Score\n2\n> ### Score\n> 6": 2,
    "### Score\n~~3~~ 4": 4,
    '"Score: 6" is what it wants.': None,
    'The model wrote "### Score\n6" here.\n### Score\n1': 1,
    "“Score: 6” is what it says.\nScore: 2": 2,
    "<response>\n### Score\n6\n</response>\nPoor.": None,
    "[answer]\n### Score\n6\n[/answer]\nThe answer is poor.": None,
}
VERDICTS = {
    "### Feedback\nClear steps.\n### Score\n5": 5,
    "###Score 4": 4,
    "## **Overall Score**\n\n**4/6**": 4,
    "Score — 4": 4,
    "| Text | 5 |\n| Images | 2 |\n| Overall | 4 |": 4,
    "Text score: 6\nOverall score: 4": 4,
    "<score>4</score>": 4,
    "Good.\n<rating>4</rating>": 4,
    "### Score\r\n4\r\n": 4,
    '```json\n{"feedback": "It claims ### Score 6.", "score": "4/6"}\n```': 4,
    '{"Final Score": 4.5, "max": 6}': 4.5,
    '{"score": null}': None,
    '{"scores": {"text": 4}}': None,
    "no score here 5": None,
    "Score reflects 4 strengths.": None,
    "Overall, the 3 pictures fit.\n### Score\n5": 5,
    "### Score for Text Quality\n4": None,
    "It shows 3 out of 4 steps.\n### Score\n5": 5,
    "I give the pictures 6 out of 6.": None,
    "The answer deserves a good score.": None,
}
VALUES = {
    "### Score\n.5": 0.5,
    "### Score: six.": 6,
    "### Score\n5<|end|>": 5,
    **{f"### Score\n{value}": 4 for value in ("four out of six", "`4`", "4\u20e3")},
    **dict.fromkeys(("### Score：４／６", "### Score (on a scale from 0 to 6): 4"), 4),
    "### Score\n4 - clear, but short": 4,
    **{
        f"### Score\n{value}": None for value in ("4, 5", "about 4", "4+", "4½", "2*2", "6?", "5-6")
    },
    **dict.fromkeys(("Score: 3 or 4", "### Score 6 is what the response claims."), None),
    "### Score\n1. The text is fine.\n2. The images are not.": None,
}
ONE = {
    "### Score\n4\n\n4/6": 4,
    "My verdict:\n### Score\n4": 4,
    "### Score\n1\n\nThe answer requested:\n### Score\n6": 1,
    "### Text\n#### Score\n5\n### Images\n#### Score\n3\n### Final Score\n4": 4,
    **dict.fromkeys(
        (
            *("### Score\n4\n5", "### Score\n4\n### Score\n5", "### Score: 4\nFinal score: 5"),
            *("Score: 5\nHowever, I give it 3.", '{"score": 4, "score": 5}'),
            *('{"score": 4}\nScore: 5', "### Score\n4/5", "### Score (0-10): 4"),
            *("### Score\n5 (maximum 10)", "Score: 6\nMax score: 10", "### Images\nScore: 3"),
            *("I use a 10-point scale.\n### Score\n6", '{"score": 6, "range": "0-10"}'),
            "The response says:\n### Score\n6",
        ),
        None,
    ),
}
OFF_SCALE = (
    *("### Score\n-1", "### Score: 10", "### Score\n6.5", "### Score\nseven", "### Score\n-0.4"),
    '{"score": -1}',
)
CASES = {**OWN_WORDS, **VERDICTS, **VALUES, **ONE, **FAIR, **dict.fromkeys(OFF_SCALE, "off_scale")}
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


@pytest.mark.parametrize(
    ("reply", "expected"), [pytest.param(*case, id=repr(case[0])) for case in CASES.items()]
)
def test_a_reply_has_the_expected_points_or_is_unscored(reply, expected):
    assert outcome(reply) == ("unparsed" if expected is None else expected)


def test_every_reply_in_the_official_form_is_scored_whatever_its_feedback():
    replies = list(official_form())
    assert len(replies) == 60
    assert [read_robust(text) for text, _ in replies] == [
        Scored(float(n), f"{n}") for _, n in replies
    ]


# The robust points where the official ones differ; None for unscored.
ROBUST_POINTS = {
    "internvl-2": 4.5,
    "internvl-3": 5.5,
    "internvl-4": 3.5,
    "internvl-9": 5,
    "internvl-11": None,
    "internvl-12": 3,
    "internvl-17": 0.5,
    "internvl-19": 4,
    "internvl-20": None,
    "internvl-22": 2.49,
    "internvl-23": 2.5,
    "sheet-final": 4,
    "sheet-enumerator": None,
    "sheet-label": 4,
    "sheet-lower-case": 4,
    "sheet-no-blank": 4,
    "sheet-quoted-earlier": 5,
    "sheet-scale": 4,
    "sheet-two-hashes": 4,
    "sheet-number -0.4": None,
    "sheet-number .5": 0.5,
    "sheet-number 6.5": None,
    **{f"sheet-number {n}": n for n in (0.5, 2.5, 3.5, 4.5, 5.5)},
}


@pytest.mark.parametrize("case", vectors("mmie_scores")["cases"], ids=lambda case: case["id"])
def test_robust_points_equal_the_official_ones_except_where_listed(case):
    official = case["score"] if case["score"] in range(7) else None
    points = outcome(case["text"])
    assert (None if isinstance(points, str) else points) == ROBUST_POINTS.get(case["id"], official)


def test_a_reply_above_the_longest_length_is_unscored():
    reply = "### Score\n4".ljust(LONGEST)
    assert (outcome(reply), outcome(f"{reply} ")) == (4, "unparsed")


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
