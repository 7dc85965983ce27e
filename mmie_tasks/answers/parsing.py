"""Parse what the tested model returned, in any shape, into ordered segments of text and images.

Shapes: the table in ``README.md`` beside this file. What the runner makes of a model's return value
before it comes here: ``unwrap_generation_output`` in ``lmms_eval/api/instance.py``, version 0.7.3.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mmie_tasks.answers.saved import failure_of
from mmie_tasks.answers.segments import (
    Segment,
    image_reference,
    image_spans,
    interleave,
    is_image_reference,
    is_single_path,
    replace_surrogates,
    split_at_images,
)

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
# The beginnings that a text may have lost together with the thinking in it.
_JSON_HEADS = ('{"text": "', '[{"text": "', '{"content": [{"text": "')
_REPR_HEADS = ("{'text': '", "('")

# ``models/simple/qwen_image_edit.py`` of lmms-eval 0.7.3 answers so.
_SAVED_TO = re.compile(r"\s*(?:generated )?image saved to:[ \t]*(\S[^\n]*?)\s*", re.IGNORECASE)
_VIDEO_SUFFIXES = (".mp4", ".webm", ".mov", ".avi", ".mkv")
_THINKING_TAG = re.compile(r"<(/?)(?:think|analysis)>", re.IGNORECASE)

_WRAPPER_KEYS = ("content", "segments", "messages", "interleaved", "output")
_IMAGE_TYPES = frozenset(
    ("image", "image_url", "input_image", "output_image", "image_generation_call")
)
_PART_TYPES = _IMAGE_TYPES | {"text", "output_text", "input_text", "refusal"}
_THINKING_TYPES = frozenset(("thinking", "redacted_thinking", "reasoning"))
_OTHER_ROLES = ("user", "system", "developer", "tool", "human")  # compared with values of any type
_PAIR_KEYS = frozenset(("text", "image", "image_url"))
_MAX_DEPTH = 8

_EMPTY, _ONLY_THINKING = "empty", "only thinking"


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
    """

    segments: tuple[Segment, ...] = ()
    shape: str
    failure: str = ""
    thinking_removed: bool = False
    unfilled_placeholders: int = 0


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


def parse_answer(
    results: Sequence[object], is_folder: Callable[[str], bool] | None = None
) -> ParsedAnswer:
    """Parse the results that lmms-eval passes to ``process_results``. Never raises.

    Several results are rounds: each is parsed by itself, one after the other. No file is opened.

    Args:
        results: One or more texts or objects of one sample.
        is_folder: Whether a path names a folder; by default relative to the working directory.

    >>> answer = parse_answer(['{"text": "Cut. <image> Fold.", "images": ["a.png"]}'])
    >>> for segment in answer.segments:
    ...     print(segment.text or segment.image)
    Cut.
    a.png
    Fold.
    """
    rounds = [results] if isinstance(results, str) else list(results)
    if len(rounds) == 1 and isinstance(texts := rounds[0], list) and texts:
        # A list of texts in the place of one result; a tuple may be a text and its image.
        rounds = list(texts) if all(isinstance(text, str) for text in texts) else rounds
    if reason := failure_of(rounds):
        return ParsedAnswer(shape="sentinel", failure=reason)
    answers = [_parse_round(result, is_folder or _is_folder) for result in rounds]
    if len(answers) == 1:
        return answers[0]
    if all(answer.failure for answer in answers):
        failures = (answer.failure for answer in answers)
        return ParsedAnswer(shape="rounds", failure=next(failures, "no result"))
    with_content = [answer for answer in answers if answer.shape not in (_EMPTY, _ONLY_THINKING)]
    return ParsedAnswer(
        segments=tuple(segment for answer in with_content for segment in answer.segments),
        shape="rounds",
        thinking_removed=any(answer.thinking_removed for answer in answers),
        unfilled_placeholders=sum(answer.unfilled_placeholders for answer in answers),
    )


