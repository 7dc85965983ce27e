"""Puts images at their placeholders in a text.

Models and their scripts return ``{"text", "images"}``, with placeholders in the text for the
images. A placeholder with a number takes the image of that number, counted from 1, or from 0 if a
placeholder of the text has the number 0. A placeholder without a number takes the next image that
no number names. Every image is shown once: a placeholder whose image is used already, or does not
exist, stays in the text and is counted. Images without a placeholder follow at the end; after a
text, they are counted.

A number may mean something else, and a marker may have another name. So there are two more ways to
read a text. The one that leaves the fewest placeholders and images over wins, or else the first:

* Adjacent tokens of one image are one placeholder, which takes the next image: everything between
  an opening and a closing token (``<img><img_00012>...</img>``), numbers from 0
  (``[IMG0][IMG1]...``), and codes, which have four digits or are above 99.
* One marker that occurs as often as there are images takes each next image, or the images that its
  numbers name: ``<image_1>`` three times, ``<figure>``, ``{{picture 2}}``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mmie_tasks.answers.parsed_answer import ParsedAnswer
from mmie_tasks.record.segment import Segment

# A marker has only these words and numbers in brackets; with any other word it may be text.
_IMAGE = (
    "image|g?img|picture|pic|photo|figure|fig|illustration|drawing|diagram|visual|vision|boi|[se]oi"
)
_BODY = rf"""
    (?=[^<>\[\]{{}}]{{0,40}}?(?:{_IMAGE}))
    /? (?:(?:{_IMAGE}|start|begin|end|of|gen|generated|output|token|pad|context|content|soft|plh
        |placeholder|here|insert|\d{{1,6}}(?!\d))[ _-]?){{1,6}}
