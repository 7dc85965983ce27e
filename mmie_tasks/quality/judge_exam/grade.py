"""Grades of judges on people's verdicts: agreement, flips, and leanings unrelated to quality.

A judge that errs at random prefers either answer in half of its errors, so how often it prefers the
longer one says little. A `Leaning` compares error rates instead: is the judge wrong more often
where people prefer the shorter answer than where they prefer the longer one?

Pairs of one question are not independent, and neither are the two orders of one pair. The interval
of a `Share` is therefore Wilson's for as many independent cases as have the same variance between
questions (a design effect, as in surveys), with Student's t for the questions. It has a width even
where all questions are alike.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mmie_tasks.quality.judge_exam.verdict_set import (
    Pair,
    PairVerdict,
    PartsInOrder,
    Side,
    VerdictSet,
)
from mmie_tasks.record.intervals import LEVEL, MIN_SAMPLES, Interval

Order: TypeAlias = Literal["forward", "reverse"]
"""Which answer the judge was shown first: A, or B."""

_ORDERS: Mapping[Order, bool] = {"forward": False, "reverse": True}  # `PairVerdict.is_reversed`
_NO_VERDICTS = "the judge gave no verdict"
_NO_ORDER = "each answer is judged by itself"
_NO_LEANING = "none"
_ONE_SIDED = "people always prefer the same of the two"
# Three leanings are tested; at this level a fair judge shows none of them in 95 % of exams.
_LEANING_LEVEL = 1 - (1 - LEVEL) / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How often something is the case, in percent, with a 95 % interval over questions.

    Attributes:
        n: Number of cases; both orders of a pair are two.
        why_not: Why there is no value or no interval; empty with both.
    """

    value: float | None
    interval: Interval | None
    n: int
    why_not: str = ""


def _share(values: Sequence[tuple[Pair, float]], why_none: str) -> Share:
    """The mean of the cases' values, 0 to 1; without cases, the reason `why_none`."""
    cases = _Cases(values)
    if not cases.n:
        return Share(value=None, interval=None, n=0, why_not=why_none)
    if len(cases.by_question) < MIN_SAMPLES:
        why_not = f"too few questions for an interval: {len(cases.by_question)}"
        return Share(value=100 * cases.share, interval=None, n=cases.n, why_not=why_not)
    return Share(value=100 * cases.share, interval=cases.interval(LEVEL), n=cases.n)


