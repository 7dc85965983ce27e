"""What the tested model returned, in any shape, as ordered segments of text and images.

Shapes: the table in ``README.md`` beside this file. What the runner makes of a model's return value
before it comes here: ``unwrap_generation_output`` in ``lmms_eval/api/instance.py``, version 0.7.3.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmie_tasks.answers.placement import (
    Segment,
    cut_at,
    image_of,
    is_one_path,
    looks_like_image,
    marked,
    woven,
)
from mmie_tasks.answers.saved import encodable, failure_of

# Objects that a model wrote as text: JSON, or what Python prints of an object.

_MAX_REPR_CHARACTERS = 4_000_000
_MAX_REPR_TOKENS = 20_000
_MAX_REPR_DEPTH = 20
# Only what `repr` writes of plain objects. `ast.literal_eval` would take more, among it texts that
# exhaust Python's parser (thousands of minus signs) or make it warn (unknown escapes).
_REPR_TOKEN = re.compile(
    r"""
    \s+ | [\[\](){},:]
    | (?:None|True|False)\b
    | -?\d{1,40}(?:\.\d{1,40})?(?:e[+-]?\d{1,3})?(?![\w.])
    | b?'[^'\\\n]*(?:\\[\\'"nrtxuU][^'\\\n]*)*'
    | b?"[^"\\\n]*(?:\\[\\'"nrtxuU][^"\\\n]*)*"
    """,
    re.VERBOSE,
)
# What was in front of a text whose head was cut off with its thinking.
_JSON_HEADS = ('{"text": "', '[{"text": "', '{"content": [{"text": "')
_REPR_HEADS = ("{'text': '", "('")


def objects_in(text: str) -> Iterator[tuple[str, object]]:
    """Every object the whole text may stand for, the likeliest first, with how it is written.

    ``json``, ``repr`` (``str`` of an object; ``lmms_eval/api/instance.py`` makes it of what it
    does not know), and ``beheaded``: its beginning was cut off with the thinking in it. A code
    fence around everything is taken away.
    """
    body = _unfenced(text.strip())
    if body[:1] in {"{", "["}:
        yield from _parsed("json", body)
    if body[:1] in {"{", "[", "("}:
        yield from _evaluated("repr", body)
    if body[-1:] in {"}", "]"}:
        for head in _JSON_HEADS:
            yield from _parsed("beheaded", head + body)
    if body[-1:] in {"}", ")"}:
        for head in _REPR_HEADS:
            yield from _evaluated("beheaded", head + body)


def _unfenced(text: str) -> str:
    first, _, rest = text.partition("\n")
    if first.startswith("```") and rest.endswith("```"):
        return rest[:-3].strip()
    return text


def _parsed(source: str, text: str) -> Iterator[tuple[str, object]]:
    try:
        value = json.loads(text, strict=False)  # models write line breaks into strings
    except (ValueError, RecursionError):
        return
    yield source, value


def _evaluated(source: str, text: str) -> Iterator[tuple[str, object]]:
    if not _is_repr(text):
        return
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return
    yield source, value


def _is_repr(text: str) -> bool:
    """Whether the text is made of the signs `repr` uses, few and not deeply nested."""
    if len(text) > _MAX_REPR_CHARACTERS:
        return False
    at, depth = 0, 0
    for _ in range(_MAX_REPR_TOKENS):
        token = _REPR_TOKEN.match(text, at)
        if token is None:
            return False
        depth += (text[at] in "[({") - (text[at] in "])}")
        at = token.end()
        if depth > _MAX_REPR_DEPTH:
            return False
        if at == len(text):
            return True
    return False


# An answer that is a plain string: words, a path, words with markdown images.

# ``models/simple/qwen_image_edit.py`` of lmms-eval 0.7.3 answers so.
_SAVED_TO = re.compile(r"\s*(?:generated )?image saved to:[ \t]*(\S[^\n]*?)\s*", re.IGNORECASE)
_VIDEO_ENDINGS = (".mp4", ".webm", ".mov", ".avi", ".mkv")


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A plain string, read; `failure` says why it is no answer."""

    segments: tuple[Segment, ...]
    shape: str
    failure: str = ""


def in_words(text: str, is_folder: Callable[[str], bool]) -> Words:
    """Read a string that stands for no object.

    Words alone are kept to the letter: white space, escapes and placeholders included.

    >>> in_words("see ![a cup](out/1.png) here", lambda _: False).segments[1].image
    'out/1.png'
    """
    if saved := _SAVED_TO.fullmatch(text):
        return Words(segments=(Segment(image=saved[1]),), shape="saved to")
    if path := _path(text, is_folder):
        return path
    images = [mark for mark in marked(text) if _is_target(mark[2])]
    if images:
        return Words(segments=cut_at(text, images), shape="markdown")
    return Words(segments=(Segment(text=text),), shape="text")


def _path(text: str, is_folder: Callable[[str], bool]) -> Words | None:
    bare = text.strip()
    if bare.startswith("data:image/") and looks_like_image(bare) and ";base64," in bare[:64]:
        return Words(segments=(Segment(image=bare),), shape="data uri")
    # Without a slash it may be a word; `a.png` may be what was asked for.
    if not is_one_path(bare) or not ("/" in bare or "\\" in bare):
        return None
    if looks_like_image(bare):
        return Words(segments=(Segment(image=bare),), shape="path")
    if bare.lower().endswith(_VIDEO_ENDINGS):
        return Words(segments=(), shape="video", failure="a video in the place of an answer")
    if bare.strip("/\\.") and is_folder(bare):
        return Words(segments=(Segment(image=bare),), shape="folder")
    return None


def _is_target(target: str) -> bool:
    """A link that ends like an image; others may be anything."""
    bare = target.partition("?")[0].partition("#")[0]
    return looks_like_image(target) or looks_like_image(bare)


# Thinking in front of an answer, which no judge may see.
#
# The runner strips ``<think>`` and ``<analysis>`` from the raw string (``api/reasoning.py`` of
# lmms-eval 0.7.3) and so may behead a JSON answer; MMIE's tasks switch that off, and the same tags
# are removed here, inside the texts of an answer. Beyond the runner: nested tags, other cases of
# letters, an opening tag that is never closed, thinking that goes over several parts.

_TAG = re.compile(r"<(/?)(?:think|analysis)>", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is left of a text.

    Attributes:
        text: Without thinking; without white space at its ends where thinking was removed.
        removed: Whether there was any.
        begins_inside: The first tag is a closing one: the text began in thinking.
        ends_inside: The text ended in thinking.
    """

    text: str
    removed: bool = False
    begins_inside: bool = False
    ends_inside: bool = False


def without_thinking(text: str) -> Kept:
    """The text without what stands between the tags.

    A closing tag without an opening one makes everything before it thinking; an opening tag
    without any closing one, everything behind it. Of tags that do not pair up, the last closing
    one ends the thinking: a model may well name the tag while it thinks.

    >>> without_thinking("<think>Hm.</think>It is red.").text
    'It is red.'
    >>> without_thinking("Hm.</think> It is red. <think>But").text
    'It is red.'
    """
    tags = list(_TAG.finditer(text))
    if not tags:
        return Kept(text=text)
    kept: list[str] = []
    depth, at, closed = 0, 0, True
    for tag in tags:
        is_closing = bool(tag[1])
        if is_closing and not depth:
            kept.clear()
        elif not is_closing and not depth:
            kept.append(text[at : tag.start()])
        closed = is_closing or (closed and depth > 0)
        depth = max(depth - 1, 0) if is_closing else depth + 1
        at = tag.end() if is_closing else at
    if closed:
        kept.append(_TAG.split(text[at:], maxsplit=1)[0])  # behind the last closing tag
    left = "".join(kept).strip()
    return Kept(text=left, removed=True, begins_inside=bool(tags[0][1]), ends_inside=not closed)


def segments_without_thinking(segments: Sequence[Segment]) -> tuple[tuple[Segment, ...], bool]:
    """The segments without thinking in their texts, and whether there was any.

    Each text is read by itself. Where one ends in thinking and a later one begins in it, the
    texts between are thinking as well; images stay.
    """
    left = list(segments)
    opened_at: int | None = None
    removed = False
    for i, segment in enumerate(segments):
        kept = without_thinking(segment.text or "")
        if not kept.removed:
            continue
        if kept.begins_inside and opened_at is not None:
            for between in range(opened_at + 1, i):
                left[between] = replace(left[between], text=None)
        left[i] = replace(segment, text=kept.text or None)
        opened_at = i if kept.ends_inside else None
        removed = True
    return tuple(left), removed


# Objects that hold an answer: which there are, and how each becomes segments.
#
# * ``{"content": [part, ...]}``, also ``segments``, ``messages``, ``interleaved`` and ``output``
# * ``[part, ...]``: nothing but parts, else it is no answer
# * ``{"text": "...", "images": [...]}`` and the pair ``("...", [...])``: see `places`
# * a part: ``{"text", "image"}`` as in MMIE's ``data.json``; ``{"type": "text", "text"}`` and
#   ``{"type": "image", "path"}`` in the spellings of OpenAI and Anthropic; a message with a role and
#   ``content``; ``{"text", "images"}``; a string, which is a reference to an image or a text
#
# Texts of parts are kept as they are. What somebody else said (``"role": "user"``) is left out.

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


_SILENT = ("empty", "only thinking")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An answer, or why there is none.

    Attributes:
        segments: In order. None where there is no answer; an empty answer is one, and may have
            some that say nothing.
        shape: How the answer was written, for counts and logs: ``json:content``, ``text``. Of one
            that says nothing, ``empty`` or ``only thinking``.
        failure: Why there is no answer, in words; empty where there is one.
        thinking_removed: Whether thinking was taken out.
        places_left: How many places for images found none and stayed in the text.
    """

    segments: tuple[Segment, ...]
    shape: str
    failure: str = ""
    thinking_removed: bool = False
    places_left: int = 0


def read(results: Sequence[object], is_folder: Callable[[str], bool] | None = None) -> Reading:
    """Read what lmms-eval hands to ``process_results``. Raises nothing, whatever comes.

    Several results are rounds: each is read by itself, one after the other. Nothing is opened; a
    folder is recognised by asking.

    Args:
        results: One or more texts or objects of one sample.
        is_folder: Whether a path names a folder; by default, as seen from the working directory.

    >>> for segment in read(['{"text": "Cut. <image> Fold.", "images": ["a.png"]}']).segments:
    ...     print(segment.text or segment.image)
    Cut.
    a.png
    Fold.
    """
    is_there = is_folder or _is_folder
    rounds = [results] if isinstance(results, str) else list(results)
    if len(rounds) == 1:
        rounds = _texts(rounds[0]) or rounds
    if reason := failure_of([one for one in rounds if isinstance(one, str)]):
        return _nothing("sentinel", reason)
    readings = [_read_one(one, is_there) for one in rounds]
    if len(readings) == 1:
        return readings[0]
    thinking = any(one.thinking_removed for one in readings)
    said = [one for one in readings if one.shape not in _SILENT]
    segments = tuple(segment for one in said for segment in one.segments)
    if all(one.failure for one in readings):
        failures = (one.failure for one in readings)
        return _nothing("rounds", next(failures, "no result"))
    places = sum(one.places_left for one in readings)
    return Reading(segments=segments, shape="rounds", thinking_removed=thinking, places_left=places)


def _texts(value: object) -> list[object]:
    """The texts of a list in the place of one result; a tuple may be a text and its image."""
    is_rounds = isinstance(value, list) and all(isinstance(one, str) for one in value)
    return list(value) if is_rounds and isinstance(value, list) else []


def _read_one(value: object, is_folder: Callable[[str], bool]) -> Reading:
    if value is None:
        return _nothing("null", "null")
    if not isinstance(value, str):
        if not value and isinstance(value, (list, tuple, dict)):
            return Reading(segments=(), shape="empty")
        found = shaped(value)
        return _finished(found, "object") if found else _nothing("not text", "not text")
    text = encodable(value)
    if reading := _as_object(text):
        return reading
    kept = without_thinking(text)
    reading = (kept.removed and _as_object(kept.text)) or _in_words(kept.text, is_folder)
    if kept.removed and reading.shape == "empty":
        return Reading(segments=(), shape="only thinking", thinking_removed=True)
    return replace(reading, thinking_removed=reading.thinking_removed or kept.removed)


def _as_object(text: str) -> Reading | None:
    for source, value in objects_in(text):
        if found := shaped(value):
            return _finished(found, source)
    return None


def _in_words(text: str, is_folder: Callable[[str], bool]) -> Reading:
    if not text.strip():
        return Reading(segments=(Segment(text),), shape="empty")
    words = in_words(text, is_folder)
    if words.failure:
        return _nothing(words.shape, words.failure)
    return Reading(segments=words.segments, shape=words.shape)


def _finished(found: Shaped, source: str) -> Reading:
    """Without thinking, in characters that can be written."""
    segments, removed = segments_without_thinking(found.segments)
    thinking = removed or found.thinking_removed
    segments = tuple(map(_writable, segments))
    shape = f"{source}:{found.name}"
    texts = [one.text for one in segments if one.text and one.text.strip()]
    has_image = any(one.image for one in segments)
    if not has_image and not texts:
        shape = _SILENT[thinking]
    elif not has_image and (reason := failure_of(texts[0])):
        return _nothing(shape, reason)
    return Reading(
        segments=segments, shape=shape, thinking_removed=thinking, places_left=found.places_left
    )


def _writable(segment: Segment) -> Segment:
    return Segment(
        text=None if segment.text is None else encodable(segment.text),
        image=None if segment.image is None else encodable(segment.image),
    )


def _nothing(shape: str, failure: str) -> Reading:
    return Reading(segments=(), shape=shape, failure=failure)


def _is_folder(path: str) -> bool:
    try:
        return Path(path).expanduser().is_dir()
    except (OSError, ValueError, RuntimeError):  # too long, a NUL, no home
        return False
