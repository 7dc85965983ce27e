"""The official reading against what the notebook answered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.golden import vectors

from mmie_tasks.benchmarks.mia_bench.official import TOTAL, read_official, scores
from mmie_tasks.core.verdict import Scored, Unscored

GOLDEN = vectors("mia_bench")
CASES = [pytest.param(case, id=f"{case['id']}-{case['category']}") for case in GOLDEN["cases"]]
BUILT_IN = {
    error.__name__: error
    for error in (ValueError, IndexError, ZeroDivisionError, UnboundLocalError, AttributeError)
}
PIECES = ["a", ":", " ", "/", ",", ".", "1", "10", "-", "\u0663", "\t", "x", "_"]


@pytest.mark.parametrize("case", CASES)
def test_scores_are_the_official_ones_and_what_the_notebook_drops_is_unscored(case):
    expected, asked = case["official"], (case["component_type"], case["reply"])
    verdict = read_official(*asked)
    if expected["ok"]:
        assert scores(*asked) == expected["scores"]
        assert verdict == Scored(expected["scores"][TOTAL])
    else:
        with pytest.raises(BUILT_IN[expected["exception"]]) as raised:
            scores(*asked)
        assert raised.type is BUILT_IN[expected["exception"]]
        assert verdict.reason == "unparsed"
        assert expected["exception"] in verdict.detail


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        pytest.param(7, AttributeError, id="row-number"),
        pytest.param("a: 1/1, b: 1/1, c: 1/1, d: 1/1", IndexError, id="too-many"),
        pytest.param("a: 1/1, b: 1/1, c: 1/0, d: 1/1", ZeroDivisionError, id="zero-comes-first"),
        pytest.param("a: 1/1, b: 1/1, c: 6 points", ValueError, id="number-before-slash"),
        pytest.param(f"a: 1{'0' * 400}/1, b: 1/1", OverflowError, id="beyond-float"),
        pytest.param(f"a: 1{'0' * 9000}/1, b: 1/1", ValueError, id="beyond-int"),
    ],
)
def test_errors_the_golden_file_does_not_show(reply, kind):
    with pytest.raises(kind):
        scores(["describe", "mention"], reply)
    assert isinstance(read_official(["describe", "mention"], reply), Unscored)


@given(st.text() | st.lists(st.sampled_from(PIECES)).map("".join) | st.none() | st.integers())
def test_any_reply_gets_a_verdict(reply):
    assert isinstance(read_official(["describe", "mention", "math"], reply), (Scored, Unscored))