def strip_thinking(text: str) -> StrippedText:
    """Remove the text between thinking tags, which no judge may see.

    A closing tag without an opening one makes everything before it thinking; an opening tag
    without any closing one, everything after it. If tags do not pair up, the last closing tag
    ends the thinking: a model may mention the tag while it thinks.

    The runner strips ``<think>`` and ``<analysis>`` from the raw string (``api/reasoning.py`` of
    lmms-eval 0.7.3) and so may cut off the beginning of a JSON answer; MMIE's tasks switch that
    off, and the same tags are removed here, inside the texts of an answer. Beyond the runner:
    nested tags, tags in any case, an opening tag that is never closed.

    >>> strip_thinking("<think>Hm.</think>It is red.").text
    'It is red.'
    >>> strip_thinking("Hm.</think> It is red. <think>But").text
    'It is red.'
    """
    tags = list(_THINKING_TAG.finditer(text))
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
    if closed:
        parts.append(_THINKING_TAG.split(text[end:], maxsplit=1)[0])  # after the last closing tag
    return StrippedText(
        text="".join(parts).strip(),
        removed=True,
        starts_inside=bool(tags[0][1]),
        ends_inside=not closed,
    )


def _parse_round(result: object, is_folder: Callable[[str], bool]) -> ParsedAnswer:
    if result is None:
        return ParsedAnswer(shape="null", failure="null")
    if not isinstance(result, str):
        if not result and isinstance(result, (list, tuple, dict)):
            return ParsedAnswer(shape=_EMPTY)
        if answer := _answer_of_object(result):
            return _finish(answer, "object")
        return ParsedAnswer(shape="not text", failure="not text")
    text = replace_surrogates(result)
    if parsed := _parse_object_text(text):
        return parsed
    stripped = strip_thinking(text)
    parsed = (stripped.removed and _parse_object_text(stripped.text)) or _parse_plain_text(
        stripped.text, is_folder
    )
    if stripped.removed and parsed.shape == _EMPTY:
        return ParsedAnswer(shape=_ONLY_THINKING, thinking_removed=True)
    return replace(parsed, thinking_removed=parsed.thinking_removed or stripped.removed)


def _parse_object_text(text: str) -> ParsedAnswer | None:
    answers = ((_answer_of_object(value), notation) for notation, value in _objects_in(text))
    return next((_finish(answer, notation) for answer, notation in answers if answer), None)


def _finish(answer: ParsedAnswer, notation: str) -> ParsedAnswer:
    """The answer without thinking, in characters that can be written as UTF-8."""
    segments, removed = _segments_without_thinking(answer.segments)
    thinking = removed or answer.thinking_removed
    segments = tuple(
        Segment(
            text=segment.text and replace_surrogates(segment.text),
            image=segment.image and replace_surrogates(segment.image),
        )
        for segment in segments
    )
    shape = f"{notation}:{answer.shape}"
    texts = [segment.text for segment in segments if segment.text and segment.text.strip()]
    if not any(segment.image for segment in segments):
        if not texts:
            shape = _ONLY_THINKING if thinking else _EMPTY
        elif reason := failure_of(texts[0]):
            return ParsedAnswer(shape=shape, failure=reason)
    return replace(answer, segments=segments, shape=shape, thinking_removed=thinking)


def _segments_without_thinking(
    segments: Sequence[Segment],
) -> tuple[tuple[Segment, ...], bool]:
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


def _is_folder(path: str) -> bool:
    try:
        return Path(path).expanduser().is_dir()
    except (OSError, ValueError, RuntimeError):  # too long, a NUL, no home
        return False


# Plain text: prose, a path, prose with markdown images.


def _parse_plain_text(text: str, is_folder: Callable[[str], bool]) -> ParsedAnswer:
    """Parse a string that is not an object; prose stays unchanged."""
    if not text.strip():
        return ParsedAnswer(segments=(Segment(text),), shape=_EMPTY)
    if match := _SAVED_TO.fullmatch(text):
        return ParsedAnswer(segments=(Segment(image=match[1]),), shape="saved to")
    if path := _parse_path(text.strip(), is_folder):
        return path
    spans = [
        span
        for span in image_spans(text)
        if is_image_reference(span.reference)
        or is_image_reference(re.split("[?#]", span.reference, maxsplit=1)[0])
    ]
    if spans:
        return ParsedAnswer(segments=split_at_images(text, spans), shape="markdown")
    return ParsedAnswer(segments=(Segment(text=text),), shape="text")


