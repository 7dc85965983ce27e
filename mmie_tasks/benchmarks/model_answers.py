"""Answers with images: read, with their image files."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mmie_tasks.answers.answer import read_answer
from mmie_tasks.answers.images import ImageResolver
from mmie_tasks.benchmarks.text_answer import shown_results, tag_of
from mmie_tasks.core.files import cache_dir
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.core.wording import listed
from mmie_tasks.record.facts import Facts, facts_of
from mmie_tasks.record.segment import Segments

# Global, because lmms-eval passes the functions of a task an answer and nothing about the run.
_answer_folders: dict[Path, None] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageAnswer:
    """An answer of texts and images.

    Attributes:
        segments: In order; every image is a file or has a problem.
        facts: What was noted about it.
        unscored: Why it is not judged; None if it is, also without content.
        drawn_by: Protocol and drawer of an answer with drawn images, else None.
    """

    segments: Segments
    facts: Facts
    unscored: Unscored | None
    drawn_by: str | None


def read_image_answer(results: Sequence[object]) -> ImageAnswer:
    """The answer in lmms-eval's results: one text, or one per round. Never raises."""
    answer = read_answer(results)
    facts = facts_of(
        shape=answer.shape,
        thinking=answer.thinking,
        tag=tag_of(answer.text),
        unread=answer.unread,
        unfilled_placeholders=answer.unfilled,
        pictures_unplaced=bool(answer.unplaced),
        looks_unread=answer.looks_unread,
    )
    if drawing := answer.drawing:
        facts |= facts_of(
            pictures_drawn=drawing.drawn,
            pictures_failed=sum(drawing.failed.values()),
            not_drawn=drawing.failed,
            pictures_unused=sum(drawing.unused.values()),
            unused=drawing.unused,
        )
    unscored = Unscored("no_answer", answer.failure) if answer.failure else None
    if drawing and drawing.withheld:
        unscored = Unscored("not_drawn", f"pictures not drawn: {listed(drawing.withheld)}")
    shown = () if unscored is None else shown_results(results)
    return ImageAnswer(
        segments=resolver().resolved(answer.segments) or shown,
        facts=facts,
        unscored=unscored,
        drawn_by=drawing.signature if drawing else None,
    )


def add_answer_folder(folder: Path) -> None:
    """Also search below a folder for the images of answers, until the evaluation ends."""
    _answer_folders[folder.absolute()] = None


@contextmanager
def answer_folders_of_run() -> Iterator[None]:
    """Forget the added folders at the end: an evaluation does not search another one's."""
    before = dict(_answer_folders)
    try:
        yield
    finally:
        _answer_folders.clear()
        _answer_folders.update(before)


def resolver(beside: Path | None = None) -> ImageResolver:
    """Finds image files in the working directory and the folders of the run, and before these in
    the folder of a file of saved answers.
    """
    folders = (beside.absolute(),) if beside else ()
    roots = tuple(dict.fromkeys((*folders, Path().absolute(), *_answer_folders)))
    moved_to = (*folders, *_answer_folders)
    return _resolver_in(roots, cache_dir(os.environ) / "answers", moved_to)


@functools.lru_cache(maxsize=4)
def _resolver_in(
    roots: tuple[Path, ...], inline_folder: Path, moved_to: tuple[Path, ...]
) -> ImageResolver:
    return ImageResolver(roots, inline_folder, moved_to)
