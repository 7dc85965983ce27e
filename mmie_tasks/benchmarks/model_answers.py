"""Answers with images: read, with their image files, and the images that saved answers name."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mmie_tasks.answers.answer import read_answer
from mmie_tasks.answers.images import ImageProblem, ImageResolver, check_image
from mmie_tasks.answers.saved import ResultText, SavedAnswer
from mmie_tasks.core.files import cache_dir
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.core.wording import listed
from mmie_tasks.record.answer_facts import AnswerFacts
from mmie_tasks.record.segment import Segments
from mmie_tasks.record.text_facts import text_facts

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
    facts: AnswerFacts
    unscored: Unscored | None
    drawn_by: str | None


def read_image_answer(results: Sequence[object]) -> ImageAnswer:
    """The answer in lmms-eval's results: one text, or one per round. Never raises."""
    answer = read_answer(results)
    text = text_facts(answer.text, thinking=answer.thinking, is_expected=bool(answer.images))
    drawing = answer.drawing
    facts = AnswerFacts(
        thinking=text.thinking,
        tag=text.tag,
        short_text=text.short_text,
        shape=answer.shape,
        unread=answer.unread,
        unfilled_placeholders=answer.unfilled,
        unplaced=answer.unplaced,
        looks_unread=answer.looks_unread,
        drawn=drawing.drawn if drawing else None,
        not_drawn=drawing.failed if drawing else {},
        unused=drawing.unused if drawing else {},
    )
    unscored = Unscored("no_answer", answer.failure) if answer.failure else None
    if drawing and drawing.withheld:
        unscored = Unscored("not_drawn", f"pictures not drawn: {listed(drawing.withheld)}")
    return ImageAnswer(
        segments=resolver().resolved(answer.segments),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedImages:
    """The images that a saved answer names in fields or parts; a text only mentions others.

    Attributes:
        answer: The answer, with the absolute paths of the images that exist.
        count: The number of images.
        unusable: References to those that cannot be used, each with the problem: no such file, a
            header that cannot be read, a URL.
        moved: Paths of another machine, each with the file that was found by its end.
        folders: The folders that were searched.
        location: File, position and field of the answer's id.
    """

    answer: ResultText
    count: int
    unusable: tuple[tuple[str, ImageProblem], ...]
    moved: Mapping[str, Path]
    folders: tuple[Path, ...]
    location: str


def named_images(saved: SavedAnswer) -> NamedImages:
    """Find the images that an answer names. Raises `AnswersUnusable` if it is not clear whether the
    images of its record are those of the answer.
    """
    answer, files = saved.with_images(), resolver(saved.folder)
    count, moved, rounds = 0, {}, []
    unusable: list[tuple[str, ImageProblem]] = []
    for text in [answer] if isinstance(answer, str) else answer:
        read = read_answer([text])
        located = text
        for reference in read.images if read.shape in ("parts", "text+images") else ():
            count += 1
            file = files.locate(reference)
            if file.path is not None:
                located = _with_path(located, reference, file.path)
                if file.is_moved:
                    moved[reference] = file.path
            opened = check_image(file.path, header_only=True) if file.path else file
            if opened.problem:
                unusable.append((reference, opened.problem))
        rounds.append(located)
    return NamedImages(
        answer=rounds[0] if isinstance(answer, str) else tuple(rounds),
        count=count,
        unusable=tuple(unusable),
        moved=moved,
        folders=files.roots,
        location=saved.location,
    )


def _with_path(answer: str, reference: str, path: Path) -> str:
    """An answer in JSON with a path in place of a reference."""
    for is_ascii in (True, False):
        old = json.dumps(reference, ensure_ascii=is_ascii)
        answer = answer.replace(old, json.dumps(str(path), ensure_ascii=False))
    return answer