class _Cases:
    """Values of cases, 0 to 1, by question."""

    def __init__(self, values: Sequence[tuple[Pair, float]]) -> None:
        self.n = len(values)
        self.by_question: defaultdict[str, list[float]] = defaultdict(list)
        for pair, value in values:
            self.by_question[pair.sample].append(value)

    @property
    def share(self) -> float:
        return math.fsum(sum(values) for values in self.by_question.values()) / self.n

    @property
    def influences(self) -> Mapping[str, float]:
        """How much each question moves the share; adds up to 0."""
        share, n = self.share, self.n
        return {
            name: (sum(values) - share * len(values)) / n
            for name, values in self.by_question.items()
        }

    def interval(self, level: float) -> Interval:
        """Wilson's interval in percent; see the module."""
        from scipy.special import stdtrit

        share, questions = self.share, len(self.by_question)
        variance = math.fsum(x**2 for x in self.influences.values()) * questions / (questions - 1)
        cases = float(questions)  # where all cases are alike
        if 0 < share < 1:
            cases = min(float(self.n), share * (1 - share) / variance) if variance else self.n
        t = float(stdtrit(questions - 1, (1 + level) / 2))
        middle = (share + t**2 / (2 * cases)) / (1 + t**2 / cases)
        half = t * math.sqrt(share * (1 - share) / cases + t**2 / (4 * cases**2))
        half /= 1 + t**2 / cases
        low, high = min(share, middle - half), max(share, middle + half)  # rounding
        return Interval(100 * max(0.0, low), 100 * min(1.0, high))

    def correlation(self, other: _Cases) -> float:
        """The correlation of the questions' influences on two shares; 0 if one has none."""
        one, two = self.influences, other.influences
        covariance = math.fsum(one[name] * two[name] for name in one.keys() & two.keys())
        squares = [math.fsum(x**2 for x in own.values()) for own in (one, two)]
        return covariance / math.sqrt(squares[0] * squares[1]) if all(squares) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaning:
    """Whether a judge favours answers for something that is not quality, such as their length.

    Attributes:
        wrong_against: How often the judge is wrong where people prefer the other answer.
        wrong_for: The same where people prefer the answer that the judge may favour.
        difference: `wrong_against` less `wrong_for` in percentage points: above 0 if the judge
            favours such answers, 0 if it errs at random; None without both.
        interval: 95 % for the three leanings of a grade together; None without both intervals.
        finding: The leaning in words; ``none`` if the interval contains 0, empty without one.
    """

    wrong_against: Share
    wrong_for: Share
    difference: float | None
    interval: Interval | None
    finding: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """How good a judge is that compares two answers, or gives points to each.

    An undecided judge counts as half, and so do equal points. A missing verdict only lowers the
    coverage. Shares that depend on the order have no value for a judge that gave points.

    Attributes:
        asked, judged: Number of requested judgements, and how many have a verdict.
        agreement: Agreement with people's verdicts.
        agreement_untied: The same without the pairs that people called a tie.
        undecided: The judge prefers neither answer, or gives both the same points.
        by_order, by_subset: Agreement by requested order, and by `Pair.subset`.
        flips: Pairs on which the verdicts in the two orders differ, if there are both.
        first_answer: The judge prefers the answer that was shown first.
        first_answer_people: The same for people, on the same pairs in the same orders.
        order, more_images, longer_text: Whether the judge favours the answer that was shown first,
            has more images, or has the longer text.
    """

    asked: int
    judged: int
    agreement: Share
    agreement_untied: Share
    undecided: Share
    by_order: Mapping[Order, Share]
    by_subset: Mapping[str, Share]
    flips: Share
    first_answer: Share
    first_answer_people: Share
    order: Leaning
    more_images: Leaning
    longer_text: Leaning

    @property
    def coverage(self) -> float | None:
        """Percentage of requested judgements with a verdict; None if none was requested."""
        return 100 * self.judged / self.asked if self.asked else None

    @property
    def leanings(self) -> tuple[str, ...]:
        """What the judge favours, in words: ``follows order: first``."""
        findings = (leaning.finding for leaning in self._tested.values())
        return tuple(finding for finding in findings if finding not in ("", _NO_LEANING))

    @property
    def verdict(self) -> str:
        """The leanings, or ``nothing found``, and what could not be tested."""
        untested = [name for name, leaning in self._tested.items() if not leaning.finding]
        nothing = "none" if len(untested) == len(self._tested) else "nothing found"
        verdict = ", ".join(self.leanings) or nothing
        return f"{verdict} (not tested: {', '.join(untested)})" if untested else verdict

    @property
    def _tested(self) -> Mapping[str, Leaning]:
        return {"order": self.order, "pictures": self.more_images, "length": self.longer_text}


@dataclass(frozen=True, slots=True)
class _GradeRow:
    """A judgement with a verdict, and its pair."""

    pair: Pair
    judgement: PairVerdict
    a_wins: float

    @property
    def is_reversed(self) -> bool | None:
        return self.judgement.is_reversed

    @property
    def first_side(self) -> Side:
        return "B" if self.is_reversed else "A"

    def preference(self, side: Side) -> float:
        """1 if the judge prefers this side, 0 if the other one, 0.5 if it is undecided."""
        return self.a_wins if side == "A" else 1 - self.a_wins

    @property
    def right(self) -> float:
        return self.preference(self.pair.winner)


