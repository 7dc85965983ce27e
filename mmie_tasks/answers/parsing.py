"""Parse what the tested model returned, in any shape, into ordered segments of text and images.

Shapes: the table in ``README.md`` beside this file, which the tests write. What the runner makes of
a model's return value before it comes here: ``unwrap_generation_output`` in
``lmms_eval/api/instance.py``, version 0.7.3.

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

import ast
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from mmie_tasks.answers.drawn import DrawnAnswer, read_drawn_answer
from mmie_tasks.answers.segments import (
    ParsedAnswer,
    Segment,
    image_key,
    image_reference,
    image_spans,
    interleave_segments,
    is_image_reference,
    is_single_path,
    segments_without_thinking,
    split_at_images,
    strip_thinking,
)
from mmie_tasks.core.messages import replace_surrogates

MISSING = "[PREDICTIONS_MISSING]"
"""Stands for the answer of a sample without a saved answer, or with null."""

NOT_TEXT = "[PREDICTIONS_NOT_TEXT]"
"""The saved answer is a number, a list or an object; its JSON follows."""

# Texts that replace an answer: two of this package, for saved answers, and those that lmms-eval
# 0.7.3 (``models/``, ``llm_judge/``) returns for failures as if they were answers.
_FAILURES = (
    (MISSING, "no saved answer"),
    (NOT_TEXT, "the saved answer is not text"),
    ("[LMMS_EVAL_REQUEST_FAILED", "the request to the tested model failed"),
    ("[LMMS_EVAL_BUDGET_EXCEEDED]", "the token budget was used up"),
    ("[GENERATION_FAILED]", "generation failed"),
    ("[ERROR]", "the tested model reported an error"),
    ("Error: can only concatenate str (not ", "the content of the server's reply was no text"),  # async_openai
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
_FENCE = re.compile(r"```[ \t]*\w*[ \t]*\n(.*?)```", re.DOTALL)

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

_NAME_CHARACTERS = 40  # of a key in counts
_EMPTY, _ONLY_THINKING = "empty", "only thinking"


def failure_of(answer: object) -> str | None:
    """Why this is no answer of the tested model; None if it is one.

    Only the beginning counts: an answer may quote such a text. Of several rounds, the first that
    failed gives the reason. Of ``--model interleaved``, the writer's answer counts.

    >>> failure_of("[LMMS_EVAL_REQUEST_FAILED after 3 retries] 503")
    'the request to the tested model failed'
    >>> failure_of("The log says [ERROR]") is None
    True
    """
    if isinstance(answer, (list, tuple)):
        rounds = (text for text in answer if isinstance(text, str))
        return next((reason for text in rounds if (reason := failure_of(text))), None)
    if not isinstance(answer, str):
        return None
    if (drawn := read_drawn_answer(answer)) and isinstance(drawn.answer, str):
        return failure_of(drawn.answer)
    start = answer.lstrip()
    return next((reason for text, reason in _FAILURES if start.startswith(text)), None)


def parse_answer(results: Sequence[object], is_folder: Callable[[str], bool] | None = None) -> ParsedAnswer:
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
    if len(rounds) == 1 and isinstance(text := rounds[0], str) and (drawn := read_drawn_answer(text)):
        return _parse_drawn(drawn, is_folder)
    if reason := failure_of(rounds):
        return ParsedAnswer(shape="sentinel", failure=reason)
    answers = [_parse_round(result, is_folder or _is_folder) for result in rounds]
    if len(answers) == 1:
        return answers[0]
    if all(answer.failure for answer in answers):
        failures = (answer.failure for answer in answers)
        return ParsedAnswer(shape="rounds", failure=next(failures, "no result"))
    joined = _joined("rounds", answers)
    failed = Counter(f"round: {answer.failure}" for answer in answers if answer.failure)
    return replace(joined, unread={**joined.unread, **failed})


def _parse_drawn(drawn: DrawnAnswer, is_folder: Callable[[str], bool] | None) -> ParsedAnswer:
    """Parse an answer of ``--model interleaved``; one that nothing was drawn to as the writer's text alone."""
    if isinstance(drawn.answer, str):
        return replace(parse_answer([drawn.answer], is_folder), drawing=drawn.facts)
    segments = tuple(
        Segment(text=part) if isinstance(part, str) else Segment(image=str(part.path), prompt=part.prompt)
        for part in drawn.answer
    )
    return replace(_finish(ParsedAnswer(segments=segments, shape="content"), "json"), drawing=drawn.facts)


