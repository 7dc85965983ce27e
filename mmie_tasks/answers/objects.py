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
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from mmie_tasks.answers.placeholders import interleave_segments
from mmie_tasks.answers.references import image_key, image_reference, is_image_reference
from mmie_tasks.answers.segments import ParsedAnswer, joined
from mmie_tasks.answers.thinking import segments_without_thinking
from mmie_tasks.record.segment import Segment

VIDEO = "a video in the place of an answer"
IMAGES_KEY = "images"
PARTS_KEYS = ("content", "messages", "output")

_TEXT_KEYS = ("text", "content")
_THINKING_KEYS = ("thinking", "reasoning", "reasoning_content")
_METADATA_KEYS = frozenset(
    (
        *("type", "role", "id", "status", "model", "detail", "format"),
        *("media_type", "mime_type", "mimeType"),
    )
)
_IMAGE_TYPES = frozenset(
    ("image", "image_url", "input_image", "output_image", "image_generation_call")
)
_PART_TYPES = _IMAGE_TYPES | {"text", "output_text", "input_text", "refusal"}
_THINKING_TYPES = frozenset(("thinking", "redacted_thinking", "reasoning"))
_OTHER_ROLES = ("user", "system", "developer", "tool", "human")  # compared with values of any type
_PAIR_KEYS = frozenset(("text", "image", "image_url"))
_MAX_DEPTH = 8
_MAX_COUNTED_DEPTH = 50
_MAX_NUMBER = 10**15  # up to which Python writes all digits of a number

Object: TypeAlias = Mapping[object, object]


def answer_of_object(value: object) -> ParsedAnswer | None:
    """The answer an object holds; None if it has no shape that holds one.

    The shape is ``content`` (or another of `PARTS_KEYS`), ``parts``, ``part`` or ``text+images``.
    """
    content: ParsedAnswer | None = None
    match value:
        case {"videos": [*_], **rest} if not any(rest.values()):  # `fastvideo` of lmms-eval
            return ParsedAnswer(shape="video", failure=VIDEO)
        case Mapping():
            is_others = value.get("role") in _OTHER_ROLES
            content = None if is_others else _read_object(value, depth=0, strict=True)
        # A pair of a text and images is a list once it was JSON.
        case [str(text), list() | tuple() as images] if all(map(image_reference, images)):
            content = _read_text_with_images({"text": text, IMAGES_KEY: images})
        case [*parts] if not all(map(_is_plain_text, parts)):
            has_images = any(isinstance(part, Mapping) and "image" in part for part in parts)
            contents = [_read_part(part, depth=0, strict=not has_images) for part in parts]
            content = joined("parts", [one for one in contents if one is not None])
            content = content if None not in contents else None
        case _ if not isinstance(value, (str, list, tuple)) and (image := image_reference(value)):
            content = ParsedAnswer(segments=(Segment(image=image),), shape="image")
    return content


def _is_plain_text(value: object) -> bool:
    return isinstance(value, str) and not is_image_reference(value)


def _read_part(part: object, *, depth: int, strict: bool = False) -> ParsedAnswer | None:
    if isinstance(part, str):
        is_image = is_image_reference(part)
        segment = Segment(image=image_reference(part)) if is_image else Segment(text=part)
        return ParsedAnswer(shape="part", segments=(segment,))
    if isinstance(part, Mapping):
        return _read_object(part, depth=depth, strict=strict) if depth <= _MAX_DEPTH else None
    image = image_reference(part)  # Pillow's
    return ParsedAnswer(shape="part", segments=(Segment(image=image),)) if image else None


def _read_object(part: Object, *, depth: int, strict: bool) -> ParsedAnswer | None:
    """Read an object.

    Args:
        part: The object.
        depth: How many objects are around it.
        strict: Whether it may have only the keys of a part. In a list of parts, objects are parts;
            a bare object may be an answer that is itself JSON.
    """
    kind = part.get("type")
    if part.get("role") in _OTHER_ROLES:
        return ParsedAnswer(shape="part")
    if isinstance(kind, str) and kind in _THINKING_TYPES:
        return ParsedAnswer(shape="part", thinking_removed=True)
    for key in PARTS_KEYS:
        message = _read_message(part, key, depth) if key in part else None
        if message is not None:
            return message
    if _is_chat(part) or IMAGES_KEY in part:
        return _read_text_with_images(part)
    if isinstance(kind, str):
        return _read_typed_part(part, kind)
    return _read_pair(part, strict=strict)


def _read_message(part: Object, key: str, depth: int) -> ParsedAnswer | None:
    """The parts under a key, with the images listed beside them."""
    values = part[key]
    if not isinstance(values, (list, tuple)):
        return None
    if key == "output" and all(map(_is_plain_text, values)):
        return None  # a program's JSON may have such a key
    contents = [_read_part(value, depth=depth + 1) for value in values]
    if values and not any(contents):
        return None
    pairs = zip(contents, values, strict=True)
    parts = [
        content or ParsedAnswer(shape="part", unread=_unread_part(value))
        for content, value in pairs
    ]
    rest = _beside(part, key, IMAGES_KEY)
    return _with_images(joined(key, [*parts, rest]), part.get(IMAGES_KEY))


