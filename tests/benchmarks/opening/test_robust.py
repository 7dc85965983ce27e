"""The robust reading of replies."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.opening_data import reply

from mmie_tasks.benchmarks.opening.official import METRICS, asks_again, read_official, read_scores
from mmie_tasks.benchmarks.opening.robust import read_robust
from mmie_tasks.core.verdict import Scored, Unscored

OBJECT = json.loads(reply(7))
LETTERS = {name.lower().replace("-", "_").replace(" ", "_"): 7 for name in METRICS}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(reply(7), id="as asked for"),
        pytest.param(json.dumps({"scores": OBJECT}), id="wrapped"),
        pytest.param(f"```json\n{reply(7)}\n```", id="fenced"),
        pytest.param(f"Of {{course}}: {reply(7)} That is all.", id="prose around"),
        pytest.param(f"[{reply(7)}]", id="in a list"),
        pytest.param(f"\ufeff{reply(7)}", id="byte order mark"),
        pytest.param(reply(7) + reply(7), id="twice the same"),
        pytest.param(reply("7"), id="texts"),
        pytest.param(reply(" 7.0 / 10 "), id="fractions"),
        pytest.param(json.dumps(LETTERS), id="bare numbers under other spellings"),
        pytest.param(reply(7, Charm={"Score": 0}), id="a further metric"),
        pytest.param(json.dumps({n: {"score": 7} for n in METRICS}), id="lower case"),
    ],
)
def test_points_that_a_reply_evidently_gives_are_read(text):
    assert read_robust(text) == Scored(7)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("", "unparsed", id="empty"),
        pytest.param("All metrics: 7/10.", "unparsed", id="prose"),
        pytest.param(reply(7)[:-40], "unparsed", id="cut off"),
        pytest.param(reply(7) + reply(6), "unparsed", id="two objects"),
        pytest.param(reply(7, 7, 7, 7, 7, 7), "unparsed", id="one metric missing"),
        pytest.param(reply(7, 7, 7, 7, 7, 7, None), "unparsed", id="null"),
        pytest.param(reply(True), "unparsed", id="true"),
        pytest.param(reply(float("nan")), "unparsed", id="NaN"),
        pytest.param(reply("seven"), "unparsed", id="a word"),
        pytest.param(reply("7/5"), "unparsed", id="another scale"),
        pytest.param(reply([7]), "unparsed", id="a list"),
        pytest.param(reply(11), "off_scale", id="11"),
        pytest.param(reply(7, 7, 7, 7, 7, 7, -3), "off_scale", id="-3"),
        pytest.param(reply("12/10"), "off_scale", id="12/10"),
        pytest.param(reply(10**400), "off_scale", id="too large"),
    ],
)
def test_in_doubt_there_are_no_points(text, reason):
    verdict = read_robust(text)
    assert isinstance(verdict, Unscored)
    assert verdict.reason == reason


@settings(max_examples=50)
@given(
    st.text()
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from([*METRICS, "scores", "Score"]), inner)
        ),
    ).map(json.dumps)
)
def test_any_text_has_a_verdict(text):
    verdict = read_robust(text)
    assert isinstance(verdict, Unscored) or 0 <= verdict.points <= 10
    assert isinstance(read_official(text), (Scored, Unscored))
    assert isinstance(read_scores(text), Unscored) or not asks_again(text)