"""
_MARKER = re.compile(
    rf"""
    (?P<marker> \[<\|?{_BODY}\|?>\] | <\|?{_BODY}\|?> | \[\[{_BODY}\]\]
        | (?<!!)\[{_BODY}\](?!\() | (?<![\w^\\])\{{\{{?[ ]?{_BODY}\}}\}}? )
    | <\|[\w ]{{1,30}}\|>
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_BY_NAME = re.compile(r"(?:image|img)[ _-]?\d{0,6}", re.ASCII)
_BETWEEN_TOKENS = re.compile(r"\s*(?:\d{1,5}\*\d{1,5}\s*)?")  # with the size, as Emu3 writes it


@dataclass(frozen=True, slots=True)
class ImageSpan:
    """An image's reference, and the characters ``start`` to ``end`` of a text that it replaces."""

    start: int
    end: int
    reference: str


def interleave_segments(segments: Sequence[Segment], images: Sequence[str]) -> ParsedAnswer:
    """Put images at their placeholders in segments, by the rules in the module's docstring.

    A text in which no placeholder gets an image stays unchanged.

    >>> text = Segment(text="Cut. <image_2> Fold. <image_1>")
    >>> for segment in interleave_segments([text], ["a.png", "b.png"]).segments:
    ...     print(segment.text or segment.image)
    Cut.
    b.png
    Fold.
    a.png
    """
    markers = [m for i, segment in enumerate(segments) for m in _markers(segment.text or "", i)]
    reading = min(_readings(markers, len(images)), key=lambda reading: reading.n_left)
    spans: dict[int, list[ImageSpan]] = defaultdict(list)
    for marker, image in sorted(reading.image_of.items(), key=lambda item: item[0].start):
        spans[marker.segment].append(ImageSpan(marker.start, marker.end, images[image]))
    interleaved: list[Segment] = []
    for i, segment in enumerate(segments):
        if i not in spans:
            interleaved.append(segment)
            continue
        interleaved += split_at_images(segment.text or "", spans[i])
        interleaved += [Segment(image=segment.image)] if segment.image else []
    shown = set(reading.image_of.values())
    surplus = [Segment(image=image) for i, image in enumerate(images) if i not in shown]
    has_text = any(segment.text and segment.text.strip() for segment in segments)
    return ParsedAnswer(
        kind="part",
        segments=(*interleaved, *surplus),
        unfilled_placeholders=reading.n_unfilled,
        unplaced_images=len(surplus) if has_text else 0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Marker:
    """Characters of a segment's text that may represent an image, or one of its tokens.

    Attributes:
        segment: Position of the segment.
        start: Position of the first character in its text.
        end: Position after the last character.
        body: The text in the brackets, in lower case.
        number: The number in the body, if any.
        role: ``other`` is a special token that names no image.
        is_placeholder: Whether its name is that of a placeholder.
        is_next: Whether it follows the marker before it without other text.
        is_run: Whether it is several tokens.
    """

    segment: int
    start: int
    end: int
    body: str
    number: int | None
    role: Literal["marker", "code", "open", "close", "other"]
    is_placeholder: bool
    is_next: bool
    is_run: bool = False

    @property
    def name(self) -> str:
        return re.sub(r"[ _-]?\d+", "", self.body)

    def is_closed_by(self, other: _Marker) -> bool:
        is_end = self.role == "open" and not other.body.startswith("/")
        return is_end or other.body == f"/{self.body}"

    def is_continued_by(self, other: _Marker) -> bool:
        if self.role == "open":
            return other.role == "code" or (other.role != "open" and other.number is None)
        if other.role == "code":
            return self.role != "other"
        if self.role == "code" and other.number is None:
            return other.role == "other"  # at the end of a row of codes
        starts_run = self.role == "code" or self.number == 0
        return starts_run and bool(other.number) and self.name == other.name

    def up_to(self, other: _Marker) -> _Marker:
        is_code = other.role == "code" and self.role != "open"
        return replace(self, end=other.end, role="code" if is_code else self.role, is_run=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """One way to read a text; `n_left` counts unfilled placeholders and images without a place."""

    image_of: dict[_Marker, int]
    n_unfilled: int
    n_left: int


def _markers(text: str, segment: int) -> Iterator[_Marker]:
    end = None
    for match in _MARKER.finditer(text):
        body = match[0].strip("[]<>{}| ").lower()
        digits = re.search(r"\d+", body)
        number = int(digits[0]) if digits and match["marker"] else None
        role: Literal["marker", "code", "open", "close", "other"] = "marker"
        if not match["marker"]:
            role = "other"
        elif re.match(r"/|.*(?:end|eoi)", body):
            role = "close"
        elif re.search("start|begin|boi|soi", body):
            role = "open"
        elif digits and (len(digits[0]) > 3 or int(digits[0]) > 99 or "token" in body):
            role = "code"
        yield _Marker(
            segment=segment,
            start=match.start(),
            end=match.end(),
            body=body,
            number=number,
            role=role,
            is_placeholder=bool(_BY_NAME.fullmatch(body)) and not match[0].startswith("{"),
            is_next=end is not None and bool(_BETWEEN_TOKENS.fullmatch(text, end, match.start())),
        )
        end = match.end()


def _readings(markers: Sequence[_Marker], n_images: int) -> Iterator[_Reading]:
    """The ways to read a text, in the order of the module's docstring."""
    named = [marker for marker in markers if marker.is_placeholder]
    runs = [marker for marker in _with_runs(markers) if marker.is_run or marker.is_placeholder]
    same: dict[str, list[_Marker]] = defaultdict(list)
    for marker in markers:
        if marker.role not in ("close", "other"):
            same[marker.name].append(marker)
    fitting = [group for group in same.values() if len(group) == n_images]

    def reading(image_of: dict[_Marker, int], placeholders: Sequence[_Marker]) -> _Reading:
        n_unfilled = sum(marker not in image_of for marker in placeholders)
        n_left = n_unfilled + n_images - len(image_of)
        return _Reading(image_of=image_of, n_unfilled=n_unfilled, n_left=n_left)

    by_number = reading(_images_of(named, n_images), named)
    if not any(marker.is_run for marker in runs):
        yield by_number
    else:
        in_order = reading(dict(zip(runs, range(n_images), strict=False)), runs)
        has_numbers = any(marker.number is not None for marker in named)
        yield from (by_number, in_order) if has_numbers else (in_order, by_number)
    if len(fitting) == 1:
        is_one_number = len({marker.number for marker in fitting[0]}) == 1
        in_order = reading(dict(zip(fitting[0], range(n_images), strict=False)), named)
        yield in_order if is_one_number else reading(_images_of(fitting[0], n_images), named)


def _images_of(markers: Sequence[_Marker], n_images: int) -> dict[_Marker, int]:
    """The markers that get an image by their numbers or, without one, in order."""
    numbers = {marker: marker.number for marker in markers if marker.number is not None}
    first = 0 if 0 in numbers.values() else 1
    unused = dict.fromkeys(range(n_images))
    image_of: dict[_Marker, int] = {}
    for marker, number in numbers.items():
        if number - first in unused:
            image_of[marker] = number - first
            del unused[number - first]
    unnumbered = [marker for marker in markers if marker.number is None]
    return image_of | dict(zip(unnumbered, unused, strict=False))


def _with_runs(markers: Sequence[_Marker]) -> list[_Marker]:
    """The markers, with adjacent ones joined that are tokens of one image."""
    joined: list[_Marker] = []
    first = 0  # the first of the adjacent markers
    for marker in markers:
        first = first if marker.is_next else len(joined)
        before = range(len(joined) - 1, first - 1, -1)
        if marker.role == "close":
            opening = next((i for i in before if joined[i].is_closed_by(marker)), None)
            if opening is not None:
                joined[opening:] = [joined[opening].up_to(marker)]
            first = len(joined)
        elif before and joined[-1].is_continued_by(marker):
            joined[-1] = joined[-1].up_to(marker)
        else:
            joined.append(marker)
    return joined


def split_at_images(text: str, spans: Sequence[ImageSpan]) -> tuple[Segment, ...]:
    """The text split at the images in it; texts without white space at their ends."""
    segments, end = [], 0
    for span in spans:
        segments += [Segment(text=text[end : span.start].strip()), Segment(image=span.reference)]
        end = span.end
    segments.append(Segment(text=text[end:].strip()))
    return tuple(segment for segment in segments if segment.text or segment.image)
