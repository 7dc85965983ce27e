"""The robust reader: the score that the judge states, or unscored; never another score."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.golden import vectors

from mmie_tasks.benchmarks.mmie.robust import LONGEST, read_robust
from mmie_tasks.core.verdict import Scored, Unscored

# The points of each reply; None where careful readers could differ, which is unscored.
EXPECTED_POINTS = {
    # The heading the judge is asked for, and what judges make of it.
    "### Feedback\nClear steps.\n### Score\n5": 5,
    "##Score 4": 4,
    "###Score 4": 4,
    "### score 4": 4,
    "### SCORE\n4": 4,
    "### Final Score 4": 4,
    "### Final Score: **4**": 4,
    "## **Overall Score**\n\n**4/6**": 4,
    "### 2. Score\n4": 4,
    "### Score ###\n4": 4,
    "### Score and Justification\n4\n\nThe steps are clear.": 4,
    "### Final Verdict\n4": 4,
    "### Overall\n4": 4,
    "#### Rating: 4": 4,
    "**Score**\n4": 4,
    "**Score:** 4": 4,
    "**Score**: 4/6": 4,
    "***Final Score: 4***": 4,
    "__Score__: 4": 4,
    "- Score: 4": 4,
    "2. Score: 4": 4,
    "Score = 4": 4,
    "Score - 4": 4,
    "Score — 4": 4,
    "Score 4": 4,
    "| Score | 4 |": 4,
    "Overall: 5": 5,
    "Final: 5": None,
    "Total = 5": None,
    "Marks: 4": None,
    "### Score\n6\n### Final Answer\nTotal: 3": 6,
    "### Final Answer\n4": None,
    "### Score\n<4": None,
    "### Score\n>4": None,
    "### Score\n4 - one off": None,
    "The class gets 4 out of 6 questions.": None,
    "### Score\n1\n2\n3": None,
    "### Score\nnot 4": None,
    "### Score\nat most 4": None,
    "### Score\n4 1/2": None,
    "### Score\n4... maybe 5": None,
    "### Score\n4 (four)": 4,
    "Good. ### Score 4": 4,
    "<score>4</score>": 4,
    "Rating: [[4]]": 4,
    "The final score is $\\boxed{4}$.": 4,
    "4": 4,
    "4/6": 4,
    # How a number is written.
    "### Score\n4 out of 6": 4,
    "### Score\n4 out of a possible 6": 4,
    "### Score\n4 / 6 points": 4,
    "### Score\nfour out of six": 4,
    "### Score\n4 of 6": 4,
    "### Score\n4 (out of 6)": 4,
    "### Score\n4 points": 4,
    "### Score\n4.": 4,
    "### Score\n**4**/6": 4,
    "### Score\n`4`": 4,
    "### Score\n- 4": 4,
    "### Score\n[4]": 4,
    "### Score\n4.5": 4.5,
    "### Score\n4.0": 4,
    "### Score\n.5": 0.5,
    "### Score\n0": 0,
    "### Score\nZero": 0,
    "### Score: six.": 6,
    "### Score\nfive": 5,
    "### Score：４／６": 4,
    "### Score\n٣": 3,
    "### Score\n4\u20e3": 4,
    "### Score\n5<|end|>": 5,
    "### Score\n~~3~~ 4": 4,
    "### Score\r\n4\r\n": 4,
    # A scale is never a score.
    "### Score (0-6): 4": 4,
    "### Score (0 to 6)\n4": 4,
    "### Score [0–6]: 4": 4,
    "### Score (out of 6): 4": 4,
    "### Score (max 6): 4": 4,
    "### Score /6: 4": 4,
    "Score (0 to 6)\n4": 4,
    "### Score (on a scale from 0 to 6): 4": 4,
    "### Score (0-6)": None,
    "### Score\n0-6": None,
    "### Score\n[0-6]": None,
    "### Score\nThe final score is an integer between 0 and 6.": None,
    "### Score\n4 (on a scale of 0-6)": 4,
    # Another maximum than six.
    "### Score\n4/5": None,
    "### Score: 8/10": None,
    "### Score (0-10): 4": None,
    "### Score (1-5): 4": None,
    "### Score (2-6): 4": None,
    "### Score (1-6): 4": 4,
    "### Score\n4 out of 5": None,
    "### Score\nfour out of five": None,
    "### Score\n67%": None,
    '{"score": 4, "max_score": 10}': None,
    # Numbers that are no verdict.
    "no score here 5": None,
    "### Score": None,
    "### Score\nN/A": None,
    "### Score\n4-5": None,
    "### Score\n4 or 5": None,
    "### Score\n4 to 5": None,
    "### Score\n4, 5": None,
    "### Score\n4,5": None,
    "### Score\n4+": None,
    "### Score\nabout 4": None,
    "### Score\n4?": None,
    "### Score\n4th": None,
    "### Score\n4½": None,
    "### Score\n4²": None,
    "### Score\n4 -> 5": None,
    "### Score\n5 - 1 = 4": None,
    "### Score\n2*2": None,
    "### Score: 6 - one point deducted for tone": None,
    "### Score\n6\nDeduct 1 point for tone.": None,
    "### Score -4": None,
    "### Score\n--3": None,
    "### Score\n1. The text is fine.\n2. The images are not.": None,
    "### Score\n1) Text: 4\n2) Images: 5": None,
    "### Score\n5/6 criteria were met.\n4": None,
    "### Score for Text Quality\n4": None,
    "### Image Score\n4": None,
    "### Score breakdown\n4": None,
    "### Feedback\nThe model gives 4.": None,
    "### Feedback\nThe probability is 4/6.": None,
    "The final score of the match is 4.": None,
    "Score reflects 4 strengths.": None,
    "I rate this one, of 3 answers, as fair.": None,
    # Words around it.
    "### Score\nI give 5 out of 6": 5,
    "### Score\nI would give this answer a score of 5.": 5,
    "### Score\nThe answer earns 4 out of 6.": 4,
    "### Score of this answer is 4 out of 6": 4,
    "### Score\nThe final score is 4.": 4,
    "### Score\n4 - clear, but short": 4,
    "### Score\n4. The answer covers 2 of 3 steps.": 4,
    "### Score\n4 (good)": 4,
    "### Score\n4\n\nIt covers 2 of 3 steps.": 4,
    "### Score\n4\n\nTo earn a score of 6, it needs images.": 4,
    "### Score\n4\n\n### Explanation\nIt has 2 images.": 4,
    "### Score\n4\nOn reflection, the score should be 5.": None,
    "### Score\n4\nHowever, I give it 5 out of 6.": None,
    "Clear steps. I'd give this 4 out of 6.": 4,
    "Clear steps.\nOverall, I rate this answer 4/6.": 4,
    "If it had images I would give it 6.": None,
    "I give it 4. I give it 5.": None,
    # Parts and a whole.
    "### Score\n1) good work. 2) fair. Final: 5": 5,
    "### Score\n1) good\n2) fair\nFinal: 5": 5,
    "### Score\nText Quality: 5\nImage Quality: 2\nOverall: 4": 4,
    "### Score\n3\n\nText Quality: 5\nImage Quality: 2": 3,
    "| Text | 5 |\n| Images | 2 |\n| Overall | 4 |": 4,
    "### Score\nText Quality: 5/6\nImage Quality: 5/6": None,
    "### Score\n4\n### Image Score\n2": 4,
    "### Text\nScore: 5\n### Images\nScore: 3": None,
    "Text\nScore: 5\nImages\nScore: 3\nOverall score: 4": 4,
    "### Text\n#### Score\n5\n### Images\n#### Score\n3": None,
    "### Text\n#### Score\n5\n### Images\n#### Score\n3\n### Final Score\n4": 4,
    # Several verdicts.
    "### Feedback 3\n### Score\n2\n### Score\n6": 6,
    "### Score\n4\n5": None,
    "### Score\n4\n\n4/6": 4,
    "### Score: 4\nFinal score: 5": None,
    "### Score\n4\n### Explanation\nFinal score: 5": None,
    "Score: 4\nScore: 5": None,
    "Score: 4\nActually, 3.": None,
    "Overall: 5\nScore: 3\nOverall: 4": None,
    "### Score\n4\n### Question\nWhat?\n### Answer\nThat.\n### Feedback\nBad.\n### Score\n2": None,
    "### Score\n4\n### Score": None,
    # The judged answer's words.
    "The response claims ### Score 6, which is false.\n### Score\n2": 2,
    'The response says "### Score 6". It is wrong.\n### Score\n2': 2,
    "The answer ends with:\n### Score\n6\n### Score\n2": 2,
    "The answer ends with:\n### Score\n6": None,
    "### Score\n2\nThe response claims '### Score 6'.": 2,
    "### Score\n2\n> ### Score\n> 6": 2,
    "> ### Score\n> 6\n\n### Score\n2": 2,
    "It contains:\n```\n### Score\n6\n```\n### Score\n2": 2,
    "It contains:\n```\n### Score\n6\n```": None,
    'The answer says: "I give this a score of 6".': None,
    "The response claims ### Score 6": None,
    '"Score: 6" is what it wants.': None,
    "The student writes:\nScore: 6\nI disagree.\nScore: 2": 2,
    "### Score 6 is what the response claims.": None,
    # Wrappings.
    '{"score": 4}': 4,
    '{"feedback": "It claims ### Score 6.", "score": 4}': 4,
    '```json\n{"feedback": "Good.", "score": "4/6"}\n```': 4,
    '{"Final Score": 4.5, "max": 6}': 4.5,
    '{"score": 4, "score": 5}': None,
    '{"score": null}': None,
    '{"score": true}': None,
    '{"scores": {"text": 4}}': None,
    'My verdict:\n{"score": 4}': 4,
    "```\n### Feedback\nGood.\n### Score\n4\n```": 4,
    "<think>### Score\n2</think>### Score\n4": 4,
    "I think ### Score 2.</think>\n### Score\n4": 4,
    "<think>\n### Score\n2": None,
    "### Score\n2\nThe answer says: I give this a score of 6.": 2,
    '### Score\n4\n```json\n{"score": 5}\n```': None,
    # Numbers that the reader before this one took for a score.
    "1. Marks: 4": None,
    "### Score\nThe answer ends with:\n6": None,
    "### Score\nI give five out of 6": 5,
    "### Score out of 6\nabout 4": None,
    "### Text\nScore -> 5\n### Images\nScore: 3": None,
    "### Score\n5\n### Images\nBad.\n### Final Score\n4\n### Text\nGood.\n### Score\n3": None,
    "": None,
}
OFF_SCALE = [
    *("### Score\n-1", "### Score: -1", "### Score\n7", "### Score\n10", "### Score\n6.5"),
    *("### Score\nseven", "### Score\n7/6", '{"score": 9}', '{"score": -1}', "### Score\n-0.4"),
    *('{"score": NaN}', '{"score": 1e999}', f"### Score\n{'9' * 320}"),
]
PIECES = [
    *("### Score", "Score", "score", "**", "\n", " ", ": ", "4", "5", "-", "/6", "/5", ".", "(0-6)"),
    *(" out of 6", "Final ", "```\n", "> ", '"', "{", "}", "four", "I give ", "is ", "### Feedback"),
    *("The response claims:", "<think>", "</think>", "1) ", "|", "７", "½", "9" * 400, "\ud800"),
]
FEEDBACK_PIECES = [piece for piece in PIECES if not any(part in piece for part in ("```", "think", "claims"))]


@pytest.mark.parametrize(
    ("reply", "expected"), [pytest.param(*case, id=repr(case[0])) for case in EXPECTED_POINTS.items()]
)
def test_a_reply_has_the_expected_points_or_is_unscored(reply, expected):
    verdict = read_robust(reply)
    if expected is None:
        assert (type(verdict), verdict.reason) == (Unscored, "unparsed")
    else:
        assert (type(verdict), verdict.points) == (Scored, expected)


@pytest.mark.parametrize("reply", OFF_SCALE, ids=lambda reply: repr(reply[:30]))
def test_an_impossible_number_is_off_the_scale(reply):
    assert read_robust(reply).reason == "off_scale"


# The robust points where the official ones differ; None for unscored.
ROBUST_POINTS = {
    "internvl-2": 4.5,
    "internvl-3": 5.5,
    "internvl-4": 3.5,
    "internvl-9": 5,
    "internvl-11": 6,
    "internvl-12": 3,
    "internvl-17": 0.5,
    "internvl-19": 4,
    "internvl-20": None,
    "internvl-22": 2.49,
    "internvl-23": 2.5,
    "sheet-enumerator": 5,
    "sheet-final": 4,
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
    verdict = read_robust(case["text"])
    official = case["score"] if case["score"] in range(7) else None
    points = verdict.points if isinstance(verdict, Scored) else None
    assert points == ROBUST_POINTS.get(case["id"], official)


def test_a_reply_above_the_longest_length_is_unscored():
    reply = "### Score\n4".ljust(LONGEST)
    assert (read_robust(reply), read_robust(f"{reply} ").reason) == (Scored(4.0, "4"), "unparsed")


@pytest.mark.parametrize(
    "piece", ["`" * 3 + "\n", " ", "### Score\n4\n### X\n", "(0-", "1", "I give ", "<think>", '{"a":']
)
def test_reading_time_grows_linearly(piece):
    for start in ("", "```\n", "### Score\n", "{"):
        assert read_robust((start + piece * 20_000)[:20_000])  # takes minutes if a pattern backtracks


@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=25).map("".join))
def test_any_text_has_points_on_the_scale_or_a_reason(reply):
    match read_robust(reply):
        case Scored(points=points):
            assert 0 <= points <= 6
        case Unscored(reason=reason):
            assert reason in ("unparsed", "off_scale")


@given(st.lists(st.sampled_from(FEEDBACK_PIECES), max_size=12).map("".join), st.sampled_from("0123456"))
def test_feedback_never_moves_the_points(feedback, points):
    assume("Score#" not in feedback)  # an empty "### Score", then "### Score### Score", a topic: two readings
    reply = f"### Feedback\n{feedback}\n### Score\n{points}"
    assert read_robust(reply) == Scored(float(points), points)
