"""Reads the files in which sets of people's verdicts are published, whatever the set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from loguru import logger
from pydantic import TypeAdapter, ValidationError

from mmie_tasks.core.errors import DataBroken, DataMissing, first_line
from mmie_tasks.hub.images import inside, size_px
from mmie_tasks.quality.judge_exam.verdict_set import Pair, PartsInOrder, VerdictSet

PublishedContent: TypeAlias = Sequence[tuple[Literal["text", "image"], str]]
"""Texts and names of images in order."""

Contents: TypeAlias = tuple[PartsInOrder, tuple[PartsInOrder, PartsInOrder]]
"""A question and its answers."""

REPAIR = "replace it by the published file"
FIRST_WINS = {"A": 1.0, "Tie(A)": 1.0, "B": 0.0, "Tie(B)": 0.0}
"""Verdict to 1 if the first answer wins, 0 if the second does."""

_T = TypeVar("_T")


def parsed_file(path: Path, content: bytes, adapter: TypeAdapter[_T]) -> _T:
    """The content of a published file, with types as they are, or `DataBroken` with its first
    problem.
    """
    try:
        return adapter.validate_json(content, strict=True)
    except ValidationError as error:
        raise DataBroken(
            f"`{path}` is not in the published layout: {first_problem(error)}.", hint=REPAIR
        ) from error


def first_problem(error: Exception) -> str:
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


def parts_in_order(content: PublishedContent, folder: Path | None) -> PartsInOrder:
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
