"""Answers of tested models as texts and picture files, for benchmarks with pictures in answers, and
what a judge is sent about them.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic

from mmie_tasks.answers.drawn import WITHHELD, read_drawn_answer
from mmie_tasks.answers.images import ImageResolver, resolve_images
from mmie_tasks.answers.parsing import NOT_TEXT, parse_answer
from mmie_tasks.answers.picture_signs import picture_signs
from mmie_tasks.answers.segments import ParsedAnswer
from mmie_tasks.core.errors import MmieTasksError, first_line
from mmie_tasks.core.files import cache_dir
from mmie_tasks.core.tables import listed
from mmie_tasks.core.verdict import UnscoredReason
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.record.answer_facts import FactsT, fact_counts
from mmie_tasks.record.sample import BadRecord, Record
from mmie_tasks.record.segment import Segments

OUTPUT_ROOT = "MMIE_OUTPUT_ROOT"
"""Folders, in which pictures that answers name are searched for."""

# Of this process: lmms-eval hands the functions of a task an answer, and nothing about the run.
_answer_folders: dict[Path, None] = {}


def add_answer_folder(folder: Path) -> None:
    """Also search for the images of answers below a folder, in an evaluation until it ends."""
    _answer_folders[folder.absolute()] = None


@contextmanager
def answer_folders_of_run() -> Iterator[None]:
    """Forget at the end which folders were added: no evaluation searches those of another."""
    before = dict(_answer_folders)
    try:
        yield
    finally:
        _answer_folders.clear()
        _answer_folders.update(before)


def read_results(results: Sequence[object]) -> ParsedAnswer:
    """The answer in the runner's results of a tested model: one text, or one per round.

    A saved answer that is not text is parsed from its JSON. One without segments is judged.
    """
    match list(results):
        case [str(text)] if (drawn := read_drawn_answer(text)) and isinstance(drawn.answer, str):
            return replace(read_results([drawn.answer]), drawing=drawn.facts)
        case [str(text)] if text.startswith(NOT_TEXT):
            content = text.removeprefix(NOT_TEXT).strip()
            if content == "[]":
                return ParsedAnswer(segments=(), shape="json:parts")
            answer = parse_answer([content])
            if answer.shape.startswith("json:") or answer.shape in (
                "empty",
                "only thinking",
                "not text",
            ):
                return answer
            return ParsedAnswer(segments=(), shape="not text", failure=content[:80])
    return parse_answer(results, resolver().is_folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltRequest(Generic[FactsT]):
    """The request for one answer, or the reason why the judge gets none.

    Attributes:
        request: None if the judge gets none.
        reason: The reason, if so.
        detail: The reason for people.
        facts: Counts about the request and the answer.
        answer: The answer with the files of its pictures.
        answer_signature: Protocol and drawer of an answer of ``--model interleaved``; None for
            other answers.
        cut_images: Existing pictures of the answer that the benchmark's prompt does not show.
        cut_texts: Texts of the answer that it does not show.
    """

    request: JudgeRequest | None = None
    reason: UnscoredReason = "no_answer"
    detail: str = ""
    facts: FactsT
    answer: Segments = ()
    answer_signature: str | None = None
    cut_images: int = 0
    cut_texts: int = 0

    def withdrawn(self, reason: UnscoredReason, detail: str) -> BuiltRequest[FactsT]:
        """The same answer without a request."""
        facts = self.facts.without_request()
        return replace(self, request=None, reason=reason, detail=detail, facts=facts)


def build_request(
    results: Sequence[object],
    task: str,
    row: int,
    *,
    start: Callable[[ParsedAnswer], FactsT],
    build: Callable[[FactsT, Segments], BuiltRequest[FactsT]],
) -> BuiltRequest[FactsT]:
    """The request for an answer. Never raises: a run's answers would be lost.

    Args:
        results: The runner's results of the tested model: one text, or one per round.
        task: Name of the task.
        row: The runner's number of the sample.
        start: The benchmark's own facts about an answer.
        build: From facts and the answer, whose pictures are files. Raises a `MmieTasksError` if
            what every request needs is not available.
    """
    answer = read_results(results)
    facts = replace(
        start(answer), shape=answer.shape, thinking=answer.thinking_removed, unread=answer.unread
    )
    if answer.drawing:
        drawn = answer.drawing
        facts = replace(facts, drawn=drawn.drawn, not_drawn=drawn.failed, unused=drawn.unused)
    if answer.failure:
        reason: UnscoredReason = "not_text" if answer.shape == "not text" else "no_answer"
        built = BuiltRequest(reason=reason, detail=answer.failure, facts=facts)
    else:
        files = resolver()
        segments = resolve_images(answer, files, task, row)
        facts = replace(facts, picture_signs=dict.fromkeys(picture_signs(segments, files), 1))
        try:
            built = build(facts, segments)
        except MmieTasksError as error:  # nothing checked it before
            detail = first_line(error)
            built = BuiltRequest(reason="unavailable", detail=detail, facts=facts)
    if answer.drawing is None:
        return built
    if withheld := answer.drawing.withheld:
        built = built.withdrawn("not_drawn", f"pictures not drawn: {listed(withheld)}")
    return replace(built, answer_signature=answer.drawing.signature)


def require_drawn(record: Record) -> None:
    """Check that no picture of a logged answer was withheld by the drawer's fault.

    Raises:
        BadRecord: One was: the sample is not judged.
    """
    not_drawn = fact_counts(record, "not_drawn")
    if not not_drawn.keys().isdisjoint(WITHHELD):
        raise BadRecord(f"not_drawn: pictures not drawn: {listed(not_drawn)}")


def resolver() -> ImageResolver:
    """Finds the files of images that an answer names: in the working directory, the folders of
    `OUTPUT_ROOT` and those of the run.
    """
    folders = [name for name in os.environ.get(OUTPUT_ROOT, "").split(os.pathsep) if name]
    roots = [Path(), *(Path(folder).expanduser() for folder in folders), *_answer_folders]
    return _resolver_in(tuple(root.absolute() for root in roots), cache_dir(os.environ) / "answers")


@functools.lru_cache(maxsize=4)
def _resolver_in(roots: tuple[Path, ...], inline_folder: Path) -> ImageResolver:
    return ImageResolver(roots, inline_folder)
