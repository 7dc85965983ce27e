"""The robust reader: what a careful person takes from a reply, and what nobody should."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.golden import vectors
from support.mia_replies import DOUBTED, FAKE, OTHER_VERDICTS, SAME_VERDICT, SENTENCE

from mmie_tasks.benchmarks.mia_bench.metrics import robust_shares
from mmie_tasks.benchmarks.mia_bench.robust import LONGEST, is_impossible, read_reply, read_robust
from mmie_tasks.benchmarks.mia_bench.sample import Sample
from mmie_tasks.core.verdict import Scored, Unscored

WEIGHTS = (6, 4)
CASES = [case for case in vectors("mia_bench")["cases"] if isinstance(case["reply"], str)]
READABLE = [case for case in CASES if case["intended"] and not case["ambiguous"]]
PIECES = [
    *("component 1", "component 2", "component 3", "total score", "first", "1.", "C1", "final"),
    *(": ", " ", ", ", ". ", "\n", "|", '"', "'", "`", "```", "> ", "(", ")", "-", "=", "+", "**"),
    *("6/6", "2/4", "8/10", "6", "/", "1,5", ".5", "out of", "the response says ", "½", "<think>"),
    *(SENTENCE, FAKE, '{"score": 6, "max": 6}'),
]


def sample_of(weights=WEIGHTS, categories=("describe", "mention", "math", "grammar")):
    return Sample(
        id="0",
        instruction="Name it in red.",
        type="basic",
        components=tuple(f"part {i}" for i in range(len(weights))),
        weights=weights,
        categories=categories[: len(weights)],
    )


def cases_of(table):
    return [pytest.param(value, id=name) for name, value in table.items()]


def intended(case):
    marks = [mark and tuple(mark) for mark in case["intended"]["components"]]
    total = case["intended"]["total"]
    return marks, total and tuple(total)


@pytest.mark.parametrize("case", READABLE, ids=lambda case: case["id"])
def test_a_golden_reply_is_read_as_intended_or_not_at_all(case):
    parsed = read_reply(case["reply"], case["component_weight"])
    marks, total = intended(case)
    possible = all(m and 0 <= m[0] <= m[1] and m[1] for m in [*marks, total or (0, 1)])
    too_many = case["note"].startswith("one too many")
    if parsed.doubt is None:
        assert (list(parsed.components), parsed.total) == (marks, total)
    assert (parsed.doubt is None) is (possible and not too_many)


@pytest.mark.parametrize("case", [case for case in CASES if case["intended"] is None], ids=lambda case: case["id"])
def test_a_golden_reply_without_a_verdict_has_none(case):
    assert read_reply(case["reply"], case["component_weight"]).doubt is not None


@pytest.mark.parametrize("reply", cases_of(SAME_VERDICT))
def test_one_verdict_in_many_ways(reply):
    parsed = read_reply(reply, WEIGHTS)
    assert parsed.doubt is None
    assert (parsed.components, parsed.total) == (((6, 6), (2, 4)), (8, 10))


@pytest.mark.parametrize(
    ("reply", "marks", "total"), [pytest.param(*value, id=name) for name, value in OTHER_VERDICTS.items()]
)
def test_other_verdicts(reply, marks, total):
    parsed = read_reply(reply, WEIGHTS)
    assert parsed.doubt is None
    assert (list(parsed.components), parsed.total) == (marks, total)


@pytest.mark.parametrize("reply", cases_of(DOUBTED))
def test_a_doubtful_reply_is_no_verdict(reply):
    verdict = read_robust(sample_of(), reply)
    assert isinstance(verdict, Unscored)
    assert verdict.reason in {"unparsed", "off_scale"}


@pytest.mark.parametrize("name", ["above", "total-above", "negative", "zero-scale", "too-many", "one-of-two"])
def test_what_cannot_be_meant_is_worth_asking_again(name):
    assert is_impossible(sample_of(), DOUBTED[name])


@pytest.mark.parametrize("reply", [SENTENCE, DOUBTED["refusal"], DOUBTED["two-verdicts"]])
def test_what_is_read_or_is_no_verdict_is_not_asked_again(reply):
    assert not is_impossible(sample_of(), reply)


@pytest.mark.parametrize(
    ("reply", "points"),
    [
        pytest.param(SENTENCE, 0.8, id="stated"),
        pytest.param(SENTENCE.replace("8/10", "9/10"), 0.9, id="stated-and-wrong"),
        pytest.param(SENTENCE.partition(", total")[0], 0.8, id="recomputed"),
        pytest.param("component 1: 1/2, component 2: 2/2, total: 70%", 0.7, id="by-weight"),
    ],
)
def test_the_stated_total_counts_and_a_missing_one_is_what_the_components_make(reply, points):
    assert read_robust(sample_of(), reply).points == pytest.approx(points)


def test_a_total_that_its_components_do_not_make_does_not_agree():
    assert not read_reply(SENTENCE.replace("8/10", "9/10"), WEIGHTS).agrees
    assert read_reply("component 1: 8/10, component 2: 5/10, total score: 7/10", WEIGHTS).agrees


@pytest.mark.parametrize("total", ["8/10", "10/10", "8/8"])
def test_weights_that_sum_to_8_have_full_marks(total):
    reply = f"component 1: 4/4, component 2: 4/4, total score: {total}"
    assert read_robust(sample_of(weights=(4, 4)), reply) == Scored(1.0)


def test_a_category_is_the_mean_of_all_its_components():
    reply = "component 1: 4/4, component 2: 0/3, component 3: 3/3, total score: 7/10"
    repeated = sample_of((4, 3, 3), ("mention", "grammar", "mention"))
    assert robust_shares(repeated, reply) == {"mention": 1.0, "grammar": 0.0}
    assert robust_shares(repeated, "no") == {}


@pytest.mark.parametrize("reply", [None, 7, ["8/10"]], ids=repr)
def test_a_reply_that_is_no_text_is_no_verdict(reply):
    assert read_robust(sample_of(), reply).reason == "unparsed"


def test_a_reply_beyond_the_longest_is_unparsed():
    reply = f"{SENTENCE}. ".ljust(LONGEST)
    verdicts = (read_robust(sample_of(), reply), read_robust(sample_of(), f"{reply} "))
    assert verdicts[0] == Scored(0.8)
    assert (verdicts[1].reason, verdicts[1].detail) == ("unparsed", "the reply has 100,001 characters")


@settings(max_examples=300, deadline=None)
@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_any_reply_gets_a_verdict_on_the_scale(reply):
    for weights in (WEIGHTS, (4, 3, 3), (10,)):
        verdict = read_robust(sample_of(weights), reply)
        assert isinstance(verdict, Unscored) or 0 <= verdict.points <= 1


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Nd", "No"])))
def test_feedback_after_the_verdict_never_changes_it(feedback):
    assert read_reply(f"{SENTENCE}. {feedback}", WEIGHTS) == read_reply(SENTENCE, WEIGHTS)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_hostile_feedback_makes_a_doubt_at_most(feedback):
    parsed = read_reply(f"{SENTENCE}.\n\n{feedback}", WEIGHTS)
    restated = "final" in feedback  # then the last verdict counts
    unchanged = (parsed.components, parsed.total) == (((6, 6), (2, 4)), (8, 10))
    assert restated or unchanged or parsed.doubt


@given(st.permutations([0, 1, 2]), st.sampled_from([", ", "; ", "\n", ". ", " | "]))
def test_the_order_of_the_parts_does_not_matter(order, separator):
    parts = ["component 1: 6/6", "component 2: 2/4", "total score: 8/10"]
    parsed = read_reply(separator.join(parts[i] for i in order), WEIGHTS)
    assert (parsed.components, parsed.total) == (((6, 6), (2, 4)), (8, 10))


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 6)), min_size=2, max_size=5),
    st.sampled_from(["score of component {}: {}", "**Component {}** - {}", "Component #{} ({})"]),
    st.sampled_from([", ", "\n", "; ", ". It does so. "]),
)
def test_any_marks_out_of_the_weights_are_read_as_written(marks, form, separator):
    weights = [weight for _, weight in marks]
    halves = [min(half, 2 * weight) / 2 for half, weight in marks]
    scores = [form.format(i, f"{p:g}/{w}") for i, (p, w) in enumerate(zip(halves, weights, strict=True), 1)]
    parsed = read_reply(separator.join(scores), weights)
    assert list(parsed.components) == list(zip(halves, weights, strict=True))
    assert parsed.doubt is None


@pytest.mark.parametrize(
    "piece",
    [
        pytest.param(SENTENCE + ". ", id="verdicts"),
        pytest.param("component 1: 1/1 ", id="one-component"),
        pytest.param("1/", id="slashes"),
        pytest.param("\n", id="line-breaks"),
        pytest.param(" ", id="blanks"),
        pytest.param("“", id="opening-quotes"),
        pytest.param(" 'a", id="single-quotes"),
        pytest.param("component 1 (a, ", id="names-without-marks"),
        pytest.param("```", id="fences"),
        pytest.param("\\frac{", id="latex"),
        pytest.param("<b", id="tags"),
    ],
)
def test_the_work_grows_with_the_reply_and_no_faster(piece):
    reply = SENTENCE + ". " + piece * (50_000 // len(piece))
    assert read_reply(reply, WEIGHTS).components
