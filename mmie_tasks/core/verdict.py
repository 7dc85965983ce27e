"""What came of scoring one answer: points, or the reason there are none. No score is not zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

UnscoredReason = Literal[
    "no_answer",  # the tested model gave none: missing, or its API failed
    "bad_image",  # an image that the tested model or the judge is to see cannot be used
    "not_text",  # the answer is null, a number or a list
    "bad_gold",  # the sample itself cannot be scored: gold missing, empty, or not among its options
    "not_scorable",  # the official scorer raises on this pair of texts
    "left_out",  # the official script leaves the sample out
    "unavailable",  # the judge gave no reply: down, too busy, or no longer set up right
    "unfit",  # this judge cannot be shown the request: too long, or its own marks in the text
    "refused",  # the judge answered, and would not judge
    "cut_off",  # the judge's reply ran into its limit of tokens
    "unparsed",  # no verdict can be read from the judge's reply
    "off_scale",  # the verdict in the reply is impossible: more than full marks, or negative
    "budget",  # the judge was not asked: the spending limit was reached
]


@dataclass(frozen=True, slots=True)
class Scored:
    """Points on the benchmark's own scale, and what was read from the text to give them."""

    points: float
    reading: str = ""


@dataclass(frozen=True, slots=True)
class Unscored:
    """No points. Never counted as zero."""

    reason: UnscoredReason
    detail: str = ""


Verdict = Scored | Unscored

_SAME = 1e-9  # points closer than this are the same: two ways to one fraction


def differ(one: Verdict, other: Verdict) -> bool:
    """Whether two readings of one sample give different points, or only one gives any.

    >>> differ(Scored(0.1 + 0.2), Scored(0.3)), differ(Scored(0), Unscored("unparsed"))
    (False, True)
    """
    match one, other:
        case Scored(points=points), Scored(points=others):
            return abs(points - others) > _SAME
        case Unscored(), Unscored():
            return False
    return True


@dataclass(frozen=True, slots=True)
class Tally:
    """Mean points over the scored samples, beside how many there were."""

    mean: float | None  # None where nothing was scored
    scored: int
    unscored: int

    @property
    def coverage(self) -> float:
        """Scored samples as a fraction of all; 0 where there are none."""
        total = self.scored + self.unscored
        return self.scored / total if total else 0.0


def tally(verdicts: Iterable[Verdict]) -> Tally:
    """Average the points; an unscored verdict is counted and never averaged.

    >>> tally([Scored(1.0), Scored(0.0), Unscored("no_answer")])
    Tally(mean=0.5, scored=2, unscored=1)
    """
    points: list[float] = []
    unscored = 0
    for verdict in verdicts:
        match verdict:
            case Scored():
                points.append(verdict.points)
            case Unscored():
                unscored += 1
    mean = sum(points) / len(points) if points else None
    return Tally(mean=mean, scored=len(points), unscored=unscored)


COVERAGE_FLOOR = 0.9
"""Below this fraction of scored samples a mean is not reported."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean on the benchmark's own scale, or None and the reason there is none."""

    value: float | None
    why_not: str = ""


def mean_of(found: Tally) -> Mean:
    """The mean of one tally; none below `COVERAGE_FLOOR`."""
    if found.mean is None:
        return Mean(None, "no sample has a score")
    if found.coverage < COVERAGE_FLOOR:
        total = found.scored + found.unscored
        return Mean(None, f"only {found.scored} of {total} samples have a score")
    return Mean(found.mean)


_LOGGED = 80  # characters of a reading


def as_row(verdict: Verdict, **fields: object) -> dict[str, object]:
    """A verdict as the runner logs it: ``score`` and ``reading``, or ``unscored`` and why.

    Without a score there is no ``score`` key: the runner leaves such rows out of its standard
    errors, and fails on a None there.
    """
    match verdict:
        case Scored(points=points, reading=read):
            short = read if len(read) <= _LOGGED else f"{read[:_LOGGED]}…"  # it may be the answer
            return {**fields, "score": points, "reading": short}
        case Unscored(reason=reason, detail=detail):
            return {**fields, "unscored": reason, "detail": detail}


def verdict_of(row: Mapping[str, object]) -> Verdict:
    """The verdict a row was made from: the inverse of `as_row`, for aggregation.

    >>> verdict_of({"score": 1.0}), verdict_of({"unscored": "no_answer"})
    (Scored(points=1.0, reading=''), Unscored(reason='no_answer', detail=''))
    """
    points = row.get("score", row.get("points"))
    if isinstance(points, (int, float)):
        return Scored(float(points), str(row.get("reading", "")))
    return Unscored(row["unscored"], str(row.get("detail", "")))  # type: ignore[arg-type]  # ours
