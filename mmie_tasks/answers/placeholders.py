"""Puts images at their placeholders in a text.

A placeholder is ``<image>``, ``[IMG]`` or one of these with a number: ``<image_1>``,
``<|image_1|>``, ``[image 1]``, ``[IMG1]``. Some models write several tokens for one image: numbers
that count up from 0 with nothing but white space between (``[IMG0][IMG1]...[IMG7]``: MiniGPT-5,
``constants.py``; GILL, ``gill/models.py``), if the text has more placeholders than images; and
``<img><img_00012>...</img>`` (SEED-LLaMA).

If every placeholder has a number of its own, it takes the image of that number, counted from 0 if
there is a 0, else from 1. Otherwise the placeholders take the images in order. Every image is shown
once: a placeholder without an image stays in the text, an image without a placeholder follows at
the end, and both are counted. An empty reference is an image that a model could not draw: its
placeholder is unfilled and leaves the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mmie_tasks.record.segment import Segment, Segments

_PLACEHOLDER = re.compile(
    r"<img>(?:<img_\d{1,6}>)+</img>"
    r"|<\|?(?:image|img)[ _]?(\d{0,4})\|?>|\[(?:image|img)[ _]?(\d{0,4})\]",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSpan:
    """An image's reference, and the characters ``start`` to ``end`` of a text that it replaces."""

    start: int
    end: int
    reference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InterleavedText:
    """A text with its images in place.

    Attributes:
        segments: In order; texts without white space at their ends.
        unfilled: Number of placeholders without an image.
        unplaced: Number of images at the end, for which the text has no place.
    """

    segments: Segments
    unfilled: int
    unplaced: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placeholder:
    start: int
    end: int
    number: int | None


def interleave(text: str, images: Sequence[str]) -> InterleavedText:
    """Put images at the placeholders of a text, by the rules of this module.

    >>> answer = interleave("Cut. <image_2> Fold. <image_1>", ["a.png", "b.png"])
    >>> [segment.text or segment.image for segment in answer.segments]
    ['Cut.', 'b.png', 'Fold.', 'a.png']
    """
    placeholders = _placeholders(text)
    if len(placeholders) > len(images):
        placeholders = _joined(placeholders, text)
    numbers = [placeholder.number for placeholder in placeholders]
    if numbers and None not in numbers and len(set(numbers)) == len(numbers):
        first = 0 if 0 in numbers else 1
        positions = [number - first for number in numbers if number is not None]
    else:
        positions = list(range(len(placeholders)))
    spans = [
        ImageSpan(start=placeholder.start, end=placeholder.end, reference=images[position])
        for placeholder, position in zip(placeholders, positions, strict=True)
        if 0 <= position < len(images)
    ]
    shown = set(positions)
    surplus = [image for position, image in enumerate(images) if position not in shown and image]
    n_filled = sum(bool(span.reference) for span in spans)
    return InterleavedText(
        segments=(*split_at_images(text, spans), *(Segment(image=image) for image in surplus)),
        unfilled=len(placeholders) - n_filled,
        unplaced=len(surplus) if text.strip() else 0,
    )


def split_at_images(text: str, spans: Sequence[ImageSpan]) -> Segments:
    """The text split at the images in it; texts without white space at their ends."""
    segments, end = [], 0
    for span in spans:
        segments += [Segment(text=text[end : span.start].strip()), Segment(image=span.reference)]
        end = span.end
    segments.append(Segment(text=text[end:].strip()))
    return tuple(segment for segment in segments if segment.text or segment.image)


def _placeholders(text: str) -> list[_Placeholder]:
    return [
        _Placeholder(start=match.start(), end=match.end(), number=int(digits) if digits else None)
        for match in _PLACEHOLDER.finditer(text)
        for digits in [match[1] or match[2]]
    ]


def _joined(placeholders: Sequence[_Placeholder], text: str) -> list[_Placeholder]:
    """The placeholders; the tokens of one image are one, from the first to the last."""
    joined: list[_Placeholder] = []
    next_number = 0  # of the token that would continue the last image
    for one in placeholders:
        is_next = one.number == next_number > 0 and not text[joined[-1].end : one.start].strip()
        if is_next:
            joined[-1] = replace(joined[-1], end=one.end, number=None)
        else:
            joined.append(one)
        next_number = next_number + 1 if is_next else int(one.number == 0)
    return joined
