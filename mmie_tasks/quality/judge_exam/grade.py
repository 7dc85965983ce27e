"""Grades of judges on people's verdicts: agreement, flips, preferences that have nothing to do with
quality.

Pairs of one question are not independent, and neither are the two orders of one pair. So intervals
are bootstrap intervals over questions: a resample has a question with all of its verdicts, or
without any. In simulations with 100 questions and more, 94 to 96 % of them hold the true share,
with fewer 90 to 96 %.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np

from mmie_tasks.quality.judge_exam.verdicts import Judgement, Pair, PartsInOrder, Side, VerdictSet
from mmie_tasks.record.intervals import (
    LEVEL,
    Floats,
    Interval,
    percentile_interval,
    resample_counts,
)

Order: TypeAlias = Literal["forward", "reverse"]
"""Which answer the judge was shown first: A, or B."""

MIN_SAMPLES = 10
"""With fewer questions there is no interval."""

RESAMPLES = 10_000

_ORDERS: Mapping[Order, bool] = {"forward": False, "reverse": True}  # `Judgement.is_reversed`
_NO_VERDICTS = "the judge gave no verdict"
_NO_ORDER = "each answer is judged by itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How often something is the case, in percent.

    Attributes:
        value: 0 to 100; None where there is nothing to count.
        interval: 95 %, bootstrap over questions; None where there is none.
        n: Cases that were counted; both orders of a pair are two cases.
        why_not: Why there is no value, or no interval; empty if there are both.
    """

    value: float | None
    interval: Interval | None
    n: int
    why_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """How good a judge is that compares two answers, or gives points to each.

    An undecided judge counts as half, and so do equal points. What it gave no verdict on lowers the
    coverage, and nothing else. Shares that are about an order have no value for a judge that gave
    points.

    Attributes:
        asked: Judgements that were asked for.
        judged: Those with a verdict.
        agreement: With people's verdict. With both orders this is the accuracy of
            ``compute_accuracy.py`` in MMRB2's repository, where an undecided judge is wrong,
            however.
        agreement_untied: Agreement on the pairs that people did not call a tie.
        undecided: The judge prefers neither answer, or gives both the same points.
        by_order: Agreement by the order shown, for each order that was asked for.
        by_subset: Agreement by `Pair.subset`, sorted by name.
        flips: Of the pairs with verdicts in both orders, those on which the two verdicts differ.
        first_answer: The judge prefers the answer that was shown first.
        first_answer_people: People prefer it, for the same pairs in the same orders.
        more_images: The judge prefers the answer with more images, on pairs with unequal numbers.
        more_images_people: People prefer it, for the same pairs in the same orders.
        longer_text: The judge prefers the answer with the longer text.
        longer_text_people: People prefer it, for the same pairs in the same orders.
        raters: The ceiling: a single rater's side is people's verdict, on the judged pairs.
            People's verdict depends on this rater too, so another rater would agree with it less
            often.
        rater_pairs: Two raters of a judged pair prefer the same side.
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
    more_images: Share
    more_images_people: Share
    longer_text: Share
    longer_text_people: Share
    raters: Share
    rater_pairs: Share

    @property
    def coverage(self) -> float | None:
        """Judgements with a verdict in percent of those asked for; None if none was."""
        return 100 * self.judged / self.asked if self.asked else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _GradeRow:
    """A judgement with a verdict, and its pair."""

    pair: Pair
    is_reversed: bool | None
    a_wins: float

    @property
    def first_side(self) -> Side:
        return "B" if self.is_reversed else "A"

    def preference(self, side: Side) -> float:
        """How far the judge prefers a side: 1, 0, or 0.5 if it is undecided."""
        return self.a_wins if side == "A" else 1 - self.a_wins


def grade(verdict_set: VerdictSet, judgements: Sequence[Judgement]) -> Grade:
    """The grade of a judge.

    Args:
        verdict_set: People's verdicts.
        judgements: What was asked for, in any order, with and without verdict.

    >>> pair = Pair(
    ...     id="1", sample="q", subset="recipes", winner="A",
    ...     is_tie=False, votes=(), models=("x", "y"),
    ...     question=(), answers=((), ()), images=(2, 1),
    ... )
    >>> people = VerdictSet(
    ...     name="mmrb2", title="", licence="", source="", pairs=(pair,),
    ...     has_answers=False, both_orders=True
    ... )
    >>> verdicts = ((False, 1.0), (True, 0.5))
    >>> first, second = (Judgement(pair="1", is_reversed=o, a_wins=wins) for o, wins in verdicts)
    >>> result = grade(people, [first, second])
    >>> result.agreement.value, result.flips.value, result.more_images.value, result.coverage
    (75.0, 100.0, 75.0, 100.0)
    """
    pairs = {pair.id: pair for pair in verdict_set.pairs}
    rows = [
        _GradeRow(pair=pairs[j.pair], is_reversed=j.is_reversed, a_wins=j.a_wins)
        for j in judgements
        if j.a_wins is not None
    ]
    judged_pairs = list({row.pair.id: row.pair for row in rows}.values())
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
    no_ties, no_images, no_text = _NO_VERDICTS, _NO_VERDICTS, _NO_VERDICTS
    if rows:
        no_ties = "people called no judged pair a tie"
        no_images = "no judged pair is known to have unequal numbers of images"
        no_text = "no judged pair is known to have texts of unequal length"
    return Grade(
        asked=len(judgements),
        judged=len(rows),
        agreement=_agreement(rows),
        agreement_untied=_agreement(untied if len(untied) < len(rows) else [], no_ties),
        undecided=_share(((row.pair, float(row.a_wins == 0.5)) for row in rows), _NO_VERDICTS),
        by_order={
            order: _agreement([row for row in rows if row.is_reversed is is_reversed])
            for order, is_reversed in _ORDERS.items()
            if is_reversed in orders
        },
        by_subset={
            subset: _agreement(members) for subset, members in sorted(rows_by_subset.items())
        },
        flips=_flips(rows, no_flips),
        first_answer=_judge_prefers(first, no_order),
        first_answer_people=_people_prefer(first, no_order),
        more_images=_judge_prefers(images, no_images),
        more_images_people=_people_prefer(images, no_images),
        longer_text=_judge_prefers(text, no_text),
        longer_text_people=_people_prefer(text, no_text),
        raters=_share(
            ((pair, float(vote == pair.winner)) for pair in judged_pairs for vote in pair.votes),
            "no judged pair has published votes of single raters",
        ),
        rater_pairs=_share(
            (
                (pair, float(one == other))
                for pair in judged_pairs
                for one, other in combinations(pair.votes, 2)
            ),
            "no judged pair has published votes of two raters",
        ),
    )


def _agreement(rows: Sequence[_GradeRow], why_none: str = _NO_VERDICTS) -> Share:
    return _share(((row.pair, row.preference(row.pair.winner)) for row in rows), why_none)


def _flips(rows: Sequence[_GradeRow], why_none: str) -> Share:
    forward = {row.pair.id: row.a_wins for row in rows if not row.is_reversed}
    both = [row for row in rows if row.is_reversed and row.pair.id in forward]
    return _share(((row.pair, float(row.a_wins != forward[row.pair.id])) for row in both), why_none)


def _judge_prefers(sides: Sequence[tuple[_GradeRow, Side]], why_none: str) -> Share:
    """How often the judge prefers the side beside each row."""
    return _share(((row.pair, row.preference(side)) for row, side in sides), why_none)


def _people_prefer(sides: Sequence[tuple[_GradeRow, Side]], why_none: str) -> Share:
    return _share(((row.pair, float(row.pair.winner == side)) for row, side in sides), why_none)


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


def _share(values: Iterable[tuple[Pair, float]], why_none: str) -> Share:
    """The mean of values from 0 to 1 in percent, one per case, with its interval over questions.

    Of no cases there is none, for the reason `why_none`.
    """
    by_sample: defaultdict[str, list[float]] = defaultdict(list)
    for pair, value in values:
        by_sample[pair.sample].append(value)
    if not by_sample:
        return Share(value=None, interval=None, n=0, why_not=why_none)
    sums_and_counts = np.array([(sum(sample), len(sample)) for sample in by_sample.values()])
    total, n = sums_and_counts.sum(axis=0)
    value = float(100 * total / n)
    if len(by_sample) < MIN_SAMPLES:
        why_not = f"too few questions for an interval: {len(by_sample)}"
        return Share(value=value, interval=None, n=int(n), why_not=why_not)
    return Share(value=value, interval=_interval(value, sums_and_counts), n=int(n))


def _interval(value: float, sums_and_counts: Floats) -> Interval:
    """The interval of a share of 0 to 100 %, from sum and number of each question's values, shape
    ``(questions, 2)``.

    All resamples of a share of 0 or 100 % are equal. There the interval is the exact one of as many
    independent cases as there are questions (Clopper and Pearson).
    """
    if value in (0, 100):
        questions = len(sums_and_counts)
        return exact_interval(0 if value == 0 else questions, questions)
    alike, times = np.unique(sums_and_counts, axis=0, return_counts=True)
    draws = (weights @ alike for weights in resample_counts(times, RESAMPLES))
    return percentile_interval(np.concatenate([100 * draw[:, 0] / draw[:, 1] for draw in draws]))


def exact_interval(count: int, total: int) -> Interval:
    """The exact 95 % interval of a share, in percent (Clopper and Pearson)."""
    from scipy.stats import binomtest

    interval = binomtest(count, total).proportion_ci(LEVEL, method="exact")
    return Interval(100 * float(interval.low), 100 * float(interval.high))