def _parse_path(text: str, is_folder: Callable[[str], bool]) -> ParsedAnswer | None:
    image = (Segment(image=text),)
    if text.startswith("data:image/") and is_image_reference(text) and ";base64," in text[:64]:
        return ParsedAnswer(segments=image, shape="data uri")
    # Without a slash it may be a word: `a.png` can be the answer to a question.
    if not is_single_path(text) or not ("/" in text or "\\" in text):
        return None
    if is_image_reference(text):
        return ParsedAnswer(segments=image, shape="path")
    if text.lower().endswith(_VIDEO_SUFFIXES):
        return ParsedAnswer(shape="video", failure="a video in the place of an answer")
    if text.strip("/\\.") and is_folder(text):
        return ParsedAnswer(segments=image, shape="folder")
    return None


# Objects that a model wrote as text: JSON, or what Python prints of an object.


def _objects_in(text: str) -> Iterator[tuple[str, object]]:
    """Every object that the text may represent, the most likely first, with its notation.

    ``json``, ``repr`` (``str`` of an object; ``lmms_eval/api/instance.py`` makes it of what it
    does not know), and ``beheaded``: its beginning was cut off with the thinking in it. A code
    fence around the whole text is removed.
    """
    body = text.strip()
    first_line, _, fenced = body.partition("\n")
    if first_line.startswith("```") and fenced.endswith("```"):
        body = fenced[:-3].strip()
    load_json = partial(json.loads, strict=False)  # models write line breaks into strings
    start, end = body[:1], body[-1:]
    json_heads = _JSON_HEADS if end in {"}", "]"} else ()
    repr_heads = _REPR_HEADS if end in {"}", ")"} else ()
    candidates = [
        *([("json", load_json, body)] if start in {"{", "["} else ()),
        *([("repr", _load_repr, body)] if start in {"{", "[", "("} else ()),
        *(("beheaded", load_json, head + body) for head in json_heads),
        *(("beheaded", _load_repr, head + body) for head in repr_heads),
    ]
    for notation, load, candidate in candidates:
        with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            yield notation, load(candidate)


def _load_repr(text: str) -> object:
    """Evaluate a text of tokens that `repr` writes, few and not deeply nested."""
    position, depth = 0, 0
    for _ in range(_MAX_REPR_TOKENS if len(text) <= _MAX_REPR_CHARACTERS else 0):
        token = _REPR_TOKEN.match(text, position)
        if token is None:
            break
        depth += (text[position] in "[({") - (text[position] in "])}")
        position = token.end()
        if depth > _MAX_REPR_DEPTH:
            break
        if position == len(text):
            return ast.literal_eval(text)
    raise ValueError("not what `repr` writes")


# Objects that hold an answer:
#
# * ``{"content": [part, ...]}``, also ``segments``, ``messages``, ``interleaved`` and ``output``
# * ``[part, ...]``: a list of parts only
# * ``{"text": "...", "images": [...]}`` and the pair ``("...", [...])``: see `interleave`
# * a part: ``{"text", "image"}`` as in MMIE's ``data.json``; ``{"type": "text", "text"}`` and
#   ``{"type": "image", "path"}`` in the spellings of OpenAI and Anthropic; a message with a role
#   and ``content``; ``{"text", "images"}``; a string, which is an image reference or a text
#
# Texts of parts stay unchanged. Messages of other roles (``"role": "user"``) are left out.


def _answer_of_object(value: object) -> ParsedAnswer | None:
    """The answer an object holds; None if it has no shape that holds one.

    The shape is ``content`` (or another wrapper), ``parts``, ``part`` or ``text+images``.
    """
    if isinstance(value, Mapping):
        return None if value.get("role") in _OTHER_ROLES else _answer_of_mapping(value)
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes, bytearray)):
        return None
    match value:
        # A pair of a text and images is a list once it was JSON.
        case [str(text), list() | tuple() as images] if all(map(image_reference, images)):
            collector = _SegmentCollector()
            collector.add_text_with_images(text, images)
            return collector.answer("text+images")
    collector = _SegmentCollector(strict=True)
    only_texts = all(isinstance(part, str) and not is_image_reference(part) for part in value)
    if only_texts or not all(collector.add(part) for part in value):
        return None
    return collector.answer("parts")


