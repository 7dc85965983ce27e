"""An answer that is a plain string: words, a path, words with markdown images."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from mmie_tasks.interleaved.places import cut_at, marked
from mmie_tasks.interleaved.references import is_one_path, looks_like_image
from mmie_tasks.interleaved.segments import Segment

# ``models/simple/qwen_image_edit.py`` of lmms-eval 0.7.3 answers so.
_SAVED_TO = re.compile(r"\s*(?:generated )?image saved to:[ \t]*(\S[^\n]*?)\s*", re.IGNORECASE)
_VIDEO_ENDINGS = (".mp4", ".webm", ".mov", ".avi", ".mkv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A plain string, read; `failure` says why it is no answer."""

    segments: tuple[Segment, ...]
    shape: str
    failure: str = ""


def in_words(text: str, is_folder: Callable[[str], bool]) -> Words:
    """Read a string that stands for no object.

    Words alone are kept to the letter: white space, escapes and placeholders included.

    >>> in_words("see ![a cup](out/1.png) here", lambda _: False).segments[1].image
    'out/1.png'
    """
    if saved := _SAVED_TO.fullmatch(text):
        return Words(segments=(Segment(image=saved[1]),), shape="saved to")
    if path := _path(text, is_folder):
        return path
    images = [mark for mark in marked(text) if _is_target(mark[2])]
    if images:
        return Words(segments=cut_at(text, images), shape="markdown")
    return Words(segments=(Segment(text=text),), shape="text")


def _path(text: str, is_folder: Callable[[str], bool]) -> Words | None:
    bare = text.strip()
    if bare.startswith("data:image/") and looks_like_image(bare) and ";base64," in bare[:64]:
        return Words(segments=(Segment(image=bare),), shape="data uri")
    # Without a slash it may be a word; `a.png` may be what was asked for.
    if not is_one_path(bare) or not ("/" in bare or "\\" in bare):
        return None
    if looks_like_image(bare):
        return Words(segments=(Segment(image=bare),), shape="path")
    if bare.lower().endswith(_VIDEO_ENDINGS):
        return Words(segments=(), shape="video", failure="a video in the place of an answer")
    if bare.strip("/\\.") and is_folder(bare):
        return Words(segments=(Segment(image=bare),), shape="folder")
    return None


def _is_target(target: str) -> bool:
    """A link that ends like an image; others may be anything."""
    bare = target.partition("?")[0].partition("#")[0]
    return looks_like_image(target) or looks_like_image(bare)
