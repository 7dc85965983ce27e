"""Answers of tested models as texts and picture files, for benchmarks with pictures in answers."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mmie_tasks.answers.drawn import read_drawn_answer
from mmie_tasks.answers.images import ImageResolver
from mmie_tasks.answers.parsing import NOT_TEXT, parse_answer
from mmie_tasks.answers.segments import ParsedAnswer
from mmie_tasks.core.files import cache_dir
from mmie_tasks.record.answer_facts import FactsT

OUTPUT_ROOT = "MMIE_OUTPUT_ROOT"
"""Folders, in which pictures that answers name are searched for."""

_answer_folders: dict[Path, None] = {}  # output folders of this process's runs


def add_answer_folder(folder: Path) -> None:
    """Also search for the images of answers below a folder."""
    _answer_folders[folder.absolute()] = None


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


def facts_of_answer(kind: type[FactsT], answer: ParsedAnswer) -> FactsT:
    """The facts, of a benchmark's kind, that every benchmark has about an answer."""
    facts = kind(shape=answer.shape, thinking=answer.thinking_removed, unread=answer.unread)
    if drawing := answer.drawing:
        facts = replace(facts, drawn=drawing.drawn, not_drawn=drawing.failed, unused=drawing.unused)
    return facts


def resolver() -> ImageResolver:
    """Finds the files of images that an answer names: in the working directory, the folders of
    `OUTPUT_ROOT` and those of this process's runs.
    """
    folders = [name for name in os.environ.get(OUTPUT_ROOT, "").split(os.pathsep) if name]
    roots = [Path(), *(Path(folder).expanduser() for folder in folders), *_answer_folders]
    return _resolver_in(tuple(root.absolute() for root in roots), cache_dir(os.environ) / "answers")


@functools.lru_cache(maxsize=4)
def _resolver_in(roots: tuple[Path, ...], inline_folder: Path) -> ImageResolver:
    return ImageResolver(roots, inline_folder)
