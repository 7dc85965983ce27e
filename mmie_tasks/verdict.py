"""What came of scoring one answer: points, or the reason there are none. No score is not zero."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

UnscoredReason = Literal[
    "no_answer",  # the tested model gave none: missing, or its API failed
    "bad_image",  # the tested model was not shown one of the sample's images
    "not_text",  # the answer is null, a number or a list
    "bad_gold",  # the sample itself cannot be scored: gold missing, empty, or not among its options
    "not_scorable",  # the official scorer raises on this pair of texts
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