def _joined(shape: str, answers: Sequence[ParsedAnswer]) -> ParsedAnswer:
    """Several answers as one, in order; those without content give no segments."""
    with_content = [answer for answer in answers if answer.shape not in (_EMPTY, _ONLY_THINKING)]
    return ParsedAnswer(
        segments=tuple(segment for answer in with_content for segment in answer.segments),
        shape=shape,
        thinking_removed=any(answer.thinking_removed for answer in answers),
        unfilled_placeholders=sum(answer.unfilled_placeholders for answer in answers),
        unread=dict(sum((Counter(answer.unread) for answer in answers), Counter[str]())),
    )


def _parse_round(result: object, is_folder: Callable[[str], bool]) -> ParsedAnswer:
    if result is None:
        return ParsedAnswer(shape="null", failure="null")
    if not isinstance(result, str):
        if not result and isinstance(result, (list, tuple, dict)):
            return ParsedAnswer(shape=_EMPTY)
        if answer := answer_of_object(result):
            return _finish(answer, "object")
        return ParsedAnswer(shape="not text", failure="not text")
    text = replace_surrogates(result)
    if parsed := _parse_object_text(text):
        return parsed
    stripped = strip_thinking(text)
    parsed = (
        (stripped.removed and _parse_object_text(stripped.text))
        or _parse_fences(stripped.text)
        or _parse_plain_text(stripped.text, is_folder)
    )
    if stripped.removed and parsed.shape == _EMPTY:
        return ParsedAnswer(shape=_ONLY_THINKING, thinking_removed=True)
    return replace(parsed, thinking_removed=parsed.thinking_removed or stripped.removed)


def _parse_object_text(text: str) -> ParsedAnswer | None:
    answers = ((answer_of_object(value), notation) for notation, value in _objects_in(text))
    return next((_finish(answer, notation) for answer, notation in answers if answer), None)


def _parse_fences(text: str) -> ParsedAnswer | None:
    """Parse prose around code fences with answers that have images; None without one."""
    answers, end = [], 0
    for fence in _FENCE.finditer(text):
        answer = _parse_object_text(fence[1])
        if answer and any(segment.image for segment in answer.segments):
            answers += [_prose(text[end : fence.start()]), answer]
            end = fence.end()
    return _joined("fence", [*answers, _prose(text[end:])]) if answers else None


def _finish(answer: ParsedAnswer, notation: str) -> ParsedAnswer:
    """The answer without thinking, in characters that can be written as UTF-8."""
    if answer.failure:
        return answer
    segments, removed = segments_without_thinking(answer.segments)
    thinking = removed or answer.thinking_removed
    segments = tuple(
        Segment(
            text=segment.text and replace_surrogates(segment.text),
            image=segment.image and replace_surrogates(segment.image),
            prompt=segment.prompt and replace_surrogates(segment.prompt),
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
    unread: Counter[str] = Counter()
    for name, count in answer.unread.items():
        unread[replace_surrogates(name)[:_NAME_CHARACTERS]] += count
    return replace(answer, segments=segments, shape=shape, thinking_removed=thinking, unread=dict(unread))


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
    prose = _prose(text)
    return replace(prose, segments=(Segment(text),)) if prose.shape == "text" else prose


def _prose(text: str) -> ParsedAnswer:
    """A text split at its markdown images; without white space at its ends."""
    spans = [
        span
        for span in image_spans(text)
        if is_image_reference(span.reference) or is_image_reference(re.split("[?#]", span.reference, maxsplit=1)[0])
    ]
    shape = "markdown" if spans else "text"
    return ParsedAnswer(segments=split_at_images(text, spans), shape=shape)


def _parse_path(text: str, is_folder: Callable[[str], bool]) -> ParsedAnswer | None:
    image = (Segment(image=image_reference(text)),)
    if image[0].image != text:
        return ParsedAnswer(segments=image, shape="base64")
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


# Objects, of whatever notation.


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
