"""Reads the objects that hold an answer of text and images.

An answer is an object, or a list of parts:

* a message: a list of parts under ``content`` (chat servers, and what a model should return),
  ``messages`` or ``output`` (OpenAI's responses); a text under ``content`` beside a ``role``
* a text with images: ``{"text", "images"}``, as models of lmms-eval 0.7.3 write it; the images are
  put at the placeholders of the text
* a part: ``{"text", "image"}`` as in MMIE's ``data.json``; ``{"type": "text", "text"}`` and
  ``{"type": "image", "path"}`` in the spellings of OpenAI and Anthropic; a message; a string,
  which is an image reference or a text

Texts of parts stay unchanged. Messages of other roles (``"role": "user"``) are left out. Every
function here returns an answer of what it reads, with the count of what it does not read; or None
for a value of another form, whose contents its caller counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from mmie_tasks.answers.parsed_answer import ParsedAnswer, PartsKey, joined
from mmie_tasks.answers.placeholders import interleave_segments
from mmie_tasks.answers.references import image_key, image_reference, is_image_reference
from mmie_tasks.answers.thinking import segments_without_thinking
from mmie_tasks.record.segment import Segment

VIDEO = "a video in the place of an answer"
IMAGES_KEY = "images"
PARTS_KEYS: tuple[PartsKey, ...] = ("content", "messages", "output")

_TEXT_KEYS = ("text", "content")
_THINKING_KEYS = ("thinking", "reasoning", "reasoning_content")
_METADATA_KEYS = frozenset(
    (
        *("type", "role", "id", "status", "model", "detail", "format"),
        *("media_type", "mime_type", "mimeType"),
    )
)
# Tuples, as they are compared with values of any type.
_IMAGE_TYPES = ("image", "image_url", "input_image", "output_image", "image_generation_call")
_TEXT_TYPES = ("text", "output_text", "input_text", "refusal")
_THINKING_TYPES = ("thinking", "redacted_thinking", "reasoning")
_OTHER_ROLES = ("user", "system", "developer", "tool", "human")
_PAIR_KEYS = frozenset(("text", "image", "image_url"))
_MAX_DEPTH = 8
_MAX_COUNTED_DEPTH = 50
_MAX_NUMBER = 10**15  # up to which Python writes all digits of a number

Object: TypeAlias = Mapping[object, object]


def answer_of_object(value: object) -> ParsedAnswer | None:
    """The answer an object holds; None if it has no shape that holds one.

    Its kind is ``content`` (or another of `PARTS_KEYS`), ``parts``, ``part`` or ``text+images``.
    """
    match value:
        case {"videos": [*_], **rest} if not any(rest.values()):  # `fastvideo` of lmms-eval
            return ParsedAnswer(kind="video", failure=VIDEO)
        case Mapping():
            is_others = value.get("role") in _OTHER_ROLES
            return None if is_others else _read_object(value, depth=0, strict=True)
        # A pair of a text and images is a list once it was JSON.
        case [str(text), list() | tuple() as images] if all(map(image_reference, images)):
            return _read_text_with_images({"text": text}, images)
        case [*parts] if not all(map(_is_plain_text, parts)):
            has_images = any(isinstance(part, Mapping) and "image" in part for part in parts)
            contents = [_read_part(part, depth=0, strict=not has_images) for part in parts]
            read = [content for content in contents if content is not None]
            return joined("parts", read) if len(read) == len(parts) else None
    return None


def _is_plain_text(value: object) -> bool:
    return isinstance(value, str) and not is_image_reference(value)


def _read_part(part: object, *, depth: int, strict: bool = False) -> ParsedAnswer | None:
    if isinstance(part, str):
        segment = Segment(image=part) if is_image_reference(part) else Segment(text=part)
        return ParsedAnswer(kind="part", segments=(segment,))
    if isinstance(part, Mapping) and depth <= _MAX_DEPTH:
        return _read_object(part, depth=depth, strict=strict)
    return None


def _read_object(part: Object, *, depth: int, strict: bool) -> ParsedAnswer | None:
    """Read an object by the first of these that it has: parts, images, a role, neither.

    Args:
        part: The object.
        depth: How many objects are around it.
        strict: Whether it may have only the keys of a part. In a list of parts, objects are parts;
            a bare object may be an answer that is itself JSON.
    """
    if part.get("role") in _OTHER_ROLES:
        return ParsedAnswer(kind="part")
    if part.get("type") in _THINKING_TYPES:
        return ParsedAnswer(kind="part", thinking_removed=True)
    parts_key = next((key for key in PARTS_KEYS if _is_list(part.get(key))), None)
    if parts_key is not None:
        return _read_parts(part, parts_key, depth)
    images, content = part.get(IMAGES_KEY), part.get("content")
    if isinstance(images, (list, tuple)):
        return _read_text_with_images(part, images)
    if "role" in part and isinstance(content, str):
        message = _read_part(content, depth=depth) or ParsedAnswer(kind="part")
        return joined("part", [message, _beside(part, "content")])
    return _read_single_part(part, strict=strict)


def _read_parts(part: Object, key: PartsKey, depth: int) -> ParsedAnswer | None:
    """The list of parts under a key, with the images listed beside it."""
    values, images = part[key], part.get(IMAGES_KEY)
    if not isinstance(values, (list, tuple)):
        return None
    if key == "output" and all(map(_is_plain_text, values)):
        return None  # a program's JSON may have such a key
    contents = [_read_part(value, depth=depth + 1) for value in values]
    if values and not any(contents):
        return None
    parts = [
        content or ParsedAnswer(kind="part", unread=_unread_part(value))
        for content, value in zip(contents, values, strict=True)
    ]
    if not isinstance(images, (list, tuple)):
        return joined(key, [*parts, _beside(part, key)])
    return _with_images(joined(key, [*parts, _beside(part, key, IMAGES_KEY)]), images)


def _read_text_with_images(part: Object, images: Sequence[object]) -> ParsedAnswer | None:
    """A text with its images; None if its text may be under another key."""
    texts = {key: (_as_text(part.get(key)) or "").strip() for key in _TEXT_KEYS}
    text_key = next((key for key, text in texts.items() if text), None)
    beside = _beside(part, text_key, IMAGES_KEY)
    if text_key is None and beside.unread:
        return None
    segments = () if text_key is None else (Segment(text=texts[text_key]),)
    text = ParsedAnswer(kind="part", segments=segments)
    return _with_images(joined("text+images", [text, beside]), images)


def _with_images(content: ParsedAnswer, listed: Sequence[object]) -> ParsedAnswer:
    """The content with listed images at the placeholders of its texts, the others at the end.

    Thinking goes first, for it may have placeholders. An image that is a part, too, is shown once.
    """
    references = [reference for value in listed if (reference := image_reference(value))]
    segments, removed = segments_without_thinking(content.segments)
    shown = {segment.image for segment in segments}
    interleaved = interleave_segments(
        [segment for segment in segments if segment.text or segment.image],
        [reference for reference in references if reference not in shown],
    )
    not_read = sum(map(_count_contents, listed)) - len(references)
    return replace(
        content,
        segments=interleaved.segments,
        unread=Counter(content.unread) + Counter({IMAGES_KEY: not_read}),
        thinking_removed=content.thinking_removed or removed,
        unfilled_placeholders=content.unfilled_placeholders + interleaved.unfilled_placeholders,
    )


def _read_single_part(part: Object, *, strict: bool) -> ParsedAnswer | None:
    """A text, an image, or a text with its image; None if one of them is neither."""
    kind, keys = part.get("type"), part.keys() & _PAIR_KEYS
    is_typed = isinstance(kind, str)
    if is_typed and kind not in (*_TEXT_TYPES, *_IMAGE_TYPES):
        return None
    has_other_keys = "image" not in part and part.keys() - _PAIR_KEYS
    if strict and not is_typed and (not keys or has_other_keys):
        return None
    text_key = "refusal" if kind == "refusal" else "text"
    text = _as_text(part.get(text_key))
    key = None if kind in _TEXT_TYPES else image_key(part)
    value = part.get(key)
    image = image_reference({key: value})  # base64 is told apart by its key
    is_odd = image is None and value and not isinstance(value, str)
    if is_odd or (text is None and part.get(text_key) is not None):
        return None
    if text is None and image is None and not keys:
        return None
    unread = Counter({str(key): _count_contents(value) - (image is not None)})
    segment = Segment(text, image)  # even if empty
    content = ParsedAnswer(kind="part", segments=(segment,), unread=+unread)
    return joined("part", [content, _beside(part, text_key, key)])


def _beside(part: Object, *read: str | None) -> ParsedAnswer:
    """The count of the contents of a part under other keys than those that were read."""
    unread: Counter[str] = Counter()
    has_thinking = False
    for key, value in part.items():
        count = 0 if key in read or key in _METADATA_KEYS else _count_contents(value)
        if key in _THINKING_KEYS:
            has_thinking |= count > 0
        else:
            unread[str(key)] += count
    return ParsedAnswer(kind="part", unread=+unread, thinking_removed=has_thinking)


def _unread_part(value: object) -> Counter[str]:
    """The contents of a value that is no part, by its type."""
    if value is None:
        return Counter()
    if isinstance(value, Mapping):
        count = _count_contents(value) or int("type" in value)
        return +Counter({str(value.get("type", "object")): count})
    return Counter({type(value).__name__: _count_contents(value) or 1})


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))


def _as_text(value: object) -> str | None:
    """A text, or a number as its text; None for anything else."""
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _MAX_NUMBER:
        return str(value)
    return None


def _count_contents(value: object, depth: int = 0) -> int:
    """How many texts and images a value has."""
    if isinstance(value, (str, bytes, bytearray)):
        return int(bool(value.strip()))
    if depth > _MAX_COUNTED_DEPTH:
        return 1
    if isinstance(value, Mapping):
        value = [content for key, content in value.items() if key not in _METADATA_KEYS]
    if isinstance(value, (list, tuple)):
        return sum(_count_contents(content, depth + 1) for content in value)
    return int(not isinstance(value, (int, float, type(None))))
