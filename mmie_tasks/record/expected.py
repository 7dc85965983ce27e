"""The expected score of a reply: the mean of the points under the judge's probabilities."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from mmie_tasks.core.verdict import NO_PROBABILITIES, Scored, Unscored, Verdict
from mmie_tasks.record.reply import JudgeReply

_POINTS_DECIMALS = 2  # finer than the probabilities of a model in bfloat16
_ENTROPY_DECIMALS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedScore:
    """The expected score of one reply.

    Attributes:
        verdict: The mean in points, rounded to 2 decimals, or why there is none.
        entropy_bits: Entropy of the probabilities in bits, 0 if the judge is certain; None without
            a mean.
    """

    verdict: Verdict
    entropy_bits: float | None = None


def expected_verdict(
    reply: JudgeReply | None, offset: int | None, official: Verdict, full_marks: int
) -> ExpectedScore:
    """The mean of the points under the probabilities at the position of the official score.

    The reported probabilities of the digits 0 to `full_marks` are divided by their sum.

    Args:
        reply: The reply that the official score was read from; None if there is none.
        offset: Index of the official score in the reply's text; None if it is not a single digit.
        official: The official verdict. If it is unscored, it is also the expected verdict.
        full_marks: The top of the scale, which begins at 0; at most 9.

    >>> a_half, a_quarter = math.log(0.5), math.log(0.25)
    >>> logprobs = (None, None, None, a_quarter, a_half, a_quarter, *[None] * 4)
    >>> expected_verdict(JudgeReply(text="Score: 4", model="m", digits=logprobs), 7, Scored(4), 6)
    ExpectedScore(verdict=Scored(points=4.0, reading=''), entropy_bits=1.5)
    """
    if isinstance(official, Unscored):
        return ExpectedScore(verdict=official)
    if reply is None or reply.digits is None:
        return ExpectedScore(verdict=NO_PROBABILITIES)
    if offset is None:
        return _without("the official score is not a single digit")
    begin = 10 * len(re.findall("[0-9]", reply.text[:offset]))
    logprobs = reply.digits[begin : begin + full_marks + 1]
    reported = {
        n: logprob
        for n, logprob in enumerate(logprobs)
        if logprob is not None and math.isfinite(logprob)
    }
    if not reported:
        return _without("the reply has no probabilities at the official score")
    highest = max(reported.values())
    weights = {points: math.exp(logprob - highest) for points, logprob in reported.items()}
    total = math.fsum(weights.values())
    mean = math.fsum(points * weight for points, weight in weights.items()) / total
    shares = [weight / total for weight in weights.values() if weight]
    entropy_bits = math.fsum(share * -math.log2(share) for share in shares)
    return ExpectedScore(
        verdict=Scored(round(mean, _POINTS_DECIMALS)),
        entropy_bits=abs(round(entropy_bits, _ENTROPY_DECIMALS)),
    )


def _without(detail: str) -> ExpectedScore:
    return ExpectedScore(verdict=Unscored("no_probabilities", detail))
