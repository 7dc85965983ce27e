"""Grades of judges on people's verdicts: agreement, flips, leanings that have nothing to do with
quality.

A judge that errs at random prefers either answer in half of its errors, so how often it prefers the
longer one says little. A `Leaning` compares error rates instead: the judge is wrong more often
where people prefer the shorter answer than where they prefer the longer one, or it is not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mmie_tasks.quality.judge_exam.question_shares import Cases, Share, share_of
from mmie_tasks.quality.judge_exam.verdict_set import (
    Pair,
    PairVerdict,
    PartsInOrder,
    Side,
    VerdictSet,
)
from mmie_tasks.record.intervals import LEVEL, Interval

Order: TypeAlias = Literal["forward", "reverse"]
"""Which answer the judge was shown first: A, or B."""

_ORDERS: Mapping[Order, bool] = {"forward": False, "reverse": True}  # `PairVerdict.is_reversed`
_NO_VERDICTS = "the judge gave no verdict"
_NO_ORDER = "each answer is judged by itself"
_NO_LEANING = "none"
_ONE_SIDED = "people always prefer the same of the two"
# Three leanings are looked for: so that a fair judge has none of them in 95 % of exams.
_LEANING_LEVEL = 1 - (1 - LEVEL) / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaning:
    """Whether a judge favours answers for something that is not quality, such as their length.

    Attributes:
        wrong_against, wrong_for: The judge is wrong where people prefer the other answer, and where
            they prefer the answer that it may favour.
        difference: The first less the second in percentage points, above 0 if the judge favours
            such answers, and 0 for random errors of any number; None without both.
        interval: 95 % for the three leanings of a grade together; None without both intervals.
        finding: In words; ``none`` if the interval holds 0, empty without interval.
    """

    wrong_against: Share
    wrong_for: Share
    difference: float | None
    interval: Interval | None
    finding: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """How good a judge is that compares two answers, or gives points to each.

    An undecided judge counts as half, and so do equal points. What it gave no verdict on lowers the
    coverage, and nothing else. Shares that are about an order have no value for a judge that gave
    points.

    Attributes:
        asked, judged: Judgements that were asked for, and those with a verdict.
        agreement: With people's verdict; `agreement_untied` is without the pairs that people called
            a tie.
        undecided: The judge prefers neither answer, or gives both the same points.
        by_order, by_subset: Agreement by each order that was asked for, and by `Pair.subset`.
        flips: Of the pairs with verdicts in both orders, those on which the two verdicts differ.
        first_answer, first_answer_people: The judge, and people on the same pairs in the same
            orders, prefer the answer that was shown first.
        order, more_images, longer_text: Whether the judge favours the answer that was shown first,
            has more images, or the longer text.
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
        """Judgements with a verdict in percent of those asked for; None if none was."""
        return 100 * self.judged / self.asked if self.asked else None

    @property
    def leanings(self) -> tuple[str, ...]:
        """What the judge favours, in words, such as ``follows order: first``."""
        findings = (leaning.finding for leaning in self._tested.values())
        return tuple(finding for finding in findings if finding not in ("", _NO_LEANING))

    @property
    def verdict(self) -> str:
        """The leanings, or ``nothing found``; and what could not be tested."""
        untested = [name for name, leaning in self._tested.items() if not leaning.finding]
        nothing = "none" if len(untested) == len(self._tested) else "nothing found"
        verdict = ", ".join(self.leanings) or nothing
        return f"{verdict} (not tested: {', '.join(untested)})" if untested else verdict

    @property
    def _tested(self) -> Mapping[str, Leaning]:
        """What is tested for a leaning, by name."""
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
        """How far the judge prefers a side: 1, 0, or 0.5 if it is undecided."""
        return self.a_wins if side == "A" else 1 - self.a_wins

    @property
    def right(self) -> float:
        """How far the judge agrees with people."""
        return self.preference(self.pair.winner)


def grade_judge(verdict_set: VerdictSet, judgements: Sequence[PairVerdict]) -> Grade:
    """The grade of a judge.

    Args:
        verdict_set: People's verdicts.
        judgements: What was asked for, in any order, with and without verdict.

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
        undecided=share_of([(row.pair, float(row.a_wins == 0.5)) for row in rows], _NO_VERDICTS),
        by_order={
            order: _agreement([row for row in rows if row.is_reversed is is_reversed])
            for order, is_reversed in _ORDERS.items()
            if is_reversed in orders
        },
        by_subset={subset: _agreement(own) for subset, own in sorted(rows_by_subset.items())},
        flips=_flips(rows, no_flips),
        first_answer=share_of([(row.pair, row.preference(side)) for row, side in first], no_order),
        first_answer_people=share_of(
            [(row.pair, float(row.pair.winner == side)) for row, side in first], no_order
        ),
        order=_leaning(first, no_order, "follows order: first", "follows order: last"),
        more_images=_leaning(images, no_images, "prefers more pictures", "prefers fewer pictures"),
        longer_text=_leaning(text, no_text, "prefers longer answers", "prefers shorter answers"),
    )


def _agreement(rows: Sequence[_GradeRow], why_none: str = _NO_VERDICTS) -> Share:
    return share_of([(row.pair, row.right) for row in rows], why_none)


def _flips(rows: Sequence[_GradeRow], why_none: str) -> Share:
    forward = {row.pair.id: row.a_wins for row in rows if not row.is_reversed}
    both = [row for row in rows if row.is_reversed and row.pair.id in forward]
    return share_of(
        [(row.pair, float(row.a_wins != forward[row.pair.id])) for row in both], why_none
    )


def _leaning(
    sides: Sequence[tuple[_GradeRow, Side]], why_none: str, favours: str, disfavours: str
) -> Leaning:
    """Whether the judge favours the side beside each row.

    The interval of the difference is Newcombe's of two correlated shares (Statistics in Medicine
    17, 1998, method 10) with the correlation between questions.
    """
    errors: dict[bool, list[tuple[Pair, float]]] = {True: [], False: []}
    for row, side in sides:
        errors[row.pair.winner == side].append((row.pair, 1 - row.right))
    against, in_favour = (Cases(errors[is_for]) for is_for in (False, True))
    shares = [
        share_of(errors[is_for], _ONE_SIDED if sides else why_none) for is_for in (False, True)
    ]
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
    """The side with the larger number; None if the numbers are equal or not known.

    >>> _larger((1, 3)), _larger((2, 2)), _larger(None)
    ('B', None, None)
    """
    if sizes is None or sizes[0] == sizes[1]:
        return None
    return "A" if sizes[0] > sizes[1] else "B"


def _length(answer: PartsInOrder) -> int:
    """Characters of an answer's texts."""
    return sum(len(segment) for segment in answer if isinstance(segment, str))
