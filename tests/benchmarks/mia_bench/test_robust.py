"""The robust reader: the marks that the judge gives by the rules of its modules, or unscored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.golden import vectors
from support.mia_replies import FAKE, OTHER_FORMS, SENTENCE, official_form

from mmie_tasks.benchmarks.mia_bench.robust import is_impossible, read_reply, read_robust
from mmie_tasks.benchmarks.reply_text import LONGEST
from mmie_tasks.core.verdict import Scored, Unscored

WEIGHTS = (6, 4)
PARTS = "component 1: 6/6, component 2: 2/4"

# Points out of 10 of each reply by the rule that decides it; None is unparsed. Weights are 6 and 4.
OWN_WORDS = {
    f"<think>component 1: 3/6</think>{SENTENCE}": 8,
    f"<think>{SENTENCE}": None,
    f"```text\n{SENTENCE}\n```": 8,
    f"```\n{SENTENCE}\n```\nReasons.": None,
    f'"{SENTENCE}". Reasons.': None,
    f"> {SENTENCE}": None,
    f"`{SENTENCE}`": None,
    f"<response>\n{FAKE}\n</response>\nPoor.": None,
    f'The response says "{FAKE}". {SENTENCE}.': 8,
    "component 1: ~~3/6~~ 6/6, component 2: 2/4": 8,
    '{"component_1": "6/6", "component_2": {"score": 2, "max": 4}, "total": "8/10"}': 8,
}
MARKS = {
    "component one: five out of six, component two: two/four, total: seven/ten": 7,
    "component 1: 5.5/6, component 2: 2/4, total score: 7.5/10": 7.5,
    "component 1: 5,5/6, component 2: 2/4": 7.5,
    "Component 1 (max 6): 6 points out of 6. Component 2: 2/4 points.": 8,
    "Criterion A - 6/6\nCriterion B - 2/4": 8,
    "Component 1 ('Describe the max'): [6/6], component 2: [2/4]": 8,
    "### Component 1: Describe\n**Score:** 6/6\nGood.\n### Component 2\n2/4\nToo short.": 8,
    "Component 1: it names 3/5 of them: 6/6. Component 2: 2/4": 8,
    f"{SENTENCE}. It gives the film 4 out of 5 stars, as requested.": 8,
    f"{PARTS}, total score: 80%": 8,
    f"{PARTS}, total score: 8": 8,
    "component 1: 10/10, component 2: 5/10": None,
    "component 1: 6, component 2: 2, total score: 8": None,
    "component 1: 6/6 or 5/6, component 2: 2/4": None,
    "component 1: x/6, component 2: y/4": None,
    "8/10": None,
    "": None,
}
ONE = {
    PARTS: 8,
    "component 2: 2/4, total score: 8/10, component 1: 6/6": 8,
    f"{SENTENCE}.\n\nComponent 1 (6/6): clear.\nComponent 2 (2/4): pale.": 8,
    f"{PARTS}, total score: 9/10": None,
    f"{PARTS}, total score: 8.5/10": None,
    f"{SENTENCE}. Component 2: 1/4.": None,
    f"{SENTENCE}. {FAKE}.": None,
    f"{SENTENCE}. Revised scores: {FAKE}.": None,
    f"My evaluation:\n{SENTENCE}": 8,
    f"The response says: {SENTENCE}": None,
    f"Example format:\n{SENTENCE}": None,
    f"It also rates itself {FAKE}.": None,
    f"I was told to write {FAKE}.": None,
}
OFF_SCALE = (
    "component 1: 7/6, component 2: 4/4, total score: 10/10",
    "component 1: -1/6, component 2: 4/4, total score: 3/10",
    "component 1: 6/6, component 2: 4/4, total score: 11/10",
    "component 1: 6/6, component 2: 0/0, total score: 6/10",
    "component 1: 6/6, component 2: 2/4, component 3: 1/1, total score: 9/10",
    "component 1: 6/6, total score: 6/10",
    "component 1: 5-6/6, component 2: 2/4",
    "component 1: 1,000/6, component 2: 2/4",
)
CASES = {
    **OWN_WORDS,
    **MARKS,
    **ONE,
    **dict.fromkeys(OTHER_FORMS, 8),
    **dict.fromkeys(OFF_SCALE, "off_scale"),
}
GOLDEN = [case for case in vectors("mia_bench")["cases"] if isinstance(case["reply"], str)]
# What the rules leave unscored although a person reads a verdict.
GOLDEN_UNSCORED = {
    *("mia-026", "mia-066", "mia-070"),  # all of it quoted, fenced, or a block quote
    *("mia-098", "mia-142", "mia-144", "mia-166"),  # other maxima than the weights
    "mia-140",  # "Component 2: 4/4 would need ..."
    "mia-198",  # in Chinese
    "mia-228",  # a Python literal
}
PIECES = [
    *("component 1", "component 2", "component 3", "total score", "first", "1.", "C1", "final "),
    *(": ", " ", ", ", ". ", "\n", "|", '"', "'", "`", "```", "> ", "(", ")", "-", "=", "+", "**"),
    *("6/6", "2/4", "8/10", "6", "/", "1,5", ".5", "out of", "the response says ", "½", "<think>"),
    *(SENTENCE, FAKE, '{"score": 6, "max": 6}', "9" * 400, "\ud800", "٣"),
]


def outcome(reply, weights=WEIGHTS):
    """The points out of 10, or the reason that there are none."""
    match read_robust(weights, reply):
        case Scored(points=points):
            return pytest.approx(10 * points)
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
    assert [reply for reply in replies if outcome(reply) != 8] == []


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["id"])
def test_a_golden_reply_is_read_as_intended_or_not_at_all(case):
    parsed = read_reply(case["reply"], case["component_weight"])
    if parsed.doubt is None:
        marks = [mark and tuple(mark) for mark in case["intended"]["components"]]
        assert list(parsed.components) == marks
    elif case["intended"] and not case["ambiguous"]:
        assert parsed.doubt.reason == "off_scale" or case["id"] in GOLDEN_UNSCORED


def test_only_what_cannot_be_meant_is_asked_again():
    assert all(is_impossible(WEIGHTS, reply) for reply in OFF_SCALE)
    for reply in (SENTENCE, "I cannot help.", f"{SENTENCE}. {FAKE}."):
        assert not is_impossible(WEIGHTS, reply)


@pytest.mark.parametrize("total", ["8/10", "10/10", "8/8"])
def test_weights_that_sum_to_8_have_full_marks(total):
    reply = f"component 1: 4/4, component 2: 4/4, total score: {total}"
    assert outcome(reply, (4, 4)) == 10


def test_a_reply_beyond_the_longest_is_unscored():
    reply = f"{SENTENCE}. ".ljust(LONGEST)
    assert outcome(reply) == 8
    assert "characters" in read_robust(WEIGHTS, f"{reply} ").detail


@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_any_reply_gets_a_verdict_on_the_scale(reply):
    for weights in (WEIGHTS, (4, 3, 3), (10,)):
        verdict = read_robust(weights, reply)
        assert isinstance(verdict, Unscored) or 0 <= verdict.points <= 1


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_hostile_feedback_makes_a_doubt_at_most(feedback):
    assert "final" in feedback or outcome(f"{SENTENCE}.\n\n{feedback}") in (
        "unparsed",
        "off_scale",
        8,
    )


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)), min_size=2, max_size=5),
    st.sampled_from(["score of component {}: {}", "**Component {}** - {}", "Component #{} ({})"]),
    st.sampled_from([", ", "\n", "; ", ". It does so. "]),
)
def test_any_marks_out_of_the_weights_are_read_as_written(marks, form, separator):
    weights = [weight for _, weight in marks]
    halves = [min(half, 2 * weight) / 2 for half, weight in marks]
    scores = [
        form.format(i, f"{p:g}/{w}")
        for i, (p, w) in enumerate(zip(halves, weights, strict=True), 1)
    ]
    parsed = read_reply(separator.join(scores), weights)
    assert list(parsed.components) == list(zip(halves, weights, strict=True))
    assert parsed.doubt is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        *(f"{SENTENCE}. ", "component 1: 1/1 ", "1/", "\n", " ", "“", " 'a", "component 1 (a, "),
        *("```\n", "\\frac{", "<a>", "== a ==\n", "says this ", "gets the ", "I would ", "{"),
    ],
)
def test_reading_time_grows_linearly(piece):
    for start in ("", f"{SENTENCE}. ", "{"):
        text = (start + piece * 10_000)[:10_000]
        assert read_reply(text, WEIGHTS)  # takes minutes if a pattern backtracks
