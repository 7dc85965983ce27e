"""How a text refers to its images, and the images put at their places in it.

Image models of lmms-eval 0.7.3 return ``{"text", "images"}``, where placeholders in the text give
the order of the images. A placeholder with a number takes the image of that number, counted from
1, or from 0 where a placeholder of the text has the number 0. A placeholder without a number takes
the next image that no number names. Every image is shown once: a placeholder whose image is used
already, or does not exist, stays in the text and is counted. Images without a placeholder follow
at the end.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mmie_tasks.answers.parsed_answer import ParsedAnswer
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


@dataclass(frozen=True, slots=True)
class ImageSpan:
    """Characters ``start`` to ``end`` of a text, which represent an image, and its reference."""

    start: int
    end: int
    reference: str


def interleave_segments(segments: Sequence[Segment], images: Sequence[str]) -> ParsedAnswer:
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
        (i, match)
        for i, segment in enumerate(segments)
        for match in _PLACEHOLDER.finditer(segment.text or "")
    ]
    image_of = _images_of([match[1] or match[2] for _, match in placeholders], images)
    spans: dict[int, list[ImageSpan]] = {}
    for position, image in sorted(image_of.items()):
        i, match = placeholders[position]
        spans.setdefault(i, []).append(ImageSpan(match.start(), match.end(), images[image]))
    interleaved: list[Segment] = []
    for i, segment in enumerate(segments):
        if i not in spans:
            interleaved.append(segment)
            continue
        interleaved += split_at_images(segment.text or "", spans[i])
        interleaved += [Segment(image=segment.image)] if segment.image else []
    shown = set(image_of.values())
    surplus = [Segment(image=image) for i, image in enumerate(images) if i not in shown]
    return ParsedAnswer(
        kind="part",
        segments=(*interleaved, *surplus),
        unfilled_placeholders=len(placeholders) - len(image_of),
    )


def _images_of(digits: Sequence[str], images: Sequence[str]) -> dict[int, int]:
    """The position of each placeholder that gets an image to that image's; `digits` are those of
    the placeholders, in order, empty for one without a number.
    """
    numbers = {position: int(number) for position, number in enumerate(digits) if number}
    first = 0 if 0 in numbers.values() else 1
    unused = dict.fromkeys(range(len(images)))
    image_of: dict[int, int] = {}
    for position, number in numbers.items():
        if number - first in unused:
            image_of[position] = number - first
            del unused[number - first]
    unnumbered = [position for position, number in enumerate(digits) if not number]
    return image_of | dict(zip(unnumbered, unused, strict=False))


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
