"""People's published verdicts on pairs of answers with text and images, whatever their set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from loguru import logger
from pydantic import TypeAdapter, ValidationError

from mmie_tasks.core.errors import DataBroken, DataMissing, first_line
from mmie_tasks.hub.images import inside, size_px

Side: TypeAlias = Literal["A", "B"]
SetName: TypeAlias = Literal["mmrb2", "opening"]
SHORT_TITLES: Mapping[SetName, str] = {"mmrb2": "MMRB2", "opening": "OpenING"}
PartsInOrder: TypeAlias = tuple[str | Path, ...]
"""Texts and image files in order."""

PublishedContent: TypeAlias = Sequence[tuple[Literal["text", "image"], str]]
"""Texts and names of images in order."""

Contents: TypeAlias = tuple[PartsInOrder, tuple[PartsInOrder, PartsInOrder]]
"""A question and its answers."""

REPAIR = "replace it by the published file"
FIRST_WINS = {"A": 1.0, "Tie(A)": 1.0, "B": 0.0, "Tie(B)": 0.0}
"""Verdict to 1 if the first answer wins, 0 if the second does."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two answers to one question, and which of them people prefer.

    Attributes:
        id: Unique in its set.
        sample: The question's id. Pairs of one sample are not independent.
        subset: MMRB2: where the question comes from; OpenING: the sample's task.
        winner: People's verdict; of a tie the side that they were forced to name.
        is_tie: Whether people called it a tie.
        votes: The side that each rater prefers; empty if not published.
        models: The models that answered, A's first.
        question: Empty in a set without `VerdictSet.has_answers`.
        answers: Those of A and B; in a set without `VerdictSet.has_answers` their texts, if
            published.
        images: How many images each answer has; None if not known.
    """

    id: str
    sample: str
    subset: str
    winner: Side
    is_tie: bool
    votes: tuple[Side, ...]
    models: tuple[str, str]
    question: PartsInOrder
    answers: tuple[PartsInOrder, PartsInOrder]
    images: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictSet:
    """A published set of people's verdicts.

    Attributes:
        title: Its name and what its verdicts are about.
        source: Repository and commit, or a local folder.
        pairs: In the published order.
        has_answers: Whether the pairs have questions and answers, so that a judge can be asked.
        both_orders: Whether a published judge has verdicts on each pair with A first and with B
            first.
        missing_answers: Published pairs that are not in `pairs`, because a text or an image of
            question or answers is missing or broken; 0 in a set without `has_answers`.
    """

    name: SetName
    title: str
    licence: str
    source: str
    pairs: tuple[Pair, ...]
    has_answers: bool
    both_orders: bool
    missing_answers: int = 0

    @property
    def short_title(self) -> str:
        """Its name alone."""
        return SHORT_TITLES[self.name]


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
class Judgement:
    """A judge's verdict on one pair in one order.

    Attributes:
        pair: `Pair.id`.
        is_reversed: Whether B was shown first; None if each answer was judged by itself.
        a_wins: 1 if the pair's A wins, 0 if B does, 0.5 if the judge is undecided; None if there is
            no verdict.
        why_not: Why there is no verdict; None if there is one.
        is_wrong: Whether an undecided judge counts as wrong, not as half.
    """

    pair: str
    is_reversed: bool | None
    a_wins: float | None
    why_not: NoVerdict | None = None
    is_wrong: bool = False

    @classmethod
    def in_order(cls, pair: str, *, is_reversed: bool, first_wins: float) -> Judgement:
        """A verdict on the answer that was shown first."""
        a_wins = 1 - first_wins if is_reversed else first_wins
        return cls(pair=pair, is_reversed=is_reversed, a_wins=a_wins)


def parsed_file(path: Path, content: bytes, adapter: TypeAdapter[_T]) -> _T:
    """The content of a published file, with types as they are, or `DataBroken` with its first
    problem.
    """
    try:
        return adapter.validate_json(content, strict=True)
    except ValidationError as error:
        raise DataBroken(
            f"`{path}` is not in the published layout: {problem_of(error)}.", hint=REPAIR
        ) from error


def problem_of(error: Exception) -> str:
    """The first problem, as a clause."""
    if not isinstance(error, ValidationError):
        return f"{type(error).__name__}: {first_line(error)}"
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"]))
    return f"`{field}`: {first['msg']}" if field else first["msg"]


def unique_pairs(source: str, pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """The pairs, or `DataBroken` if there are none or one is there twice."""
    by_id: dict[str, Pair] = {}
    for pair in pairs:
        if by_id.setdefault(pair.id, pair) is not pair:
            raise DataBroken(f"{source} has the pair `{pair.id}` twice.", hint=REPAIR)
    if not by_id:
        raise DataBroken(f"{source} has no pairs.", hint=REPAIR)
    return tuple(by_id.values())


def segments_of(content: PublishedContent, folder: Path | None) -> PartsInOrder:
    """Texts, and images as files below `folder`, whose headers are checked; without a folder the
    texts alone.
    """
    segments: list[str | Path] = []
    for kind, value in content:
        if kind == "text" and value.strip():
            segments.append(value)
        elif kind == "image" and folder:
            segments.append(path := inside(folder, value))
            size_px(path)
    return tuple(segments)


def with_answers(verdict_set: VerdictSet, read: Callable[[Pair], Contents]) -> VerdictSet:
    """The set with the pairs whose question and answers can be read; without answers if none
    can.
    """
    complete: list[Pair] = []
    problems: dict[str, str] = {}
    for pair in verdict_set.pairs:
        try:
            question, answers = read(pair)
        except (DataMissing, DataBroken) as error:
            problems[pair.id] = error.message
            continue
        a, b = (sum(isinstance(segment, Path) for segment in answer) for answer in answers)
        if question:
            complete.append(replace(pair, question=question, answers=answers, images=(a, b)))
        else:
            problems[pair.id] = "It has no question."
    if problems:
        pair_id, problem = next(iter(problems.items()))
        outcome = "they are left out" if complete else "there are verdicts only"
        logger.warning(
            f"{verdict_set.title}: the question or the answers of {len(problems)} of "
            f"{len(verdict_set.pairs)} pairs cannot be read; {outcome}. The first, "
            f"`{pair_id}`: {problem}"
        )
    if not complete:
        return verdict_set
    return replace(
        verdict_set, pairs=tuple(complete), has_answers=True, missing_answers=len(problems)
    )
