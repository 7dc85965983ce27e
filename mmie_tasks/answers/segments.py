"""Ordered text and images: the segments of an answer, and how a text refers to its images.

Image models of lmms-eval 0.7.3 return ``{"text", "images"}``, where placeholders in the text give
the order of the images. A placeholder with a number takes the image of that number, counted from
1, or from 0 where a placeholder of the text has the number 0. A placeholder without a number takes
the next image that no number names. Every image is shown once: a placeholder whose image is used
already, or does not exist, stays in the text and is counted. Images without a placeholder follow
at the end. A markdown image is a placeholder if it names one of the images.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.hub.images import DECODE_ERRORS

if TYPE_CHECKING:
    from mmie_tasks.answers.drawn import DrawingFacts

IMAGE_SUFFIXES = (
    *(".png", ".jpg", ".jpeg", ".webp", ".gif"),
    *(".bmp", ".tif", ".tiff", ".avif", ".jfif"),
)

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
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_THINKING_TAG = re.compile(
    r"[<\u25c1](/?)(?:think|thinking|analysis|reasoning)[>\u25b7]", re.IGNORECASE
)
# A thinking tag in quotation marks, or any code on one line.
_MENTION = re.compile(
    rf"(?<!\w)(?:[\"'“‘„«]{_THINKING_TAG.pattern}[\"'”’“»]|`(?=[^`\s])[^`\n]{{1,200}}(?<=\S)`)(?!\w)",
    re.IGNORECASE,
)
# A message of gpt-oss: its channel and its text.
_CHANNEL = re.compile(
    r"(?:<\|start\|>assistant)?<\|channel\|>(\w{1,40})\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
    r"(.*?)(?:<\|(?:end|return|call)\|>|(?=<\|(?:start|channel)\|>)|\Z)",
    re.DOTALL,
)
_MAX_PATH_CHARACTERS = 4096  # PATH_MAX of Linux
_MAX_DEPTH = 4
_BASE64_KEYS = ("b64_json", "data", "result")  # of OpenAI's images, Anthropic's, OpenAI's responses
_REFERENCE_KEYS = (
    *("image_url", "url", "path", "image", "image_path"),
    *("file", "file_name", "file_path", "source"),
    *_BASE64_KEYS,
)
_PNG_MODES = ("1", "L", "LA", "I", "I;16", "P", "RGB", "RGBA")  # of Pillow, which PNG can hold
_MAY_HAVE_SPACES = re.compile(r"(?:/|~/|\.{1,2}/|file://|[A-Za-z]:[\\/])")


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of an answer: a text, then an image, either of which may be absent.

    Attributes:
        text: As the model wrote it; None if absent.
        image: How the model refers to the image: a path, a URL, a data URI; None if absent. Never
            the empty text.
        prompt: The words that the image was drawn to, of an answer of ``--model interleaved``; else
            None.
    """

    text: str | None = None
    image: str | None = None
    prompt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedAnswer:
    """An answer as segments, or the reason why there is no answer.

    Attributes:
        segments: In order; empty if there is no answer. The segments of an empty answer have
            neither text nor image.
        shape: How the answer was written, for counts and logs: ``json:content``, ``text``. Of an
            answer without content, ``empty`` or ``only thinking``.
        failure: Why there is no answer, for people; empty if there is one.
        thinking_removed: Whether thinking was removed.
        unfilled_placeholders: How many placeholders got no image and stayed in the text.
        unread: How many texts and images of the answer are not in the segments, by their key or
            the type of their part. Thinking and messages of other roles are not among them.
        drawing: How an answer of ``--model interleaved`` was put together; None for other answers.
    """

    segments: tuple[Segment, ...] = ()
    shape: str
    failure: str = ""
    thinking_removed: bool = False
    unfilled_placeholders: int = 0
    unread: Mapping[str, int] = field(default_factory=dict)
    drawing: DrawingFacts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleaved:
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


def interleave_segments(segments: Sequence[Segment], images: Sequence[str]) -> Interleaved:
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
    return Interleaved(
        segments=(*interleaved, *surplus), unfilled_placeholders=len(placeholders) - len(index_of)
    )


