"""Answers of tested models as texts and image files, for benchmarks with images in answers."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from mmie_tasks.answers.drawn import read_drawn_answer
from mmie_tasks.answers.failures import not_text_content
from mmie_tasks.answers.images import ImageResolver
from mmie_tasks.answers.parsed_answer import ParsedAnswer
from mmie_tasks.answers.parser import parse_answer
from mmie_tasks.core.files import cache_dir

# Global, because lmms-eval passes the functions of a task an answer and nothing about the run.
_answer_folders: dict[Path, None] = {}


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


def read_results(results: Sequence[object]) -> ParsedAnswer:
    """The answer in lmms-eval's results of a tested model: one text, or one per round.

    A saved answer that is not text is parsed from its JSON. An answer without segments is judged.
    """
    match list(results):
        case [str(text)] if (drawn := read_drawn_answer(text)) and isinstance(drawn.answer, str):
            return replace(read_results([drawn.answer]), drawing=drawn.facts)
        case [str(text)] if (content := not_text_content(text)) is not None:
            if content == "[]":
                return ParsedAnswer(notation="json", kind="parts")
            answer = parse_answer([content])
            if answer.notation == "json" or answer.is_empty:
                return answer
            return ParsedAnswer(kind="not text", failure=content[:80])
    return parse_answer(results, resolver().is_folder)


def resolver() -> ImageResolver:
    """Finds image files in the working directory and the folders of the run."""
    roots = [Path(), *_answer_folders]
    return _resolver_in(tuple(root.absolute() for root in roots), cache_dir(os.environ) / "answers")


@functools.lru_cache(maxsize=4)
def _resolver_in(roots: tuple[Path, ...], inline_folder: Path) -> ImageResolver:
    return ImageResolver(roots, inline_folder)
