"""Both readers of replies, each reply with what both make of it, and the official table."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.opening_data import reply

from mmie_tasks.benchmarks.opening import official as official_reader
from mmie_tasks.benchmarks.opening.official import METRICS, read_official, summary
from mmie_tasks.benchmarks.opening.robust import read_robust
from mmie_tasks.core.verdict import Scored, Unscored

AGAIN = "no JSON that the official script accepts"  # so it asks for another reply
WRAPPED = json.dumps({"scores": json.loads(reply(7))})
UNREADABLE = (
    *("", "I cannot.", "{}", "[]", "null", "0", "false", '""', "```json\n{}\n```", "[" * 100_000),
    *("All metrics: 7/10.", reply(7) + reply(6), reply(7)[:-1], reply(7)[:-40]),
    reply(7).replace('"', "'"),
)
LETTERS = {name.lower().replace("-", "_").replace(" ", "_"): 7 for name in METRICS}
LOWER_CASE = {name: {"score": 7} for name in METRICS}


def outcome(verdict):
    """The points, or the reason that there are none; AGAIN if it asks for another reply."""
    if isinstance(verdict, Scored):
        return verdict.points
    return AGAIN if verdict.detail == AGAIN else verdict.reason


@pytest.mark.parametrize(
    ("text", "official", "robust"),
    [
        *((text, AGAIN, "unparsed") for text in UNREADABLE),
        (reply(7), 7, 7),
        (reply(7.5), 7.5, 7.5),
        (reply(0, 1, 2, 3, 4, 5, 6), 3, 3),
        (f"```json\n{reply(7)}\n```", AGAIN, 7),
        (f"Here: {reply(7)}", AGAIN, 7),
        (f"Of {{course}}: {reply(7)} That is all.", AGAIN, 7),
        (reply(7) * 2, AGAIN, 7),
        (f"\ufeff{reply(7)}", AGAIN, 7),
        (WRAPPED, "left_out", 7),
        (f"[{reply(7)}]", "not_scorable", 7),
        (json.dumps(LETTERS), "unparsed", 7),
        (json.dumps(LOWER_CASE), "unparsed", 7),
        (reply(7, Charm={"Score": 0}), 6.125, 7),
        (reply(7, Correctness=3), 7, 45 / 7),
        (reply(7, 7, 7, 7, 7, 7), 7, "unparsed"),
        (reply(7, 7, 7, 7, 7, 7, None), "left_out", "unparsed"),
        (reply(7, 7, 7, 7, 7, 7, -3), 39 / 7, "off_scale"),
        (reply(7, None), "left_out", "unparsed"),
        (reply(11), 11, "off_scale"),
        (reply(-3), -3, "off_scale"),
        (reply(10**400), "not_scorable", "off_scale"),
        (reply(True), 1, "unparsed"),
        (reply(True, False), 0.5, "unparsed"),
        (reply("7"), "unparsed", 7),
        (reply("8", 6), 6, "unparsed"),
        (reply(" 7.0 / 10 "), "unparsed", 7),
        (reply("7/5"), "unparsed", "unparsed"),
        (reply("12/10"), "unparsed", "off_scale"),
        (reply("seven"), "unparsed", "unparsed"),
        (reply([7]), "unparsed", "unparsed"),
        (reply(float("nan")), "not_scorable", "unparsed"),
        (reply(float("inf")), "not_scorable", "unparsed"),
        ('{"correctness": {"Score": 2}}', 2, "unparsed"),
        ('{"Correctness": 7}', "unparsed", "unparsed"),
        ('{"scores": [1]}', "not_scorable", "unparsed"),
        ("7", "not_scorable", "unparsed"),
        ('"the scores"', "not_scorable", "unparsed"),
    ],
)
def test_a_reply_has_the_points_that_both_readers_find(text, official, robust):
    assert outcome(read_official(text)) == official
    assert official_reader.asks_again(text) is (official == AGAIN)
    assert outcome(read_robust(text)) == robust


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
    assert isinstance(
        official_reader.read_scores(text), Unscored
    ) or not official_reader.asks_again(text)


def test_the_means_of_metrics_are_rounded_before_their_mean():
    row = summary([{"a": 0.0049, "b": 0.0049, "c": 0.0149}])
    assert row == {"a": 0.0, "b": 0.0, "c": 0.01, "Overall": 0.0}  # the plain mean is 0.0082


def test_metrics_have_their_own_numbers_and_no_replies_have_no_row():
    assert summary([{"a": 1.0}, {"b": 3.0}, {"b": 4.0}]) == {"a": 1.0, "b": 3.5, "Overall": 2.25}
    assert summary([]) == summary([{}]) == {}
