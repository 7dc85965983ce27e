"""Finds signs that a text of an answer has images that were not read.

The text stays unchanged, and its answer is counted under the names of its signs. An image that is
shown does not count, nor does an image tag in code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from mmie_tasks.answers.images import ImageResolver
from mmie_tasks.answers.references import IMAGE_SUFFIXES, is_image_reference
from mmie_tasks.record.segment import Segment

PictureSign: TypeAlias = Literal["looks like JSON", "names an existing image", "has an image tag"]
PICTURE_SIGNS: tuple[PictureSign, ...] = get_args(PictureSign)

_MAX_NAMES = 1_000  # names of image files per text
_MAX_PATH_CHARACTERS = 1_024
_SUFFIXES = "|".join(map(re.escape, IMAGE_SUFFIXES))
_SUFFIX = re.compile(rf"(?:{_SUFFIXES})(?!\w)", re.IGNORECASE)
# Where a path may begin: after white space; after quotation marks and brackets; after a label.
_BEFORE_PATH = tuple(
    map(
        re.compile,
        (r"\s", r"[\s\"'`<>()\[\]{}|,;]", r"[\s\"'`<>()\[\]{}|,;:=]", r"[\"'`<>|]|\]\(|[:=]\s"),
    )
)
_BASE64_HEAD = "(?:iVBORw0KGgo|/9j/4AA|R0lGOD|UklGR)"  # PNG, JPEG, GIF, WebP
# The start of JSON or of a printed Python object, but not of a matrix of numbers.
_JSON_START = re.compile(r"\s*(?:(?:```|~~~) ?\w{0,20}\s+)?(?:\(\s*)?(?:[\[{]\s*)+[\"']")
_JSON_INSIDE = re.compile(r"[\[{]\s*(?:\\?[\"'{]|\w{1,30}\s*:)")
_IMAGE_IN_JSON = re.compile(
    rf"(?:{_SUFFIXES})(?!\w)|image/\w|{_BASE64_HEAD}|(?:image|img|picture|photo|figure)\w{{0,30}}\\?[\"']\s*:",
    re.IGNORECASE,
)
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_IMAGE_TAG = re.compile(
    rf"""
    <(?:img|image|picture|figure)\w{{0,20}}  # <img src=a.png>
        (?: \s{{1,20}}[^\d\s>] | \s{{0,20}}[:=|] )
    | </(?:img|image|picture|figure)\w{{0,20}}>  # <image>a.png</image>
    | <svg[\s>] | <PIL\.  # an image as Python prints it
    | \[(?:image|img|picture|figure|photo)\s{{0,20}}[:=]                          # [Image: a fox]
    | !\[[^\]\n]{{0,300}}\][(\[]                                                # markdown
    | data:image/ | {_BASE64_HEAD}[A-Za-z0-9+/]{{40}}
    """,
    re.VERBOSE | re.IGNORECASE,
)


def picture_signs(segments: Sequence[Segment], resolver: ImageResolver) -> tuple[PictureSign, ...]:
    """The signs of the texts of an answer, in the order of `PICTURE_SIGNS`. Never raises.

    ``looks like JSON``: a text begins like JSON, or contains JSON in which something may be an
    image. ``names an existing image``: a path of an image file that exists in the folders of the
    resolver. ``has an image tag``: an image as HTML, markdown and language models write it, the
    data of an image, or nothing but a path or URL.
    """
    texts = [segment.text for segment in segments if segment.text]
    shown = {Path(s.image) for s in segments if s.image and not s.problem}
    named = (resolver.existing_file(path) for text in texts for path in _image_paths(text))
    has_sign: dict[PictureSign, bool] = {
        "looks like JSON": any(map(_looks_like_json, texts)),
        "names an existing image": any(path and path not in shown for path in named),
        "has an image tag": any(map(_has_image_tag, texts)),
    }
    return tuple(sign for sign in PICTURE_SIGNS if has_sign[sign])


def _has_image_tag(text: str) -> bool:
    is_path = "/" in text and is_image_reference(text)
    return is_path or _IMAGE_TAG.search(_CODE.sub("", text)) is not None


def _looks_like_json(text: str) -> bool:
    has_image = _JSON_INSIDE.search(text) and _IMAGE_IN_JSON.search(text)
    return bool(has_image or _JSON_START.match(text))


def _image_paths(text: str) -> Iterator[str]:
    """The possible paths of image files in a text, each once."""
    paths: dict[str, None] = {}
    for suffix in islice(_SUFFIX.finditer(text), _MAX_NAMES):
        line = text[max(0, suffix.start() - _MAX_PATH_CHARACTERS) : suffix.end()].rpartition("\n")[
            2
        ]
        for before in _BEFORE_PATH:
            paths[before.split(line)[-1].strip(" \t*-([{")] = None
    return iter(paths)
