"""The data of a page, ready for JSON: safe and shortened texts, intervals, texts with images."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from mmie_tasks.core.wording import counted
from mmie_tasks.record.segment import Segment
from mmie_tasks.results.embedded_image import EmbeddedImage

Json: TypeAlias = dict[str, Any]

MAX_TEXT = 20_000  # characters of one segment
MAX_LABEL = 500  # characters of a property, a reading, a name or a problem
MAX_SEGMENTS = 500

_MAX_TOTAL_TEXT = 200_000  # characters of a question, a gold answer or an answer
_MAX_NAME = 80  # characters of a file's name

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff](?:(?<=\r)\n)?")
_CHANGED = EmbeddedImage(None, "the file has changed since it was judged")
_DECIMALS = 6  # of a number in the payload: more than is shown, fewer than a float has


def plain(text: str) -> str:
    r"""A text without characters that JSON in UTF-8 or a page cannot hold.

    Control characters become their symbols, lone surrogates the replacement character.

    >>> plain("a\x00b\r\nc\ud83d")
    'a␀b\nc�'
    """
    return _UNSAFE.sub(_symbol, text)  # many times faster than `str.translate`


def _symbol(unsafe: re.Match[str]) -> str:
    character = unsafe[0][0]
    if character == "\r":
        return "\n"
    if character == "\x7f":
        return "␡"
    return chr(0x2400 + ord(character)) if character < " " else "�"


def page_data(data: Json) -> Json:
    r"""Data that JSON and a page can hold: texts through `plain`, numbers with six decimals, None
    for numbers that are not finite.

    >>> page_data({"a": ["x\x00", (1 / 3, float("nan"))]})
    {'a': ['x␀', [0.333333, None]]}
    """
    return {plain(key): _page_value(value) for key, value in data.items()}


def _page_value(value: object) -> object:
    match value:
        case str():
            return plain(value)
        case float():
            return round(value, _DECIMALS) if math.isfinite(value) else None
        case list() | tuple():
            return [_page_value(item) for item in value]
        case dict():
            return page_data(value)
    return value


def cut(text: str, max_characters: int) -> str:
    """A text, shortened, with the number of characters left out.

    >>> cut("abcdef", 4)
    'abcd … (2 more characters in the log)'
    """
    left_out = len(text) - max_characters
    if left_out <= 0:
        return text
    return f"{text[:max_characters]} … ({counted(left_out, 'more character')} in the log)"


def file_name(image: str) -> str:
    r"""The name of a file without its folders, shortened for display.

    >>> file_name("/data/images/kite.png"), file_name("C:\\images\\kite.png")
    ('kite.png', 'kite.png')
    """
    name = re.split(r"[/\\]", image[-4 * _MAX_NAME :])[-1]
    return name if len(name) <= _MAX_NAME else f"…{name[1 - _MAX_NAME :]}"


FindImage: TypeAlias = Callable[[str], EmbeddedImage]  # image file to image


def has_image(segment: Segment) -> bool:
    """Whether the segment has an image, or says why its image could not be used."""
    return bool(segment.image or segment.problem)


def segments_json(
    segments: Sequence[Segment], owner: str, find_image: FindImage, max_images: int
) -> list[Json]:
    """Texts and images in their order, for the scripts, with notes on how many are left out.

    The images' descriptions name the `owner` (``the question``) and their files.
    """
    pieces: list[Json] = []
    images = hidden = 0
    text_budget = _MAX_TOTAL_TEXT
    for segment in segments[:MAX_SEGMENTS]:
        if segment.text:
            text = cut(segment.text, min(text_budget, MAX_TEXT))
            pieces += [*_left_out(hidden, "more image"), {"text": text}]
            text_budget -= min(len(segment.text), text_budget)
            hidden = 0
        if has_image(segment):
            images += 1
            if images > max_images:
                hidden += 1
            else:
                title = f"image {images} of {owner}"
                pieces.append(_image_json(segment, title, find_image))
    return [
        *pieces,
        *_left_out(hidden, "more image"),
        *_left_out(len(segments) - MAX_SEGMENTS, "more part"),
    ]


def _left_out(count: int, noun: str) -> list[Json]:
    return [{"image": None, "alt": "", "note": f"and {counted(count, noun)}"}] if count > 0 else []


def _image_json(segment: Segment, title: str, find_image: FindImage) -> Json:
    file = segment.image or ""
    prompt = {"prompt": cut(segment.prompt, MAX_TEXT)} if segment.prompt else {}
    if segment.problem:
        reference = f": {file[:MAX_LABEL]}" if file else ""
        note = cut(f"{segment.problem}{reference}", MAX_LABEL)
        return {"image": None, "alt": title, "note": note, **prompt}
    shown = find_image(file)
    if segment.sha256 and shown.sha256 and segment.sha256 != shown.sha256:
        shown = _CHANGED
    alt = f"{title}: {file_name(file)}"
    return {"image": shown.address, "alt": alt, "note": shown.note, **prompt}
