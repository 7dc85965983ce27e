"""How a text refers to its images, and the images put at their places in it.

Image models of lmms-eval 0.7.3 return ``{"text", "images"}``, where placeholders in the text give
the order of the images. A placeholder with a number takes the image of that number, counted from
1, or from 0 where a placeholder of the text has the number 0. A placeholder without a number takes
the next image that no number names. Every image is shown once: a placeholder whose image is used
already, or does not exist, stays in the text and is counted. Images without a placeholder follow
at the end. A markdown image is a placeholder if it names one of the images.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mmie_tasks.record.segment import Segment

_PLACEHOLDER = re.compile(
    r"<\|?(?:image|img)[ _-]?(\d{0,6})\|?>"
    r"|(?<!!)\[(?:image|img)[ _-]?(\d{0,6})\](?!\()",
    re.IGNORECASE | re.ASCII,
)
# Every part is bounded, so that no text makes the search slow.
_MARKUP = re.compile(
    r"""
    (?P<code>```.*?```|`[^`\n]*`)
    | !\[[^\]\n]{0,300}\]\(\s*
      (?:<(?P<angled>[^<>\n]{1,1024})>
        |(?P<data>data:image/[\w.+-]{1,20};base64,[A-Za-z0-9+/=]+)
        |(?P<bare>(?:[^()\s]|\([^()\s]{0,300}\)){1,1024}))
      (?:\s+(?:"[^"\n]{0,300}"|'[^'\n]{0,300}'))?\s*\)
    | <img\s[^<>]{0,300}?src\s*=\s*["'](?P<src>[^"'<>\n]{1,1024}|data:image/[^"'<>\s]+)["']
      [^<>]{0,300}>
    | (?P<uri>data:image/[\w.+-]{1,20};base64,[A-Za-z0-9+/]{80,}={0,2})
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedImages:
    """A text and its images in order.

    Attributes:
        segments: Each a text or an image; texts without white space at their ends.
        unfilled_placeholders: How many placeholders stayed in the text.
    """

    segments: tuple[Segment, ...]
    unfilled_placeholders: int = 0


@dataclass(frozen=True, slots=True)
class ImageSpan:
    """Characters ``start`` to ``end`` of a text, which represent an image, and its reference."""

    start: int
    end: int
    reference: str


@dataclass(frozen=True, slots=True)
class _ImagePlaceholder:
    """Which image belongs at a position: by number, by reference, or, with neither, the next."""

    segment: int  # index of the segment whose text has the placeholder
    start: int
    end: int
    number: int | None = None
    reference: str | None = None


def interleave_segments(segments: Sequence[Segment], images: Sequence[str]) -> PlacedImages:
    """Put images at their placeholders in the texts of segments (the rules are in the module's
    docstring).

    A text without a placeholder that gets an image stays unchanged.

    >>> text = Segment(text="Cut. <image_2> Fold. <image_1>")
    >>> for segment in interleave_segments([text], ["a.png", "b.png"]).segments:
    ...     print(segment.text or segment.image)
    Cut.
    b.png
    Fold.
    a.png
    """
    placeholders = [
        placeholder
        for i, segment in enumerate(segments)
        for placeholder in _placeholders(i, segment.text or "", images)
    ]
    index_of = _image_indices(placeholders, images)
    spans: dict[int, list[ImageSpan]] = {}
    for placeholder, index in index_of.items():
        span = ImageSpan(placeholder.start, placeholder.end, images[index])
        spans.setdefault(placeholder.segment, []).append(span)
    interleaved: list[Segment] = []
    for i, segment in enumerate(segments):
        if i not in spans:
            interleaved.append(segment)
            continue
        in_order = sorted(spans[i], key=lambda span: span.start)
        interleaved += split_at_images(segment.text or "", in_order)
        interleaved += [Segment(image=segment.image)] if segment.image else []
    shown = set(index_of.values())
    surplus = [Segment(image=image) for i, image in enumerate(images) if i not in shown]
    return PlacedImages(
        segments=(*interleaved, *surplus), unfilled_placeholders=len(placeholders) - len(index_of)
    )


def image_spans(text: str) -> list[ImageSpan]:
    """Every markdown or HTML image and every data URI of a text, outside code."""
    if not any(mark in text for mark in ("![", "data:image/")) and "<img" not in text.lower():
        return []
    return [
        ImageSpan(match.start(), match.end(), reference)
        for match in _MARKUP.finditer(text)
        if (
            reference := next(filter(None, match.group("angled", "data", "bare", "src", "uri")), "")
        )
    ]


def split_at_images(text: str, spans: Sequence[ImageSpan]) -> tuple[Segment, ...]:
    """The text split at the images in it; texts without white space at their ends."""
    segments, end = [], 0
    for span in spans:
        segments += [Segment(text=text[end : span.start].strip()), Segment(image=span.reference)]
        end = span.end
    segments.append(Segment(text=text[end:].strip()))
    return tuple(segment for segment in segments if segment.text or segment.image)


def _placeholders(segment: int, text: str, images: Sequence[str]) -> list[_ImagePlaceholder]:
    """In order, none inside another."""
    references = set(images)
    candidates = [
        _ImagePlaceholder(segment, span.start, span.end, reference=span.reference)
        for span in (image_spans(text) if references else ())
        if span.reference in references
    ]
    for match in _PLACEHOLDER.finditer(text):
        digits = match[1] or match[2]
        number = int(digits) if digits else None
        candidates.append(_ImagePlaceholder(segment, match.start(), match.end(), number=number))
    placeholders: list[_ImagePlaceholder] = []
    for candidate in sorted(candidates, key=lambda candidate: candidate.start):
        if not placeholders or candidate.start >= placeholders[-1].end:
            placeholders.append(candidate)
    return placeholders


def _image_indices(
    placeholders: Sequence[_ImagePlaceholder], images: Sequence[str]
) -> dict[_ImagePlaceholder, int]:
    """The index of the image of every placeholder that gets one."""
    first_number = 0 if any(placeholder.number == 0 for placeholder in placeholders) else 1
    index_by_reference = {image: i for i, image in reversed(list(enumerate(images)))}
    index_of: dict[_ImagePlaceholder, int] = {}
    unused = dict.fromkeys(range(len(images)))
    for placeholder in placeholders:
        if placeholder.reference is not None:
            index = index_by_reference[placeholder.reference]
        else:
            index = -1 if placeholder.number is None else placeholder.number - first_number
        if index in unused:
            del unused[index]
            index_of[placeholder] = index
    unnumbered = [p for p in placeholders if p.number is None and p.reference is None]
    return index_of | dict(zip(unnumbered, unused, strict=False))