def image_spans(text: str) -> list[ImageSpan]:
    """Every markdown or HTML image of a text, outside code."""
    if "![" not in text and "<img" not in text.lower():
        return []
    return [
        ImageSpan(match.start(), match.end(), reference)
        for match in _MARKUP.finditer(text)
        if (reference := match["angled"] or match["data"] or match["bare"] or match["src"])
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


def image_reference(value: object, depth: int = 0) -> str | None:
    """The reference to an image in a value; None where it holds none.

    A text is the reference itself, unless it is blank. Of an object, the first of the usual keys
    counts: ``{"image_url": {"url": "a.png"}}`` (see `image_key`). Base64 under the keys that hold
    it becomes a data URI, whose media type is not checked: the kind of image is read from the bytes
    later. So does the PNG of a Pillow image, which a model that is used from Python may return.

    >>> image_reference({"type": "image", "path": "out/1.png"})
    'out/1.png'
    >>> image_reference("  ") is None
    True
    """
    if isinstance(value, str):
        return value if value.strip() else None
    if not isinstance(value, Mapping):
        return _pillow_uri(value)
    if depth > _MAX_DEPTH:
        return None
    references = (_reference_under(key, value, depth) for key in _REFERENCE_KEYS)
    return next((reference for reference in references if reference), None)


def image_key(part: Mapping[object, object]) -> str | None:
    """The key with the image reference of an object; None where it has none.

    >>> image_key({"type": "image", "path": "out/1.png"})
    'path'
    """
    return next((key for key in _REFERENCE_KEYS if _reference_under(key, part, 0)), None)


def _reference_under(key: str, part: Mapping[object, object], depth: int) -> str | None:
    value = part.get(key)
    if key not in _BASE64_KEYS:
        return image_reference(value, depth + 1)
    if not isinstance(value, str) or not value.strip():
        return None
    return value if value.startswith("data:") else _data_uri(value)


def _pillow_uri(value: object) -> str | None:
    """The PNG of a Pillow image as a data URI, without content if it cannot be made; None for any
    other value.
    """
    from PIL import Image  # commands that read no such value need no image library

    if not isinstance(value, Image.Image):
        return None
    png = BytesIO()
    try:
        (value if value.mode in _PNG_MODES else value.convert("RGB")).save(png, "PNG")
    except DECODE_ERRORS:  # this picture is then unreadable, and counted
        return _data_uri("")
    return _data_uri(base64.b64encode(png.getvalue()).decode())


def _data_uri(encoded: str) -> str:
    return f"data:image/png;base64,{encoded}"


def is_image_reference(text: str) -> bool:
    """Whether a text that may be prose is written like a reference to an image.

    A data URI of an image, or a path or URL that ends like an image's. Only a text that begins as a
    path may contain spaces.

    >>> is_image_reference("out/a 1.png"), is_image_reference("./out/a 1.png")
    (False, True)
    """
    if text.startswith("data:image/"):
        return "\n" not in text
    return is_single_path(text) and text.rstrip().lower().endswith(IMAGE_SUFFIXES)


def is_single_path(text: str) -> bool:
    """Whether a text can be one path or URL: one line, not too long, no unexpected spaces."""
    bare = text.strip()
    if not bare or len(bare) > _MAX_PATH_CHARACTERS or "\n" in bare or "\0" in bare:
        return False
    return not any(c.isspace() for c in bare) or _MAY_HAVE_SPACES.match(bare) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class StrippedText:
    """A text after `strip_thinking`.

    Attributes:
        text: Without thinking; without white space at its ends where thinking was removed.
        removed: Whether there was any thinking.
        starts_inside: The first tag is a closing one: the text began inside thinking.
        ends_inside: The text ended inside thinking.
    """

    text: str
    removed: bool = False
    starts_inside: bool = False
    ends_inside: bool = False


def strip_thinking(text: str) -> StrippedText:
    """Remove the text between thinking tags, and gpt-oss channels but ``final``.

    No judge may see them.

    A closing tag without an opening one makes everything before it thinking; an opening tag
    without any closing one, everything after it. If tags do not pair up, the last closing tag
    ends the thinking: a model may mention the tag while it thinks. A tag in quotation marks or in
    `code` is a mention.

    The runner strips ``<think>`` and ``<analysis>`` from the raw string (``api/reasoning.py`` of
    lmms-eval 0.7.3) and so may cut off the beginning of a JSON answer; MMIE's tasks switch that
    off, and the same tags are removed here, inside the texts of an answer. Beyond the runner:
    nested tags, tags in any case, an opening tag that is never closed, ``<thinking>``,
    ``<reasoning>``, and the tags in triangles that Kimi writes.

    >>> strip_thinking("<think>Hm.</think>It is red.").text
    'It is red.'
    >>> strip_thinking("Hm.</think> It is red. <think>But").text
    'It is red.'
    >>> strip_thinking("Write `<think>` first.").removed
    False
    """
    if "<|channel|>" in text:
        final = _CHANNEL.sub(lambda match: match[2] if match[1] == "final" else "", text)
        if final != text:
            stripped = strip_thinking(final)
            return replace(stripped, text=stripped.text.strip(), removed=True)
    tags = _thinking_tags(text)
    if not tags:
        return StrippedText(text=text)
    parts: list[str] = []
    depth, end, closed = 0, 0, True
    for tag in tags:
        is_closing = bool(tag[1])
        if is_closing and not depth:
            parts.clear()
        elif not is_closing and not depth:
            parts.append(text[end : tag.start()])
        closed = is_closing or (closed and depth > 0)
        depth = max(depth - 1, 0) if is_closing else depth + 1
        end = tag.end() if is_closing else end
    if closed:  # the answer goes on after the last closing tag
        parts.append(text[end : next((tag.start() for tag in tags if tag.start() >= end), None)])
    return StrippedText(
        text="".join(parts).strip(),
        removed=True,
        starts_inside=bool(tags[0][1]),
        ends_inside=not closed,
    )


def _thinking_tags(text: str) -> list[re.Match[str]]:
    """The tags of thinking, in order, without those that are only mentioned.

    Inside thinking, a closing tag is a mention only if the next tag that is not in quotation marks
    or code closes the thinking: words in quotation marks may stand on both sides of a real one.
    """
    tags = list(_THINKING_TAG.finditer(text))
    mentions = [mention.span() for mention in _MENTION.finditer(text)] if tags else []
    mentioned = {tag.start() for span in mentions for tag in _THINKING_TAG.finditer(text, *span)}
    closes_later: dict[int, bool] = {}
    is_closed_next = False
    for tag in reversed(tags):
        closes_later[tag.start()] = is_closed_next
        if tag.start() not in mentioned:
            is_closed_next = bool(tag[1])
    real: list[re.Match[str]] = []
    for tag in tags:
        ends_thinking = bool(tag[1] and real and not real[-1][1]) and not closes_later[tag.start()]
        if tag.start() not in mentioned or ends_thinking:
            real.append(tag)
    return real


def segments_without_thinking(segments: Sequence[Segment]) -> tuple[tuple[Segment, ...], bool]:
    """The segments without thinking in their texts, and whether there was any.

    Where one text ends inside thinking and a later one begins inside it, the texts between them
    are thinking as well; images stay.
    """
    stripped = list(segments)
    opened_at: int | None = None
    removed = False
    for i, segment in enumerate(segments):
        text = strip_thinking(segment.text or "")
        if not text.removed:
            continue
        if text.starts_inside and opened_at is not None:
            for between in range(opened_at + 1, i):
                stripped[between] = replace(stripped[between], text=None)
        stripped[i] = replace(segment, text=text.text or None)
        opened_at = i if text.ends_inside else None
        removed = True
    return tuple(stripped), removed


def write_answer(parts: Iterable[str | Path]) -> str:
    r"""Write texts and image files, in order, as the JSON text that a model should return.

    Args:
        parts: A string is a text; a `Path` is an image. A relative path is resolved against the
            working directory and the folders of ``MMIE_OUTPUT_ROOT``.

    >>> write_answer(["Cut.", Path("1.png")])
    '{"content": [{"type": "text", "text": "Cut."}, {"type": "image", "path": "1.png"}]}'
    """
    content = [
        {"type": "image", "path": str(part)}
        if isinstance(part, Path)
        else {"type": "text", "text": part}
        for part in parts
    ]
    return replace_surrogates(json.dumps({"content": content}, ensure_ascii=False))
