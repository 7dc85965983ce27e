"""Shares of cases in percent, with intervals over questions.

Pairs of one question are not independent, and neither are the two orders of one pair. So the
interval of a share is Wilson's for as many independent cases as have the same variance between
questions (a design effect, as in surveys), with Student's t for the questions. It has a width even
where all questions are alike.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mmie_tasks.quality.judge_exam.verdict_set import Pair
from mmie_tasks.record.intervals import LEVEL, MIN_SAMPLES, Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How often something is the case, in percent, and its 95 % interval over questions; of `n`
    cases, where both orders of a pair are two. Or why there is no value, or no interval.
    """

    value: float | None
    interval: Interval | None
    n: int
    why_not: str = ""


def share_of(values: Sequence[tuple[Pair, float]], why_none: str) -> Share:
    """The mean of values from 0 to 1 in percent, one per case; of none, the reason `why_none`."""
    cases = Cases(values)
    if not cases.n:
        return Share(value=None, interval=None, n=0, why_not=why_none)
    if len(cases.by_question) < MIN_SAMPLES:
        why_not = f"too few questions for an interval: {len(cases.by_question)}"
        return Share(value=100 * cases.share, interval=None, n=cases.n, why_not=why_not)
    return Share(value=100 * cases.share, interval=cases.interval(LEVEL), n=cases.n)


class Cases:
    """Values from 0 to 1 of cases, by question."""

    def __init__(self, values: Sequence[tuple[Pair, float]]) -> None:
        self.n = len(values)
        self.by_question: defaultdict[str, list[float]] = defaultdict(list)
        for pair, value in values:
            self.by_question[pair.sample].append(value)

    @property
    def share(self) -> float:
        """The mean of all cases."""
        return math.fsum(sum(values) for values in self.by_question.values()) / self.n

    @property
    def influences(self) -> Mapping[str, float]:
        """By how much each question moves the share; they add up to 0."""
        share, n = self.share, self.n
        return {
            name: (sum(values) - share * len(values)) / n
            for name, values in self.by_question.items()
        }

    def interval(self, level: float) -> Interval:
        """Wilson's interval in percent, for as many independent cases as have this variance; at
        most the cases there are, and the questions where all cases are alike.
        """
        from scipy.special import stdtrit

        share, questions = self.share, len(self.by_question)
        variance = math.fsum(x**2 for x in self.influences.values()) * questions / (questions - 1)
        cases = float(questions)
        if 0 < share < 1:
            cases = min(float(self.n), share * (1 - share) / variance) if variance else self.n
        t = float(stdtrit(questions - 1, (1 + level) / 2))
        middle = (share + t**2 / (2 * cases)) / (1 + t**2 / cases)
        half = t * math.sqrt(share * (1 - share) / cases + t**2 / (4 * cases**2))
        half /= 1 + t**2 / cases
        low, high = min(share, middle - half), max(share, middle + half)  # rounding
        return Interval(100 * max(0.0, low), 100 * min(1.0, high))

    def correlation(self, other: Cases) -> float:
        """Of the influences of the questions on two shares; 0 where one has none."""
        one, two = self.influences, other.influences
        covariance = math.fsum(one[name] * two[name] for name in one.keys() & two.keys())
        squares = [math.fsum(x**2 for x in own.values()) for own in (one, two)]
        return covariance / math.sqrt(squares[0] * squares[1]) if all(squares) else 0.0
