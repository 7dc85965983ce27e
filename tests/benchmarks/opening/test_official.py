"""The official reading of replies, and the official table."""

import json

import pytest
from support.opening_data import reply

from mmie_tasks.benchmarks.opening.official import asks_again, read_official, summary
from mmie_tasks.core.verdict import Scored, Unscored


@pytest.mark.parametrize(
    "text",
    [
        *("", "I cannot.", "{}", "[]", "null", "0", "false", '""', "```json\n{}\n```"),
        f"```json\n{reply(7)}\n```",
        f"Here: {reply(7)}",
        reply(7) * 2,
        f"\ufeff{reply(7)}",
        reply(7)[:-1],
        reply(7).replace('"', "'"),
        "[" * 100_000,
    ],
)
def test_a_reply_that_the_script_asks_for_again_has_no_points(text):
    assert asks_again(text)
    assert read_official(text) == Unscored("unparsed", "no JSON that the official script accepts")


@pytest.mark.parametrize(
    ("text", "points"),
    [
        pytest.param(reply(7), 7, id="integers"),
        pytest.param(reply(0, 1, 2, 3, 4, 5, 6), 3, id="mean"),
        pytest.param(reply(7.5), 7.5, id="fractions"),
        pytest.param(reply(11), 11, id="more than the scale has"),
        pytest.param(reply(-3), -3, id="less"),
        pytest.param(reply(True, False), 0.5, id="true is 1"),
        pytest.param(reply("8", 6), 6, id="a text does not count"),
        pytest.param(reply(7, Charm={"Score": 0}), 6.125, id="an eighth metric"),
        pytest.param(reply(7, Correctness=3), 7, id="a number is no metric"),
        pytest.param('{"correctness": {"Score": 2}}', 2, id="any name"),
    ],
)
def test_points_are_the_mean_of_the_numbers(text, points):
    assert read_official(text) == Scored(points)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(json.dumps({"scores": json.loads(reply(7))}), "left_out", id="wrapped"),
        pytest.param(reply(7, None), "left_out", id="no points"),
        pytest.param('{"scores": [1]}', "not_scorable", id="scores a list"),
        pytest.param("7", "not_scorable", id="a number"),
        pytest.param('"the scores"', "not_scorable", id="a text"),
        pytest.param(f"[{reply(7)}]", "not_scorable", id="a list"),
        pytest.param(reply(float("nan")), "not_scorable", id="NaN"),
        pytest.param(reply(float("inf")), "not_scorable", id="Infinity"),
        pytest.param(reply(10**400), "not_scorable", id="too large"),
        pytest.param(reply("8"), "unparsed", id="only texts"),
        pytest.param('{"Correctness": 7}', "unparsed", id="no object"),
    ],
)
def test_why_a_reply_has_no_points(text, reason):
    verdict = read_official(text)
    assert isinstance(verdict, Unscored)
    assert verdict.reason == reason


def test_the_means_of_metrics_are_rounded_before_their_mean():
    row = summary([{"a": 0.0049, "b": 0.0049, "c": 0.0149}])
    assert row == {"a": 0.0, "b": 0.0, "c": 0.01, "Overall": 0.0}  # the plain mean is 0.0082


def test_metrics_have_their_own_numbers_and_no_replies_have_no_row():
    assert summary([{"a": 1.0}, {"b": 3.0}, {"b": 4.0}]) == {"a": 1.0, "b": 3.5, "Overall": 2.25}
    assert summary([]) == summary([{}]) == {}
