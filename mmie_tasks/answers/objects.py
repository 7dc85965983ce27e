"""Reads the objects that hold an answer of text and images.

An answer is an object, or a list of parts:

* a message: a list of parts under ``content`` (chat servers, and what a model should return),
  ``messages`` or ``output`` (OpenAI's responses); or a ``role`` with a text under ``content``
* a text with images: ``{"text", "images"}``, as models of lmms-eval 0.7.3 write it; the images are
  put at the placeholders of the text
* a part: ``{"text", "image"}`` as in MMIE's ``data.json``; ``{"type": "text", "text"}`` and
  ``{"type": "image", "path"}`` in the spellings of OpenAI and Anthropic; a message; in a list under
  a key, a string

The texts of parts stay unchanged. Messages of other roles (``"role": "user"``) are left out.

In an object with an image, the words under all other keys (a caption, an ``alt``, a
``description``) are texts of the answer, too, in the order of the keys; but not in one with both
``text`` and ``image``, MMIE's own form, whose other keys the official ``dataset.py`` ignores. What
is not read as words is counted: words *to* a model (``prompt``, ``revised_prompt``, ``question``),
references to images, URLs, encoded data, objects inside with a type or a role of their own, and a
single word in lower case if it is in an inner object or in a server's object (``"quality": "high"``
with a ``type``, a ``role`` or an ``object``). Metadata (``id``, ``model``, keys that end in
``_id``) is not counted.

Every function here returns what it reads as an answer, with the count of what it does not read; or
None for a value of another form, whose contents its caller counts.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

from mmie_tasks.answers.parsed_answer import ParsedAnswer, PartsKey, joined
from mmie_tasks.answers.placeholders import interleave_segments
from mmie_tasks.answers.references import image_key, image_reference, is_image_reference
from mmie_tasks.answers.thinking import segments_without_thinking
from mmie_tasks.record.segment import Segment, Segments

VIDEO = "a video in the place of an answer"
IMAGES_KEY = "images"
_PARTS_KEYS: tuple[PartsKey, ...] = ("content", "messages", "output")

_TEXT_KEYS = ("text", "content")
_THINKING_KEYS = ("thinking", "reasoning", "reasoning_content")
_ASKING_KEY = re.compile(
    r"(?:\w*_)?(?:prompt|instructions?|question|query|input|arguments)", re.IGNORECASE
)
_SERVER_KEYS = frozenset(("type", "role", "object"))
_SETTING = re.compile(r"[a-z\d][!-~]*(?<![.!?])")
_NO_WORDS = re.compile(r"data:\S*|\w[\w+.-]*://\S*|[!-~]{65,}", re.ASCII)
_METADATA_KEYS = frozenset(
    (
        *("type", "role", "id", "status", "model", "detail", "format"),
        *("media_type", "mime_type", "mimeType"),
    )
)
# Tuples, since a value of any type is looked up in them.
_IMAGE_TYPES = ("image", "image_url", "input_image", "output_image", "image_generation_call")
_TEXT_TYPES = ("text", "output_text", "input_text", "refusal")
_THINKING_TYPES = ("thinking", "redacted_thinking", "reasoning")
_OTHER_ROLES = ("user", "system", "developer", "tool", "human")
_IMAGE_KEYS = frozenset(("image", "image_url"))
_PAIR_KEYS = _IMAGE_KEYS | {"text"}
_MAX_DEPTH = 8
_MAX_COUNTED_DEPTH = 50
_MAX_NUMBER = 10**15  # up to which Python writes all digits of a number

_Object: TypeAlias = Mapping[object, object]


def answer_of_object(value: object) -> ParsedAnswer | None:
    """The answer in an object; None unless it has one of the forms above.

    Its kind is ``content`` (or another of `PARTS_KEYS`), ``parts``, ``part`` or ``text+images``.
    """
    match value:
        case {"videos": [*_], **rest} if not any(rest.values()):  # `fastvideo` of lmms-eval
            return ParsedAnswer(kind="video", failure=VIDEO)
        case Mapping():
            is_others = value.get("role") in _OTHER_ROLES
            return None if is_others else _read_object(value, depth=0, strict=True)
        case [*values]:
            parts = [value for value in values if isinstance(value, Mapping)]
            has_images = any("image" in part for part in parts)
            contents = [_read_part(part, depth=0, strict=not has_images) for part in parts]
            read = [content for content in contents if content is not None]
            return joined("parts", read) if values and len(read) == len(values) else None
    return None


def _read_part(part: object, *, depth: int, strict: bool = False) -> ParsedAnswer | None:
    if isinstance(part, str):
        return ParsedAnswer(kind="part", segments=(Segment(part),))
    if isinstance(part, Mapping) and depth <= _MAX_DEPTH:
        return _read_object(part, depth=depth, strict=strict)
    return None


def _read_object(part: _Object, *, depth: int, strict: bool) -> ParsedAnswer | None:
    """Read an object by the first of these that it has: parts, images, a role, none of them.

    `depth` is the number of objects around it. If `strict`, it may have only the keys of a part: a
    bare object may be an answer that is itself JSON.
    """
    if part.get("role") in _OTHER_ROLES:
        return ParsedAnswer(kind="part")
    if part.get("type") in _THINKING_TYPES:
        return ParsedAnswer(kind="part", thinking_removed=True)
    for key in _PARTS_KEYS:
        if isinstance(values := part.get(key), (list, tuple)):
            return _read_parts(part, key, values, depth)
    images, content = part.get(IMAGES_KEY), part.get("content")
    if isinstance(images, (list, tuple)):
        return _read_text_with_images(part, images)
    if "role" in part and isinstance(content, str):
        message = ParsedAnswer(kind="part", segments=(Segment(content),))
        return _with_words(part, message, "content")
    return _read_single_part(part, strict=strict)


def _read_parts(
    part: _Object, key: PartsKey, values: Sequence[object], depth: int
) -> ParsedAnswer | None:
    """Read the list of parts under a key, with the images listed next to it."""
    if key == "output" and all(isinstance(value, str) for value in values):
        return None  # a program's JSON may have such a key
    contents = [_read_part(value, depth=depth + 1) for value in values]
    if values and not any(contents):
        return None
    parts = [
        content or ParsedAnswer(kind="part", unread=_unread_part(value))
        for content, value in zip(contents, values, strict=True)
    ]
    content = joined(key, parts)
    if not isinstance(images := part.get(IMAGES_KEY), (list, tuple)):
        return _with_words(part, content, key)
    has_images = bool(_references(images))
    content = _with_words(_without_images(part), content, key, has_images=has_images)
    return _with_images(content, images)


def _read_text_with_images(part: _Object, images: Sequence[object]) -> ParsedAnswer | None:
    """A text with its images; None without images, if the text may be under another key."""
    texts = {key: (_as_text(part.get(key)) or "").strip() for key in _TEXT_KEYS}
    text_key = next((key for key, text in texts.items() if text), None)
    segments = () if text_key is None else (Segment(text=texts[text_key]),)
    text = ParsedAnswer(kind="text+images", segments=segments)
    has_images = bool(_references(images))
    content = _with_words(_without_images(part), text, text_key, has_images=has_images)
    if text_key is None and content.unread and not has_images:
        return None
    return _with_images(content, images)


def _without_images(part: _Object) -> _Object:
    return {key: value for key, value in part.items() if key != IMAGES_KEY}


def _references(listed: Sequence[object]) -> list[str]:
    return [reference for value in listed if (reference := image_reference(value))]


def _with_images(content: ParsedAnswer, listed: Sequence[object]) -> ParsedAnswer:
    """The content with listed images at the placeholders of its texts, the others at the end.

    Thinking is removed first, since it may have placeholders. An image that is also a part is shown
    once.
    """
    segments, removed = segments_without_thinking(content.segments)
    shown = {segment.image for segment in segments}
    described: dict[str | None, list[Segments]] = defaultdict(list)
    for value in listed:
        if (reference := image_reference(value)) and reference not in shown:
            described[reference].append(_described(value, reference))
    n_read = sum(len(one) for of_image in described.values() for one in of_image)
    n_read += sum(reference in shown for reference in _references(listed))
    not_read = sum(map(_count_contents, listed)) - n_read
    interleaved = interleave_segments(
        [segment for segment in segments if segment.text or segment.image],
        [reference for reference in _references(listed) if reference not in shown],
    )
    with_words = (
        described[segment.image].pop(0) if described.get(segment.image) else (segment,)
        for segment in interleaved.segments
    )
    return replace(
        content,
        segments=tuple(chain.from_iterable(with_words)),
        unread=Counter(content.unread) + Counter({IMAGES_KEY: not_read}),
        thinking_removed=content.thinking_removed or removed,
        unfilled_placeholders=content.unfilled_placeholders + interleaved.unfilled_placeholders,
        unplaced_images=content.unplaced_images + interleaved.unplaced_images,
    )


def _described(value: object, reference: str, depth: int = 0) -> Segments:
    """The image in a value, with the words next to it."""
    image = ParsedAnswer(kind="part", segments=(Segment(image=reference),))
    if not isinstance(value, Mapping) or depth > _MAX_DEPTH:
        return image.segments
    key = image_key(value)
    if image_reference(inner := value.get(key)):
        image = replace(image, segments=_described(inner, reference, depth + 1))
    return _with_words(value, image, key).segments


def _read_single_part(part: _Object, *, strict: bool) -> ParsedAnswer | None:
    """A text, an image, or a text with its image; None if one of them has another type."""
    kind, keys = part.get("type"), part.keys() & _PAIR_KEYS
    is_typed = isinstance(kind, str)
    if is_typed and kind not in (*_TEXT_TYPES, *_IMAGE_TYPES):
        return None
    has_other_keys = not part.keys() & _IMAGE_KEYS and part.keys() - _PAIR_KEYS
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
    described = _described(value, image) if image else ()
    segments: Segments = (Segment(text, image),)  # even if empty
    if len(described) > 1:
        segments = (*([] if text is None else [Segment(text)]), *described)
    unread = Counter({str(key): _count_contents(value) - len(described)})
    content = ParsedAnswer(kind="part", segments=segments, unread=+unread)
    if part.keys() >= {"text", "image"}:
        counted = _with_words(part, replace(content, segments=()), text_key, key)
        return replace(counted, segments=segments)
    return _with_words(part, content, text_key, key)


def _with_words(
    part: _Object, content: ParsedAnswer, *read: str | None, has_images: bool = False
) -> ParsedAnswer:
    """The content of the keys that were read; with images, between the words under other keys."""
    has_images |= any(segment.image for segment in content.segments)
    is_servers = not part.keys().isdisjoint(_SERVER_KEYS)
    unread: Counter[str] = Counter(content.unread)
    before: list[Segment] = []
    after: list[Segment] = []
    words, has_thinking = before, content.thinking_removed
    for key, value in part.items():
        count = 0 if key in read else _count_contents({key: value})
        if key in read:
            words = after
        elif key in _THINKING_KEYS:
            has_thinking |= count > 0
        else:
            texts = list(_words({key: value}, is_servers=is_servers)) if has_images else []
            words += map(Segment, texts)
            unread[str(key)] += count - len(texts)
    segments = (*before, *content.segments, *after)
    return replace(content, segments=segments, unread=+unread, thinking_removed=has_thinking)


def _words(value: object, *, is_servers: bool, depth: int = 0) -> Iterator[str]:
    """The words next to an image: the rules are in the module's docstring."""
    if isinstance(value, str):
        text = value.strip()
        is_setting = is_servers and _SETTING.fullmatch(text)
        if text and not (is_setting or is_image_reference(text) or _NO_WORDS.fullmatch(text)):
            yield text
    elif depth > _MAX_DEPTH:
        return
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _words(inner, is_servers=is_servers, depth=depth + 1)
    elif isinstance(value, Mapping) and (depth == 0 or value.keys().isdisjoint(_SERVER_KEYS)):
        for key, inner in value.items():
            if not (_is_metadata(key) or key in _THINKING_KEYS or _ASKING_KEY.fullmatch(str(key))):
                yield from _words(inner, is_servers=is_servers or depth > 0, depth=depth + 1)


def _is_metadata(key: object) -> bool:
    return key in _METADATA_KEYS or str(key).endswith("_id")


def _unread_part(value: object) -> Counter[str]:
    """The number of contents of a value that is not a part, by its type."""
    if value is None:
        return Counter()
    if isinstance(value, Mapping):
        count = _count_contents(value) or int("type" in value)
        return +Counter({str(value.get("type", "object")): count})
    return Counter({type(value).__name__: _count_contents(value) or 1})


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
        value = [content for key, content in value.items() if not _is_metadata(key)]
    if isinstance(value, (list, tuple)):
        return sum(_count_contents(content, depth + 1) for content in value)
    return int(not isinstance(value, (int, float, type(None))))