def _answer_of_mapping(value: Mapping[object, object]) -> ParsedAnswer | None:
    for key in _WRAPPER_KEYS:
        parts = value.get(key)
        if not isinstance(parts, (list, tuple)):
            continue
        has_objects = any(isinstance(part, Mapping) for part in parts)
        collector = _SegmentCollector()
        # A program's JSON may have a key `output`; only objects in it make it an answer.
        if (key != "output" or has_objects) and (collector.add_any(parts) or not parts):
            return collector.answer(key)
    collector = _SegmentCollector(strict=True)
    shape = "text+images" if "images" in value else "part"
    return collector.answer(shape) if collector.add(value) else None


class _SegmentCollector:
    """Collects the segments of an object's parts.

    Args:
        strict: Whether an object may have only the keys of a part. In a wrapper, objects are
            parts; a bare object may be an answer that is itself JSON.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._segments: list[Segment] = []
        self._unfilled_placeholders = 0
        self._thinking_removed = False

    def answer(self, shape: str) -> ParsedAnswer:
        return ParsedAnswer(
            segments=tuple(self._segments),
            shape=shape,
            unfilled_placeholders=self._unfilled_placeholders,
            thinking_removed=self._thinking_removed,
        )

    def add_any(self, parts: Sequence[object], depth: int = 0) -> bool:
        """Add every valid part; False if there is none."""
        added = [self.add(part, depth) for part in parts]
        return any(added)

    def add(self, part: object, depth: int = 0) -> bool:
        """Add a part; False if the value is not a valid part."""
        if isinstance(part, str):
            is_image = is_image_reference(part)
            self._append(None if is_image else part, part if is_image else None)
            return True
        if depth > _MAX_DEPTH:
            return False
        if isinstance(part, (list, tuple)):
            return self.add_any(part, depth + 1)
        return isinstance(part, Mapping) and self._add_object(part, depth)

    def _add_object(self, part: Mapping[object, object], depth: int) -> bool:
        kind, content = part.get("type"), part.get("content")
        if part.get("role") in _OTHER_ROLES:
            return True
        if isinstance(kind, str) and kind in _THINKING_TYPES:
            self._thinking_removed = True
            return True
        if isinstance(content, (list, tuple)):
            return self.add_any(content, depth + 1)
        if isinstance(content, str) and "role" in part:
            return self.add(content, depth + 1)
        if "images" in part:
            return self.add_text_with_images(part.get("text"), part["images"])
        if not isinstance(kind, str):
            return self._add_untyped(part)
        if kind not in _PART_TYPES:
            return False
        text = part.get("refusal" if kind == "refusal" else "text")
        image = image_reference(part) if kind in _IMAGE_TYPES else None
        self._append(text if isinstance(text, str) else None, image)
        return True

    def add_text_with_images(self, text: object, images: object) -> bool:
        """Add a text and its images; thinking goes first, for it may have placeholders."""
        if images is None or isinstance(images, (str, Mapping)):
            images = [] if images is None else [images]
        if not isinstance(text, (str, type(None))) or not isinstance(images, (list, tuple)):
            return False
        stripped = strip_thinking(text or "")
        references = [reference for image in images if (reference := image_reference(image))]
        interleaved = interleave(stripped.text, references)
        self._segments.extend(interleaved.segments)
        self._unfilled_placeholders += interleaved.unfilled_placeholders
        self._thinking_removed |= stripped.removed
        return True

    def _add_untyped(self, part: Mapping[object, object]) -> bool:
        if not part.keys() & _PAIR_KEYS:
            reference = None if self._strict else image_reference(part)
            self._append(None, reference)
            return reference is not None
        if self._strict and part.keys() - _PAIR_KEYS:
            return False
        text, image = part.get("text"), part.get("image", part.get("image_url"))
        is_image = image is None or isinstance(image, (str, bytes, Mapping))
        if not is_image or not isinstance(text, (str, type(None))):
            return False
        self._segments.append(Segment(text=text, image=image_reference(image)))  # even if empty
        return True

    def _append(self, text: str | None, image: str | None) -> None:
        if text is not None or image is not None:
            self._segments.append(Segment(text=text, image=image))