def grade_judge(verdict_set: VerdictSet, judgements: Sequence[PairVerdict]) -> Grade:
    """The grade of a judge by all judgements that were requested, with or without a verdict.

    >>> pair = Pair(
    ...     id="1", sample="q", subset="recipes", winner="A",
    ...     is_tie=False, models=("x", "y"),
    ...     question=(), answers=((), ()), images=(2, 1),
    ... )
    >>> people = VerdictSet(
    ...     name="made up", title="", licence="", source="", pairs=(pair,), has_answers=False
    ... )
    >>> verdicts = ((False, 1.0), (True, 0.5))
    >>> first, second = (PairVerdict(pair="1", is_reversed=o, a_wins=wins) for o, wins in verdicts)
    >>> result = grade_judge(people, [first, second])
    >>> result.agreement.value, result.flips.value, result.more_images.wrong_for.value
    (75.0, 100.0, 25.0)
    """
    pairs = {pair.id: pair for pair in verdict_set.pairs}
    rows = [_GradeRow(pairs[j.pair], j, j.a_wins) for j in judgements if j.a_wins is not None]
    orders = {judgement.is_reversed for judgement in judgements}
    rows_by_subset: dict[str, list[_GradeRow]] = {pairs[j.pair].subset: [] for j in judgements}
    for row in rows:
        rows_by_subset[row.pair.subset].append(row)
    first = [(row, row.first_side) for row in rows if row.is_reversed is not None]
    untied = [row for row in rows if not row.pair.is_tie]
    images = [(row, side) for row in rows if (side := _larger(row.pair.images))]
    text = [(row, side) for row in rows if (side := _larger(tuple(map(_length, row.pair.answers))))]
    no_order = _NO_ORDER if orders == {None} else _NO_VERDICTS
    no_flips = _NO_ORDER if orders == {None} else "no pair has verdicts in both orders"
    no_ties = "people called no judged pair a tie" if rows else _NO_VERDICTS
    no_images = "no judged pair is known to have unequal numbers of images"
    no_text = "no judged pair is known to have texts of unequal length"
    return Grade(
        asked=len(judgements),
        judged=len(rows),
        agreement=_agreement(rows),
        agreement_untied=_agreement(untied if len(untied) < len(rows) else [], no_ties),
        undecided=_share([(row.pair, float(row.a_wins == 0.5)) for row in rows], _NO_VERDICTS),
        by_order={
            order: _agreement([row for row in rows if row.is_reversed is is_reversed])
            for order, is_reversed in _ORDERS.items()
            if is_reversed in orders
        },
        by_subset={subset: _agreement(own) for subset, own in sorted(rows_by_subset.items())},
        flips=_flips(rows, no_flips),
        first_answer=_share([(row.pair, row.preference(side)) for row, side in first], no_order),
        first_answer_people=_share(
            [(row.pair, float(row.pair.winner == side)) for row, side in first], no_order
        ),
        order=_leaning(first, no_order, "follows order: first", "follows order: last"),
        more_images=_leaning(images, no_images, "prefers more pictures", "prefers fewer pictures"),
        longer_text=_leaning(text, no_text, "prefers longer answers", "prefers shorter answers"),
    )


def _agreement(rows: Sequence[_GradeRow], why_none: str = _NO_VERDICTS) -> Share:
    return _share([(row.pair, row.right) for row in rows], why_none)


def _flips(rows: Sequence[_GradeRow], why_none: str) -> Share:
    forward = {row.pair.id: row.a_wins for row in rows if not row.is_reversed}
    both = [row for row in rows if row.is_reversed and row.pair.id in forward]
    return _share([(row.pair, float(row.a_wins != forward[row.pair.id])) for row in both], why_none)


def _leaning(
    sides: Sequence[tuple[_GradeRow, Side]], why_none: str, favours: str, disfavours: str
) -> Leaning:
    """Whether the judge favours the side given with each row.

    The interval of the difference is Newcombe's of two correlated shares (Statistics in Medicine
    17, 1998, method 10) with the correlation between questions.
    """
    errors: dict[bool, list[tuple[Pair, float]]] = {True: [], False: []}
    for row, side in sides:
        errors[row.pair.winner == side].append((row.pair, 1 - row.right))
    against, in_favour = (_Cases(errors[is_for]) for is_for in (False, True))
    shares = [_share(errors[is_for], _ONE_SIDED if sides else why_none) for is_for in (False, True)]
    difference, interval, finding = None, None, ""
    if against.n and in_favour.n:
        difference = 100 * (against.share - in_favour.share)
    if difference is not None and all(share.interval for share in shares):
        (a_low, a_high), (b_low, b_high) = (
            c.interval(_LEANING_LEVEL) for c in (against, in_favour)
        )
        a, b, r = 100 * against.share, 100 * in_favour.share, against.correlation(in_favour)
        down, up = (
            math.sqrt(max(0.0, x**2 + y**2 - 2 * r * x * y))
            for x, y in ((a - a_low, b_high - b), (a_high - a, b - b_low))
        )
        interval = Interval(difference - down, difference + up)
        finding = favours if interval.low > 0 else disfavours if interval.high < 0 else _NO_LEANING
    return Leaning(
        wrong_against=shares[0],
        wrong_for=shares[1],
        difference=difference,
        interval=interval,
        finding=finding,
    )


def _larger(sizes: tuple[int, ...] | None) -> Side | None:
    """The side with the larger number; None if they are equal or unknown.

    >>> _larger((1, 3)), _larger((2, 2)), _larger(None)
    ('B', None, None)
    """
    if sizes is None or sizes[0] == sizes[1]:
        return None
    return "A" if sizes[0] > sizes[1] else "B"


def _length(answer: PartsInOrder) -> int:
    return sum(len(segment) for segment in answer if isinstance(segment, str))
