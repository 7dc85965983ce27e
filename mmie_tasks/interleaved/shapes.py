"""Objects that hold an answer: which there are, and how each becomes segments.

* ``{"content": [part, ...]}``, also ``segments``, ``messages``, ``interleaved`` and ``output``
* ``[part, ...]``: nothing but parts, else it is no answer
* ``{"text": "...", "images": [...]}`` and the pair ``("...", [...])``: see `places`
* a part: ``{"text", "image"}`` as in MMIE's ``data.json``; ``{"type": "text", "text"}`` and
  ``{"type": "image", "path"}`` in the spellings of OpenAI and Anthropic; a message with a role and
  ``content``; ``{"text", "images"}``; a string, which is a reference to an image or a text

Texts of parts are kept as they are. What somebody else said (``"role": "user"``) is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mmie_tasks.interleaved.places import woven
from mmie_tasks.interleaved.references import image_of, looks_like_image
from mmie_tasks.interleaved.segments import Segment
from mmie_tasks.interleaved.thinking import without_thinking

_WRAPPERS = ("content", "segments", "messages", "interleaved", "output")
_TEXT_TYPES = frozenset(("text", "output_text", "input_text"))
_IMAGE_TYPES = frozenset(
    ("image", "image_url", "input_image", "output_image", "image_generation_call")
)
_THINKING_TYPES = frozenset(("thinking", "redacted_thinking", "reasoning"))
_OTHER_ROLES = ("user", "system", "developer", "tool", "human")  # compared with values of any kind
_PAIR = frozenset(("text", "image", "image_url"))
_MAX_DEPTH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaped:
    """An object read as an answer.

    Attributes:
        segments: In order; may be none.
        name: Of the shape: ``content``, ``parts``, ``part``, ``text+images``.
        places_left: Places for images that stayed in a text.
        thinking_removed: Whether thinking was left out.
    """

    segments: tuple[Segment, ...]
    name: str
    places_left: int = 0
    thinking_removed: bool = False


def shaped(value: object) -> Shaped | None:
    """The answer an object holds; None where it is not of a shape that holds one.

    >>> shaped({"text": "See <image>.", "images": ["a.png"]}).name
    'text+images'
    >>> shaped({"choice": 1}) is None
    True
    """
    if isinstance(value, Mapping):
        is_others = value.get("role") in _OTHER_ROLES
        return None if is_others else _wrapped(value) or _one(value)
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
        return _pair(value) or _list(value)
    return None


def _wrapped(value: Mapping[object, object]) -> Shaped | None:
    for key in _WRAPPERS:
        parts = value.get(key)
        if not isinstance(parts, (list, tuple)):
            continue
        is_plain_list = not any(isinstance(part, Mapping) for part in parts)
        gathered = _Gathered()
        # A program's JSON may well say `output`; only objects in it make it an answer.
        if not (key == "output" and is_plain_list) and (gathered.any_of(parts) or not parts):
            return gathered.shaped(key)
    return None


def _one(value: Mapping[object, object]) -> Shaped | None:
    gathered = _Gathered(strict=True)
    if not gathered.part(value):
        return None
    return gathered.shaped("text+images" if "images" in value else "part")


def _pair(value: Sequence[object]) -> Shaped | None:
    """``("text", ["a.png"])``, which is a list once it was JSON."""
    if len(value) != 2 or not isinstance(value[0], str):
        return None
    text, images = value
    if not isinstance(images, (list, tuple)) or not all(map(image_of, images)):
        return None
    gathered = _Gathered()
    gathered.weave(text, images)
    return gathered.shaped("text+images")


def _list(value: Sequence[object]) -> Shaped | None:
    gathered = _Gathered(strict=True)
    words_only = all(isinstance(part, str) and not looks_like_image(part) for part in value)
    if words_only or not gathered.all_of(value):
        return None
    return gathered.shaped("parts")


class _Gathered:
    """Segments while they are being collected.

    Args:
        strict: Whether an object must have nothing but the keys of a part. Around parts in a
            wrapper there is no doubt; a bare object may be an answer that is itself JSON.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._segments: list[Segment] = []
        self._places_left = 0
        self._thinking_removed = False

    def shaped(self, name: str) -> Shaped:
        return Shaped(
            segments=tuple(self._segments),
            name=name,
            places_left=self._places_left,
            thinking_removed=self._thinking_removed,
        )

    def any_of(self, parts: Sequence[object], depth: int = 0) -> bool:
        """Take every part that is one; whether there was any."""
        taken = [self.part(part, depth) for part in parts]
        return any(taken)

    def all_of(self, parts: Sequence[object]) -> bool:
        """Take the parts, up to the first that is none; whether all were parts."""
        return all(self.part(part) for part in parts)

    def part(self, value: object, depth: int = 0) -> bool:
        """Take what a part says; False where it is no part."""
        if isinstance(value, str):
            self._add(*((None, value) if looks_like_image(value) else (value, None)))
            return True
        if depth > _MAX_DEPTH:
            return False
        if isinstance(value, (list, tuple)):
            return self.any_of(value, depth + 1)
        return isinstance(value, Mapping) and self._object(value, depth)

    def _object(self, value: Mapping[object, object], depth: int) -> bool:
        kind, content = value.get("type"), value.get("content")
        if value.get("role") in _OTHER_ROLES:
            return True
        if isinstance(kind, str) and kind in _THINKING_TYPES:
            self._thinking_removed = True
            return True
        if isinstance(content, (list, tuple)):
            return self.any_of(content, depth + 1)
        if isinstance(content, str) and "role" in value:
            return self.part(content, depth + 1)
        if "images" in value:
            return self.weave(value.get("text"), value["images"])
        return self._typed(value, kind) if isinstance(kind, str) else self._untyped(value)

    def weave(self, text: object, images: object) -> bool:
        """Take a text and its images; thinking goes first, for it may have places of its own."""
        if images is None or isinstance(images, (str, Mapping)):
            images = [] if images is None else [images]
        if not isinstance(text, (str, type(None))) or not isinstance(images, (list, tuple)):
            return False
        kept = without_thinking(text or "")
        found = woven(kept.text, [image for image in map(image_of, images) if image])
        self._segments.extend(found.segments)
        self._places_left += found.places_left
        self._thinking_removed |= kept.removed
        return True

    def _typed(self, value: Mapping[object, object], kind: str) -> bool:
        if kind not in _TEXT_TYPES | _IMAGE_TYPES | {"refusal"}:
            return False
        text = value.get("refusal" if kind == "refusal" else "text")
        image = image_of(value) if kind in _IMAGE_TYPES else None
        self._add(text if isinstance(text, str) else None, image)
        return True

    def _untyped(self, value: Mapping[object, object]) -> bool:
        if not value.keys() & _PAIR:
            found = None if self._strict else image_of(value)
            self._add(None, found)
            return found is not None
        if self._strict and value.keys() - _PAIR:
            return False
        text, image = value.get("text"), value.get("image", value.get("image_url"))
        if not isinstance(text, (str, type(None))):
            return False
        if not isinstance(image, (str, bytes, Mapping, type(None))):
            return False
        self._segments.append(Segment(text=text, image=image_of(image)))  # though it say nothing
        return True

    def _add(self, text: str | None, image: str | None) -> None:
        if text is not None or image is not None:
            self._segments.append(Segment(text=text, image=image))
