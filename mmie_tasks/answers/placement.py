"""One text and a list of images: the images go where the text has a place for them.

``{"text", "images"}`` is what image models of lmms-eval 0.7.3 return; it says no order except by
such places. A place with a number takes the image of that number: from 1, or from 0 where a place
of the text has the number 0. A place without one takes the next image that no number names. Each
image is shown once: a place whose image is gone, or never was, stays in the text and is counted.
Images without a place follow at the end. A markdown image is a place if it names one of the images.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# An answer as the tested model gave it: ordered text and references to images.


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of an answer: a text, then an image, either of which may be absent.

    Attributes:
        text: As the model wrote it; None where there is none.
        image: How the model refers to the image: a path, an address, a data URI; None where there
            is none. Never the empty text.
    """

    text: str | None = None
    image: str | None = None


_PLACE = re.compile(
    r"<\|?(?:image|img)[ _-]?(\d{0,6})\|?>"
    r"|(?<!!)\[(?:image|img)[ _-]?(\d{0,6})\](?!\()",
    re.IGNORECASE | re.ASCII,
)
# Every part is bounded, so that no text makes the search slow.
_MARK = re.compile(
    r"""
    (?P<code>```.*?```|`[^`\n]*`)
    | !\[[^\]\n]{0,300}\]\(\s*
      (?:<(?P<angled>[^<>\n]{1,1024})>
        |(?P<data>data:image/[\w.+-]{1,20};base64,[A-Za-z0-9+/=]+)
        |(?P<bare>(?:[^()\s]|\([^()\s]{0,300}\)){1,1024}))
      (?:\s+(?:"[^"\n]{0,300}"|'[^'\n]{0,300}'))?\s*\)
    | <img\s[^<>]{0,300}?src\s*=\s*["'](?P<src>[^"'<>\n]{1,1024}|data:image/[^"'<>\s]+)["']
      [^<>]{0,300}>
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Woven:
    """Text and images in order.

    Attributes:
        segments: Each a text or an image; texts without white space at their ends.
        places_left: How many places stayed in the text.
    """

    segments: tuple[Segment, ...]
    places_left: int = 0


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in the text an image belongs, and which: by number, or by reference, or the next."""

    start: int
    end: int
    number: int | None = None
    names: str | None = None


def woven(text: str, images: Sequence[str]) -> Woven:
    """Put images to their places in a text.

    >>> for segment in woven("Cut. <image_2> Fold. <image_1>", ["a.png", "b.png"]).segments:
    ...     print(segment.text or segment.image)
    Cut.
    b.png
    Fold.
    a.png
    """
    places = _places(text, images)
    chosen = _chosen(places, images)
    at = [(place.start, place.end, images[i]) for place, i in chosen]
    taken = {i for _, i in chosen}
    segments = _cut(text, at) + [
        Segment(image=image) for i, image in enumerate(images) if i not in taken
    ]
    return Woven(segments=tuple(segments), places_left=len(places) - len(chosen))


def marked(text: str) -> list[tuple[int, int, str]]:
    """Start, end and target of every markdown or HTML image outside code."""
    if "![" not in text and "<img" not in text.lower():
        return []
    found = ((mark, _target(mark)) for mark in _MARK.finditer(text))
    return [(mark.start(), mark.end(), target) for mark, target in found if target]


def cut_at(text: str, images: Sequence[tuple[int, int, str]]) -> tuple[Segment, ...]:
    """The text around images that stand in it, as `marked` gives them."""
    return tuple(_cut(text, images))


def _target(mark: re.Match[str]) -> str | None:
    return mark["angled"] or mark["data"] or mark["bare"] or mark["src"]


def _places(text: str, images: Sequence[str]) -> list[_Place]:
    """In order, none inside another."""
    there = set(images)
    found = [
        _Place(start, end, names=target)
        for start, end, target in (marked(text) if there else ())
        if target in there
    ]
    for match in _PLACE.finditer(text):
        number = match[1] or match[2]
        found.append(_Place(match.start(), match.end(), number=int(number) if number else None))
    apart: list[_Place] = []
    for place in sorted(found, key=lambda place: place.start):
        if not apart or place.start >= apart[-1].end:
            apart.append(place)
    return apart


def _chosen(places: Sequence[_Place], images: Sequence[str]) -> list[tuple[_Place, int]]:
    """The places that get an image, in order, each with the image's index."""
    first = 0 if any(place.number == 0 for place in places) else 1
    by_name = {image: i for i, image in reversed(list(enumerate(images)))}
    index_of: dict[_Place, int] = {}
    free = dict.fromkeys(range(len(images)))
    for place in places:
        numbered = -1 if place.number is None else place.number - first
        index = numbered if place.names is None else by_name[place.names]
        if index in free:
            del free[index]
            index_of[place] = index
    rest = iter(list(free))
    for place in places:
        if place.number is None and place.names is None and (index := next(rest, -1)) >= 0:
            index_of[place] = index
    return [(place, index_of[place]) for place in places if place in index_of]


def _cut(text: str, images: Sequence[tuple[int, int, str]]) -> list[Segment]:
    segments, done = [], 0
    for start, end, image in images:
        segments += [Segment(text=text[done:start].strip()), Segment(image=image)]
        done = end
    segments.append(Segment(text=text[done:].strip()))
    return [segment for segment in segments if segment.text or segment.image]


# How an answer refers to an image: a path, an address, a data URI, or an object that holds one.

ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".jfif")

