"""A published set of people's verdicts on pairs of answers, and a judge's verdict on one pair."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Side: TypeAlias = Literal["A", "B"]
PartsInOrder: TypeAlias = tuple[str | Path, ...]
"""Texts and image files in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two answers to one question, and which of them people prefer.

    Attributes:
        id: Unique in its set.
        sample: The question's id. Pairs of one sample are not independent.
        subset: The sample's task.
        winner: People's verdict; of a tie the side that they were forced to name.
        is_tie: Whether people called it a tie.
        models: The models that answered, A's first.
        question: Empty in a set without `VerdictSet.has_answers`.
        answers: Those of A and B; empty in a set without `VerdictSet.has_answers`.
        images: How many images each answer has; None if not known.
    """

    id: str
    sample: str
    subset: str
    winner: Side
    is_tie: bool
    models: tuple[str, str]
    question: PartsInOrder
    answers: tuple[PartsInOrder, PartsInOrder]
    images: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictSet:
    """A published set of people's verdicts.

    Attributes:
        title: Its name, a colon, and what its verdicts are about.
        source: Repository and commit, or a local folder.
        pairs: In the published order.
        has_answers: Whether the pairs have questions and answers, so that a judge can be asked.
        missing_answers: Published pairs that are not in `pairs`, because a text or an image of
            question or answers is missing or broken; 0 in a set without `has_answers`.
    """

    name: str
    title: str
    licence: str
    source: str
    pairs: tuple[Pair, ...]
    has_answers: bool
    missing_answers: int = 0


@dataclass(frozen=True, slots=True)
class NoVerdict:
    """Why a judge has no verdict on a pair.

    Attributes:
        reason: To count by.
        detail: The reason of this pair, which may quote the judge; may be empty.
    """

    reason: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class PairVerdict:
    """A judge's verdict on one pair in one order.

    Attributes:
        pair: `Pair.id`.
        is_reversed: Whether B was shown first; None if each answer was judged by itself.
        a_wins: 1 if the pair's A wins, 0 if B does, 0.5 if the judge is undecided; None if there is
            no verdict.
        why_not: Why there is no verdict; None if there is one.
    """

    pair: str
    is_reversed: bool | None
    a_wins: float | None
    why_not: NoVerdict | None = None

    @classmethod
    def in_order(cls, pair: str, *, is_reversed: bool, first_wins: float) -> PairVerdict:
        """A verdict on the answer that was shown first."""
        a_wins = 1 - first_wins if is_reversed else first_wins
        return cls(pair=pair, is_reversed=is_reversed, a_wins=a_wins)
