"""Read the objects that models answer with: JSON, or what Python prints of an object.

Objects that hold an answer:

* a message: parts under ``content``, ``segments``, ``messages``, ``interleaved``, ``output`` or
  ``steps``, or a text under one of `_TEXT_KEYS`; with its images under one of `IMAGES_KEYS`
* ``[part, ...]``: a list of parts only; the pair ``("...", [...])`` of a text and its images
* a part: ``{"text", "image"}`` as in MMIE's ``data.json``; ``{"type": "text", "text"}`` and
  ``{"type": "image", "path"}`` in the spellings of OpenAI and Anthropic; a message; a string,
  which is an image reference or a text

Texts of parts stay unchanged. Messages of other roles (``"role": "user"``) are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from mmie_tasks.answers.segments import (
    ParsedAnswer,
    Segment,
    image_key,
    image_reference,
    interleave_segments,
    is_image_reference,
)
from mmie_tasks.answers.thinking import segments_without_thinking

_WRAPPER_KEYS = ("content", "segments", "messages", "interleaved", "output", "steps")
_TEXT_KEYS = ("text", "content", "response", "answer", "caption")
IMAGES_KEYS = ("images", "image_paths", "generated_images")
_THINKING_KEYS = ("thinking", "reasoning", "reasoning_content")
_METADATA_KEYS = frozenset(("type", "role", "id", "status", "model", "detail", "format", "media_type", "mime_type"))
_IMAGE_TYPES = frozenset(("image", "image_url", "input_image", "output_image", "image_generation_call"))
_PART_TYPES = _IMAGE_TYPES | {"text", "output_text", "input_text", "refusal"}
_THINKING_TYPES = frozenset(("thinking", "redacted_thinking", "reasoning"))
_OTHER_ROLES = ("user", "system", "developer", "tool", "human")  # compared with values of any type
_IMAGES_TYPES = (list, tuple, str, Mapping, type(None))  # of the value of `IMAGES_KEYS`
_PAIR_KEYS = frozenset(("text", "image", "image_url"))
_MAX_DEPTH = 8
_MAX_COUNTED_DEPTH = 50
_MAX_NUMBER = 10**15  # up to which Python writes all digits of a number


def answer_of_object(value: object) -> ParsedAnswer | None:
    """The answer an object holds; None if it has no shape that holds one.

    The shape is ``content`` (or another wrapper), ``parts``, ``part`` or ``text+images``.
    """
    if isinstance(value, Mapping):
        collector = _SegmentCollector(strict=True)
        is_answer = value.get("role") not in _OTHER_ROLES and collector.add(value)
        return collector.answer(collector.shape) if is_answer or collector.not_text else None
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes, bytearray)):
        return None
    match value:
        # A pair of a text and images is a list once it was JSON.
        case [str(text), list() | tuple() as images] if all(map(image_reference, images)):
            return answer_of_object({"text": text, "images": images})
    objects = [part for part in value if isinstance(part, Mapping)]
    collector = _SegmentCollector(strict=not any("image" in part for part in objects))
    only_texts = all(isinstance(part, str) and not is_image_reference(part) for part in value)
    are_parts = not only_texts and all(collector.add(part) for part in value)
    are_odd_parts = bool(collector.not_text) and len(objects) == len(value)
    return collector.answer("parts") if are_parts or are_odd_parts else None


class _SegmentCollector:
    """Collects the segments of an object's parts.

    Attributes:
        segments: In order.
        shape: Of the last object that was added.
        not_text: The problem of a part as in MMIE's ``data.json`` whose text is no text, or whose
            image is no image.

    Args:
        strict: Whether an object may have only the keys of a part. In a wrapper, objects are
            parts; a bare object may be an answer that is itself JSON.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._unfilled_placeholders = 0
        self._thinking_removed = False
        self._unread: Counter[str] = Counter()
        self.segments: list[Segment] = []
        self.shape = "part"
        self.not_text = ""

    def answer(self, shape: str) -> ParsedAnswer:
        if self.not_text:
            return ParsedAnswer(shape="not text", failure=self.not_text)
        return ParsedAnswer(
            segments=tuple(self.segments),
            shape=shape,
            unfilled_placeholders=self._unfilled_placeholders,
            thinking_removed=self._thinking_removed,
            unread=self._unread,
        )

    def add_any(self, parts: Sequence[object], depth: int = 0) -> bool:
        """Add every valid part; False if there is none."""
        added = [self.add(part, depth) for part in parts]
        return any(added)

    def add(self, part: object, depth: int = 0) -> bool:
        """Add a part; False if the value is not a valid part: its contents are counted."""
        if isinstance(part, str):
            is_image = is_image_reference(part)
            self._append(None if is_image else part, image_reference(part) if is_image else None)
            return True
        if isinstance(part, (list, tuple)) and depth <= _MAX_DEPTH:
            return self.add_any(part, depth + 1)
        if isinstance(part, Mapping) and depth <= _MAX_DEPTH and self._add_object(part, depth):
            return True
        if isinstance(part, Mapping):
            self._count(str(part.get("type", "object")), _count_contents(part) or "type" in part)
        elif part is not None:
            self._count(type(part).__name__, _count_contents(part) or 1)
        return False

    def _add_object(self, part: Mapping[object, object], depth: int) -> bool:
        kind = part.get("type")
        if part.get("role") in _OTHER_ROLES:
            return True
        if isinstance(kind, str) and kind in _THINKING_TYPES:
            self._thinking_removed = True
            return True
        if any(self._add_message(part, key, depth) for key in _WRAPPER_KEYS if key in part):
            return True
        if _is_chat(part) or any(key in part for key in IMAGES_KEYS):
            return self._add_message(part, None, depth)
        return self._add_typed(part, kind) if isinstance(kind, str) else self._add_untyped(part)

    def _add_message(self, part: Mapping[object, object], wrapper: str | None, depth: int) -> bool:
        """Add the parts under `wrapper`, or else a text, with the images listed beside them."""
        parts = part[wrapper] if wrapper else ()
        if not isinstance(parts, (list, tuple)) or not _may_be_parts(parts, wrapper):
            return False
        lists = [part[key] for key in IMAGES_KEYS if key in part]
        is_sure = wrapper or _is_chat(part)  # of an answer, whatever stands beside it
        if not (is_sure or all(isinstance(one, _IMAGES_TYPES) for one in lists)):
            return False
        if not is_sure and part.get("text") is not None and _as_text(part["text"]) is None:
            return False
        images = [v for one in lists for v in (one if isinstance(one, (list, tuple)) else [one])]
        text_key = "content" if _is_chat(part) else _text_key(part, other_than=wrapper)
        inner = _SegmentCollector()
        inner._count_unread(part, wrapper, text_key, *IMAGES_KEYS)
        for key, value in part.items():  # a text beside parts has its place in the object's order
            if key == wrapper and not inner.add_any(parts, depth + 1) and parts:
                self.not_text = self.not_text or inner.not_text
                return False
            text = _as_text(value) if key == text_key else None
            if text is not None and not wrapper and _is_chat(part) and not images:
                inner.add(text)
            elif text is not None:
                inner._append(text if wrapper else text.strip(), None)
        if lists:
            inner._add_images(images)
        if inner._unread and not (wrapper or inner.segments):
            return False
        self._merge(inner)
        self.shape = wrapper or ("text+images" if lists else "part")
        return True

    def _add_images(self, values: Sequence[object]) -> None:
        """Add listed images: at the placeholders of the texts so far, the others at the end.

        Thinking goes first, for it may have placeholders. An image that is a part, too, is shown
        once.
        """
        segments, removed = segments_without_thinking(self.segments)
        references = [reference for value in values if (reference := image_reference(value))]
        self._count("images", sum(map(_count_contents, values)) - len(references))
        shown = {segment.image for segment in segments}
        interleaved = interleave_segments(
            [segment for segment in segments if segment.text or segment.image],
            [reference for reference in references if reference not in shown],
        )
        self.segments = list(interleaved.segments)
        self._unfilled_placeholders += interleaved.unfilled_placeholders
        self._thinking_removed |= removed

    def _add_typed(self, part: Mapping[object, object], kind: str) -> bool:
        if kind not in _PART_TYPES:
            return False
        is_image = kind in _IMAGE_TYPES
        text_key = kind if kind == "refusal" else "text" if is_image else _text_key(part)
        text, key = _as_text(part.get(text_key)), image_key(part) if is_image else None
        self._append(text, image_reference(part) if is_image else None)
        self._count_unread(part, key, None if text is None else text_key)
        self._count(str(key), _count_contents(part.get(key)) - 1)
        return True

    def _add_untyped(self, part: Mapping[object, object]) -> bool:
        keys = part.keys() & _PAIR_KEYS
        if self._strict and (not keys or ("image" not in part and part.keys() - _PAIR_KEYS)):
            return False
        # As pandas writes an empty cell: NaN is not equal to itself.
        part = {name: None if value != value else value for name, value in part.items()}
        text_key = "text" if "text" in part else _text_key(part)
        key: str | None = next((name for name in ("image", "image_url") if name in part), None)
        value = part.get(key)
        if key is None and (key := image_key(part)):
            value = {key: part[key]}
        text = _as_text(part.get(text_key))
        images = value if isinstance(value, (list, tuple)) else [value]
        references = [reference for image in images if (reference := image_reference(image))]
        is_odd = [
            image_reference(image) is None and image not in (None, b"", {})
            for image in images
            if not isinstance(image, str)
        ]
        if any(is_odd) or (text is None and part.get(text_key) is not None):
            if not self._strict:
                self.not_text = f"a text or image of a part is neither: {str(part)[:80]}"
            return False
        if text is None and not references and not keys:
            return False
        self.segments.append(Segment(text, next(iter(references), None)))  # even if empty
        self.segments += [Segment(image=reference) for reference in references[1:]]
        self._count_unread(part, text_key, key)
        self._count(str(key), _count_contents(value) - len(references))
        return True

    def _append(self, text: str | None, image: str | None) -> None:
        if text is not None or image is not None:
            self.segments.append(Segment(text=text, image=image))

    def _merge(self, inner: _SegmentCollector) -> None:
        self.segments += inner.segments
        self.not_text = self.not_text or inner.not_text
        self._unread += inner._unread
        self._unfilled_placeholders += inner._unfilled_placeholders
        self._thinking_removed |= inner._thinking_removed

    def _count(self, name: str, count: int) -> None:
        if count > 0:
            self._unread[name] += count

    def _count_unread(self, part: Mapping[object, object], *read: str | None) -> None:
        """Count the contents of a part under other keys than those that were read."""
        for key, value in part.items():
            count = 0 if key in read or key in _METADATA_KEYS else _count_contents(value)
            if key in _THINKING_KEYS:
                self._thinking_removed |= count > 0
            else:
                self._count(str(key), count)


def _is_chat(part: Mapping[object, object]) -> bool:
    return "role" in part and isinstance(part.get("content"), str)


def _may_be_parts(parts: Sequence[object], key: str | None) -> bool:
    """A program's JSON may have such a key: only objects or images make its list an answer."""
    if key not in ("output", "steps"):
        return True
    return any(isinstance(part, Mapping) or (isinstance(part, str) and is_image_reference(part)) for part in parts)


def _text_key(part: Mapping[object, object], other_than: str | None = None) -> str | None:
    """The key with the text of an object: the first whose text is not blank, else the first."""
    keys = (key for key in _TEXT_KEYS if key != other_than)
    texts = {key: text for key in keys if (text := _as_text(part.get(key))) is not None}
    return next((key for key, text in texts.items() if text.strip()), next(iter(texts), None))


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
    values = value if isinstance(value, (list, tuple)) else ()
    return sum(_count_contents(content, depth + 1) for content in values)
