"""The folders in which the images of answers are searched."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mmie_tasks.answers.images import ImageResolver
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


def resolver() -> ImageResolver:
    """Finds image files in the working directory and the folders of the run."""
    roots = [Path(), *_answer_folders]
    return _resolver_in(tuple(root.absolute() for root in roots), cache_dir(os.environ) / "answers")


@functools.lru_cache(maxsize=4)
def _resolver_in(roots: tuple[Path, ...], inline_folder: Path) -> ImageResolver:
    return ImageResolver(roots, inline_folder)