def _read_text_with_images(part: Object) -> ParsedAnswer | None:
    """A text with its images, or the message of a chat server."""
    is_chat, images = _is_chat(part), part.get(IMAGES_KEY)
    is_image = not images or isinstance(images, (list, tuple)) or image_reference(images)
    if not is_chat and (not is_image or _is_no_text(part.get("text"))):
        return None
    keys = ("content",) if is_chat else _TEXT_KEYS
    texts = {key: text for key in keys if (text := _as_text(part.get(key))) is not None}
    text_key = next((key for key, text in texts.items() if text.strip()), next(iter(texts), None))
    content = _beside(part, text_key, IMAGES_KEY)
    if text_key is None and content.unread:
        return None  # its text may be under another key
    if text_key is not None:
        text = texts[text_key]
        if not is_chat or images:
            segment = Segment(text=text.strip())
        elif is_image_reference(text):
            segment = Segment(image=text)
        else:
            segment = Segment(text=text)
        content = joined("part", [ParsedAnswer(shape="part", segments=(segment,)), content])
    content = _with_images(content, images) if IMAGES_KEY in part else content
    if content.unread and not content.segments:
        return None
    return joined("text+images" if IMAGES_KEY in part else "part", [content])


def _with_images(content: ParsedAnswer, listed: object) -> ParsedAnswer:
    """The content with listed images at the placeholders of its texts, the others at the end.

    Thinking goes first, for it may have placeholders. An image that is a part, too, is shown once.
    """
    values = listed if isinstance(listed, (list, tuple)) else [listed]
    references = [reference for value in values if (reference := image_reference(value))]
    segments, removed = content.segments, False
    unfilled = content.unfilled_placeholders
    if listed is not None:
        segments, removed = segments_without_thinking(segments)
        shown = {segment.image for segment in segments}
        interleaved = interleave_segments(
            [segment for segment in segments if segment.text or segment.image],
            [reference for reference in references if reference not in shown],
        )
        segments = interleaved.segments
        unfilled += interleaved.unfilled_placeholders
    not_read = sum(map(_count_contents, values)) - len(references)
    return replace(
        content,
        segments=segments,
        unread=Counter(content.unread) + Counter({IMAGES_KEY: not_read}),
        thinking_removed=content.thinking_removed or removed,
        unfilled_placeholders=unfilled,
    )


def _read_typed_part(part: Object, kind: str) -> ParsedAnswer | None:
    if kind not in _PART_TYPES:
        return None
    is_image = kind in _IMAGE_TYPES
    text_key = kind if kind == "refusal" else "text"
    text, key = _as_text(part.get(text_key)), image_key(part) if is_image else None
    image = image_reference(part) if is_image else None
    segments = (Segment(text, image),) if text is not None or image is not None else ()
    rest = _beside(part, key, None if text is None else text_key)
    unread = Counter({str(key): _count_contents(part.get(key)) - 1})
    return joined("part", [ParsedAnswer(shape="part", segments=segments, unread=+unread), rest])


def _read_pair(part: Object, *, strict: bool) -> ParsedAnswer | None:
    keys = part.keys() & _PAIR_KEYS
    if strict and (not keys or ("image" not in part and part.keys() - _PAIR_KEYS)):
        return None
    key = next((name for name in ("image", "image_url") if name in part), None) or image_key(part)
    value = part.get(key)
    # Base64 and bytes are told apart by their key.
    image = image_reference(value if key in _PAIR_KEYS else {key: value})
    text = _as_text(part.get("text"))
    is_odd = image is None and not isinstance(value, (str, type(None))) and value not in ([], {})
    if is_odd or _is_no_text(part.get("text")):
        return None
    if text is None and image is None and not keys:
        return None
    unread = Counter({str(key): _count_contents(value) - (image is not None)})
    segments = (Segment(text, image),)  # even if empty
    pair = ParsedAnswer(shape="part", segments=segments, unread=+unread)
    return joined("part", [pair, _beside(part, "text", key)])


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
    return ParsedAnswer(shape="part", unread=+unread, thinking_removed=has_thinking)


def _unread_part(value: object) -> Counter[str]:
    """The contents of a value that is no part, by its type."""
    if value is None:
        return Counter()
    if isinstance(value, Mapping):
        count = _count_contents(value) or int("type" in value)
        return +Counter({str(value.get("type", "object")): count})
    return Counter({type(value).__name__: _count_contents(value) or 1})


def _is_chat(part: Object) -> bool:
    return "role" in part and isinstance(part.get("content"), str)


def _is_no_text(value: object) -> bool:
    return value is not None and _as_text(value) is None


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