_MAX_CHARACTERS = 4096  # of a path; PATH_MAX of Linux
_KEYS = ("image_url", "url", "path", "image", "file", "file_name", "file_path", "source")
_BASE64_KEYS = ("b64_json", "data", "result")  # of OpenAI's images, Anthropic's, OpenAI's responses
_MAX_DEPTH = 4
_MAY_HAVE_SPACES = re.compile(r"(?:/|~/|\.{1,2}/|file://|[A-Za-z]:[\\/])")


def image_of(value: object, depth: int = 0) -> str | None:
    """The reference to an image in a value; None where there is none.

    A text is the reference itself, unless it is blank. Of an object, the first of its usual keys
    counts: ``{"image_url": {"url": "a.png"}}``. Bytes and base64 become a data URI.

    >>> image_of({"type": "image", "path": "out/1.png"})
    'out/1.png'
    >>> image_of("  ") is None
    True
    """
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, (bytes, bytearray)):
        return _data_uri(base64.b64encode(value).decode()) if value else None
    if not isinstance(value, Mapping) or depth > _MAX_DEPTH:
        return None
    for key in _KEYS:
        if found := image_of(value.get(key), depth + 1):
            return found
    for key in _BASE64_KEYS:
        if isinstance(packed := value.get(key), str) and packed.strip():
            return packed if packed.startswith("data:") else _data_uri(packed)
    return image_of(value.get("bytes"), depth + 1)


def looks_like_image(text: str) -> bool:
    """Whether a text that may be words is a reference to an image, told by how it is written.

    A data URI of an image, or a path or address with an image's ending. Only what begins as a path
    may have spaces.

    >>> looks_like_image("out/a 1.png"), looks_like_image("./out/a 1.png")
    (False, True)
    """
    if text.startswith("data:image/"):
        return "\n" not in text
    return is_one_path(text) and text.rstrip().lower().endswith(ENDINGS)


def is_one_path(text: str) -> bool:
    """Whether nothing in a text speaks against its being one path or address."""
    bare = text.strip()
    if not bare or len(bare) > _MAX_CHARACTERS or "\n" in bare or "\0" in bare:
        return False
    return not any(c.isspace() for c in bare) or _MAY_HAVE_SPACES.match(bare) is not None


def _data_uri(packed: str) -> str:
    """The kind is read from the bytes later, so it need not be true here."""
    return f"data:image/png;base64,{packed}"
