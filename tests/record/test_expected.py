"""The expected score of a reply."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.core.verdict import Scored, Unscored, Verdict
from mmie_tasks.record.expected import ExpectedScore, expected_verdict
from mmie_tasks.record.reply import JudgeReply

FULL_MARKS = 6
REPLY = "2 of 3 steps.\n### Score\n4"
OFFSET = len(REPLY) - 1
Logprobs = list[float | None]

any_logprobs = st.lists(st.none() | st.floats(-1e4, 0), min_size=10, max_size=10)


def reply(logprobs: Logprobs, others: Logprobs | None = None) -> JudgeReply:
    """A reply with probabilities at its score, and others at each of its other digits."""
    digits = [*2 * (others or [None] * 10), *logprobs]
    return JudgeReply(text=REPLY, model="m", digits=tuple(digits))


def logs(**probabilities: float) -> Logprobs:
    """Of ``_4=0.5``: the logarithm of a half for the digit 4, None for the others."""
    return [math.log(p) if (p := probabilities.get(f"_{digit}")) else None for digit in range(10)]


def points_of(score: ExpectedScore) -> float:
    assert isinstance(score.verdict, Scored)
    return score.verdict.points


@pytest.mark.parametrize(
    ("logprobs", "points", "entropy_bits"),
    [
        pytest.param(logs(_4=1.0), 4.0, 0.0, id="certain"),
        pytest.param(logs(_4=0.5, _5=0.5), 4.5, 1.0, id="two-digits"),
        pytest.param(logs(_4=0.2, _5=0.2), 4.5, 1.0, id="the-rest-is-not-reported"),
        pytest.param(logs(_4=0.5, _6=0.25, _9=0.25), 4.67, 0.918, id="a-digit-above-the-scale"),
        pytest.param(logs(**{f"_{n}": 1 / 7 for n in range(7)}), 3.0, 2.807, id="no-idea"),
        pytest.param([-2000.0, -2000.0, *[None] * 8], 0.5, 1.0, id="tiny-probabilities"),
        pytest.param(
            [-math.inf, 0.0, math.nan, *[None] * 7], 1.0, 0.0, id="values-that-are-no-probabilities"
        ),
    ],
)
def test_the_mean_and_the_entropy_are_those_of_the_reported_digits_on_the_scale(
    logprobs: Logprobs, points: float, entropy_bits: float
) -> None:
    score = expected_verdict(reply(logprobs), OFFSET, Scored(4), FULL_MARKS)
    assert score == ExpectedScore(verdict=Scored(points), entropy_bits=entropy_bits)


@pytest.mark.parametrize(
    ("judge_reply", "offset", "detail"),
    [
        pytest.param(
            JudgeReply(text=REPLY, model="m"),
            OFFSET,
            "the reply has no probabilities",
            id="no-digits",
        ),
        pytest.param(None, None, "the reply has no probabilities", id="no-reply"),
        pytest.param(
            reply(logs(_4=1.0)), None, "the official score is not a single digit", id="no-digit"
        ),
        pytest.param(
            reply(logs(), logs(_2=1.0)),
            OFFSET,
            "the reply has no probabilities at the official score",
            id="other-digits-only",
        ),
        pytest.param(
            reply(logs(_8=1.0)),
            OFFSET,
            "the reply has no probabilities at the official score",
            id="no-digit-of-the-scale",
        ),
    ],
)
def test_why_there_is_no_expected_score_is_named(
    judge_reply: JudgeReply | None, offset: int | None, detail: str
) -> None:
    score = expected_verdict(judge_reply, offset, Scored(4), FULL_MARKS)
    assert score == ExpectedScore(verdict=Unscored("no_probabilities", detail))


@pytest.mark.parametrize("reason", ["left_out", "unparsed", "off_scale"])
def test_a_sample_without_official_score_has_no_expected_one_for_the_same_reason(
    reason: str,
) -> None:
    official: Verdict = Unscored(reason, "why")  # type: ignore[arg-type]  # of this list
    assert expected_verdict(reply(logs(_4=1.0)), OFFSET, official, FULL_MARKS).verdict == official


@given(any_logprobs)
def test_the_expected_score_lies_between_the_reported_digits_and_the_entropy_has_its_bounds(
    logprobs: Logprobs,
) -> None:
    score = expected_verdict(reply(logprobs), OFFSET, Scored(4), FULL_MARKS)
    reported = [
        digit for digit, logprob in enumerate(logprobs[: FULL_MARKS + 1]) if logprob is not None
    ]
    if reported:
        assert 0 <= min(reported) <= points_of(score) <= max(reported) <= FULL_MARKS
        assert score.entropy_bits is not None
        assert 0 <= score.entropy_bits <= math.log2(len(reported)) + 0.0005
        assert score.entropy_bits <= math.log2(FULL_MARKS + 1)
    else:
        assert score.entropy_bits is None
        assert isinstance(score.verdict, Unscored)


@given(any_logprobs, any_logprobs)
def test_other_digits_of_the_reply_do_not_matter(logprobs: Logprobs, others: Logprobs) -> None:
    expected = expected_verdict(reply(logprobs), OFFSET, Scored(4), FULL_MARKS)
    score = expected_verdict(reply(logprobs, others), OFFSET, Scored(4), FULL_MARKS)
    assert score == expected
