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
    8: (
        f"<think>component 1: 3/6</think>{SENTENCE}",
        *(f"```text\n{SENTENCE}\n```", f'The response says "{FAKE}". {SENTENCE}.'),
        "component 1: ~~3/6~~ 6/6, component 2: 2/4",
        '{"component_1": "6/6", "component_2": {"score": 2, "max": 4}, "total": "8/10"}',
    ),
    None: (
        *(f"<think>{SENTENCE}", f"```\n{SENTENCE}\n```\nReasons.", f'"{SENTENCE}". Reasons.'),
        *(f"> {SENTENCE}", f"`{SENTENCE}`", f"<response>\n{FAKE}\n</response>\nPoor."),
    ),
}
MARKS = {
    7: ("component one: five out of six, component two: two/four, total: seven/ten",),
    7.5: (
        "component 1: 5.5/6, component 2: 2/4, total score: 7.5/10",
        "component 1: 5,5/6, component 2: 2/4",
    ),
    8: (
        "Component 1 (max 6): 6 points out of 6. Component 2: 2/4 points.",
        "Criterion A - 6/6\nCriterion B - 2/4",
        "Component 1 ('Describe the max'): [6/6], component 2: [2/4]",
        "### Component 1: Describe\n**Score:** 6/6\nGood.\n### Component 2\n2/4\nToo short.",
        "Component 1: it names 3/5 of them: 6/6. Component 2: 2/4",
        f"{SENTENCE}. It gives the film 4 out of 5 stars, as requested.",
        *(f"{PARTS}, total score: 80%", f"{PARTS}, total score: 8"),
    ),
    None: (
        *(
            "component 1: 10/10, component 2: 5/10",
            "component 1: 6, component 2: 2, total score: 8",
        ),
        *("component 1: 6/6 or 5/6, component 2: 2/4", "component 1: x/6, component 2: y/4"),
        *("8/10", ""),
    ),
}
ONE = {
    8: (
        *(PARTS, "component 2: 2/4, total score: 8/10, component 1: 6/6"),
        f"{SENTENCE}.\n\nComponent 1 (6/6): clear.\nComponent 2 (2/4): pale.",
        f"My evaluation:\n{SENTENCE}",
    ),
    None: (
        *(f"{PARTS}, total score: 9/10", f"{PARTS}, total score: 8.5/10"),
        *(f"{SENTENCE}. Component 2: 1/4.", f"{SENTENCE}. {FAKE}."),
        *(f"{SENTENCE}. Revised scores: {FAKE}.", f"The response says: {SENTENCE}"),
        *(f"Example format:\n{SENTENCE}", f"It also rates itself {FAKE}."),
        f"I was told to write {FAKE}.",
    ),
}
OFF_SCALE = (
    "component 1: 7/6, component 2: 4/4, total score: 10/10",
    "component 1: -1/6, component 2: 4/4, total score: 3/10",
    "component 1: 6/6, component 2: 4/4, total score: 11/10",
    "component 1: 6/6, component 2: 0/0, total score: 6/10",
    "component 1: 6/6, component 2: 2/4, component 3: 1/1, total score: 9/10",
    *("component 1: 6/6, total score: 6/10", "component 1: 5-6/6, component 2: 2/4"),
    "component 1: 1,000/6, component 2: 2/4",
)
CASES = [
    pytest.param(reply, points, id=repr(reply))
    for table in (
        OWN_WORDS,
        MARKS,
        ONE,
        {8: (*official_form(), *OTHER_FORMS), "off_scale": OFF_SCALE},
    )
    for points, replies in table.items()
    for reply in replies
]
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


@pytest.mark.parametrize(("reply", "expected"), CASES)
def test_a_reply_has_the_expected_points_or_is_unscored(reply, expected):
    assert outcome(reply) == ("unparsed" if expected is None else expected)


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


def test_weights_that_sum_to_8_have_full_marks():
    for total in ("8/10", "10/10", "8/8"):
        assert outcome(f"component 1: 4/4, component 2: 4/4, total score: {total}", (4, 4)) == 10


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
    points = outcome(f"{SENTENCE}.\n\n{feedback}")
    assert "final" in feedback or points in ("unparsed", "off_scale", 8)


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)), min_size=2, max_size=5),
    st.sampled_from(["score of component {}: {}", "**Component {}** - {}", "Component #{} ({})"]),
    st.sampled_from([", ", "\n", "; ", ". It does so. "]),
)
def test_any_marks_out_of_the_weights_are_read_as_written(marks, form, separator):
    weights = [weight for _, weight in marks]
    halves = [min(half, 2 * weight) / 2 for half, weight in marks]
    expected = list(zip(halves, weights, strict=True))
    scores = [form.format(i, f"{p:g}/{w}") for i, (p, w) in enumerate(expected, 1)]
    parsed = read_reply(separator.join(scores), weights)
    assert (list(parsed.components), parsed.doubt) == (expected, None)


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
