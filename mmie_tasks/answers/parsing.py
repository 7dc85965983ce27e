"""Parse what the tested model returned, in any shape, into ordered segments of text and images.

Shapes: the table in ``README.md`` beside this file, which ``make pages`` writes. What the
runner makes of a model's return value before it comes here: ``unwrap_generation_output`` in
``lmms_eval/api/instance.py``, version 0.7.3. Objects that hold an answer:
`mmie_tasks.answers.objects`.

In prose, every whole JSON value that is such an answer is read, and the prose around it stays in
its place. Of a list that breaks off, or an object with such a list, the whole parts are read.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from mmie_tasks.answers.drawn import read_drawn_answer
from mmie_tasks.answers.failures import failure_of
from mmie_tasks.answers.json_values import JSON, json_value
from mmie_tasks.answers.objects import PARTS_KEYS, VIDEO, answer_of_object
from mmie_tasks.answers.parsed_answer import Kind, Notation, ParsedAnswer, joined
from mmie_tasks.answers.placeholders import image_spans, split_at_images
from mmie_tasks.answers.references import image_reference, is_image_reference, is_single_path
from mmie_tasks.answers.thinking import segments_without_thinking, strip_thinking
from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.record.segment import Segment

_MAX_REPR_CHARACTERS = 4_000_000  # with the data URIs of images
_MAX_REPR_MARKS = 20_000
# ``models/simple/qwen_image_edit.py`` of lmms-eval 0.7.3 answers so.
_SAVED_TO = re.compile(r"(?:generated )?image saved to:[ \t]*(\S[^\n]*)", re.IGNORECASE)
_VIDEO_SUFFIXES = (".mp4", ".webm", ".mov", ".avi", ".mkv")

# The beginning of JSON, perhaps after that of a code fence; or any other code.
_JSON_OR_CODE = re.compile(
    r"""
    (?P<fence>```[ \t]*(?:\w{1,20}[ \t]*)?\n\s*)? (?P<json>\{\s*"|\[\s*["{])
    | ```[ \t]*(?:\w{1,20}[ \t]*)?\n .*? ```
    | `[^`\n]+`
    """,
    re.VERBOSE | re.DOTALL,
)
_FENCE_END = re.compile(r"\s*```")
_NO_BRACKET = re.compile(r"[^\s,\[\]{}]")
_MAX_EMBEDDED = 1_000  # for each that is broken, `json` counts the lines before

_NAME_CHARACTERS = 40  # of a key in counts


def parse_answer(
    results: Sequence[object], is_folder: Callable[[str], bool] = lambda _: False
) -> ParsedAnswer:
    """Parse the results that lmms-eval passes to ``process_results``. Never raises.

    Several results are rounds: each is parsed by itself, one after the other. No file is opened.

    Args:
        results: One or more texts or objects of one sample.
        is_folder: Whether a path names a folder; by default none does.

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
    match rounds:
        case [str(text)] if drawn := read_drawn_answer(text):
            if isinstance(drawn.answer, str):  # nothing was drawn to the writer's text
                return replace(parse_answer([drawn.answer], is_folder), drawing=drawn.facts)
            answer = ParsedAnswer(segments=drawn.answer, kind="content")
            return replace(_finish(answer, "json"), drawing=drawn.facts)
    if reason := failure_of(rounds):
        return ParsedAnswer(kind="sentinel", failure=reason)
    answers = [_parse_round(result, is_folder) for result in rounds]
    if len(answers) == 1:
        return answers[0]
    if all(answer.failure for answer in answers):
        failures = (answer.failure for answer in answers)
        return ParsedAnswer(kind="rounds", failure=next(failures, "no result"))
    rounds_joined = joined("rounds", _with_content(answers))
    failed = Counter(f"round: {answer.failure}" for answer in answers if answer.failure)
    return replace(rounds_joined, unread={**rounds_joined.unread, **failed})


def _with_content(answers: Sequence[ParsedAnswer]) -> list[ParsedAnswer]:
    """The answers; of those without content no segments."""
    return [replace(answer, segments=()) if answer.is_empty else answer for answer in answers]


def _parse_round(result: object, is_folder: Callable[[str], bool]) -> ParsedAnswer:
    if result is None:
        return ParsedAnswer(kind="null", failure="null")
    if not isinstance(result, str):
        if isinstance(result, (list, tuple, dict)) and not result:
            return ParsedAnswer(kind="empty")
        if answer := answer_of_object(result):
            return _finish(answer, "object")
        return ParsedAnswer(kind="not text", failure="not text")
    text = replace_surrogates(result)
    if parsed := _parse_object_text(text):
        return parsed
    stripped = strip_thinking(text)
    parsed = (
        (stripped.removed and _parse_object_text(stripped.text))
        or _parse_embedded(stripped.text)
        or _parse_plain_text(stripped.text, is_folder)
    )
    if stripped.removed and parsed.kind == "empty":
        return ParsedAnswer(kind="only thinking", thinking_removed=True)
    return replace(parsed, thinking_removed=parsed.thinking_removed or stripped.removed)


def _parse_object_text(text: str) -> ParsedAnswer | None:
    """Parse a text that is an object; None for any other.

    As JSON, or as what Python prints (``lmms_eval/api/instance.py`` makes that of what it does not
    know). A code fence around the whole text is removed.
    """
    body = text.strip()
    first_line, _, fenced = body.partition("\n")
    if first_line.startswith("```") and fenced.endswith("```"):
        body = fenced[:-3].strip()
    notations: dict[Notation, tuple[str, Callable[[str], object]]] = {
        "json": ("{[", JSON.decode),
        "repr": ("{[(", _load_repr),
    }
    for notation, (brackets, load) in notations.items():
        value = None
        if body.startswith(tuple(brackets)):
            with suppress(ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
                value = load(body)
        if answer := answer_of_object(value):
            return _finish(answer, notation)
    return None


def _load_repr(text: str) -> object:
    """Evaluate what `repr` writes of plain objects, up to a size that takes no second."""
    if len(text) > _MAX_REPR_CHARACTERS or sum(map(text.count, ",+-*<~([{")) > _MAX_REPR_MARKS:
        raise ValueError("too large to be what a model's wrapper printed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes in prose that begins with a bracket
        return ast.literal_eval(text)


# Prose around JSON


def _parse_embedded(text: str) -> ParsedAnswer | None:
    """Parse prose around answers in JSON; None without one that has parts or images."""
    embedded = list(_embedded_answers(text))
    if not any(_has_parts_or_images(one.answer) for one in embedded):
        return None
    answers, end = [], 0
    for one in embedded:
        answers += [_prose_around(text[end : one.start]), one.answer]
        end = one.end
    kind: Kind = "fence" if any(one.is_fenced for one in embedded) else "embedded"
    return joined(kind, _with_content([*answers, _prose_around(text[end:])]))


def _prose_around(text: str) -> ParsedAnswer:
    """The prose beside an answer; brackets and commas alone are none."""
    return _prose(text if _NO_BRACKET.search(text) else "")


def _has_parts_or_images(answer: ParsedAnswer) -> bool:
    is_list = answer.kind in (*PARTS_KEYS, "parts")
    return is_list or any(segment.image for segment in answer.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Embedded:
    """An answer from ``start`` to ``end`` of a text, which include its code fence."""

    answer: ParsedAnswer
    start: int
    end: int
    is_fenced: bool


def _embedded_answers(text: str) -> Iterator[_Embedded]:
    """The answers in a text, in order; in time that grows with the length of the text.

    Nothing is read twice: after JSON that is broken, the search goes on where it broke.
    """
    position, in_fence = 0, False
    for _ in range(_MAX_EMBEDDED):
        if (match := _JSON_OR_CODE.search(text, position)) is None:
            return
        if match["json"] is None:
            position = match.end()
            continue
        value = json_value(text, match.start("json"))
        end = value.end
        is_fenced = in_fence = in_fence or match["fence"] is not None
        if in_fence and (fence_end := _FENCE_END.match(text, end)):
            end, in_fence = fence_end.end(), False
        position = max(end, value.resume)
        answer = answer_of_object(value.value)
        answer = answer and _finish(answer, "json")
        if answer and not answer.failure:
            if value.is_cut_off:
                answer = replace(answer, unread={**answer.unread, "cut off": 1})
            yield _Embedded(answer=answer, start=match.start(), end=end, is_fenced=is_fenced)


# Every answer


def _finish(answer: ParsedAnswer, notation: Notation) -> ParsedAnswer:
    """The answer without thinking, in characters that can be written as UTF-8."""
    if answer.failure:
        return answer
    segments, removed = segments_without_thinking(answer.segments)
    thinking = removed or answer.thinking_removed
    segments = tuple(
        Segment(
            text=segment.text and replace_surrogates(segment.text),
            image=segment.image and replace_surrogates(segment.image),
            prompt=replace_surrogates(segment.prompt),
        )
        for segment in segments
    )
    answer = replace(answer, notation=notation, segments=segments, thinking_removed=thinking)
    texts = [segment.text for segment in segments if segment.text and segment.text.strip()]
    if not any(segment.image for segment in segments):
        if not texts:
            kind: Kind = "only thinking" if thinking else "empty"
            answer = replace(answer, notation="", kind=kind)
        elif reason := failure_of(texts[0]):
            return ParsedAnswer(notation=notation, kind=answer.kind, failure=reason)
    unread: Counter[str] = Counter()
    for name, count in answer.unread.items():
        unread[replace_surrogates(name)[:_NAME_CHARACTERS]] += count
    return replace(answer, unread=dict(unread))


# Plain text: prose, a path, prose with markdown images.


def _parse_plain_text(text: str, is_folder: Callable[[str], bool]) -> ParsedAnswer:
    """Parse a string that is not an object; prose stays unchanged."""
    if not text.strip():
        return ParsedAnswer(segments=(Segment(text),), kind="empty")
    if match := _SAVED_TO.fullmatch(text.strip()):
        return ParsedAnswer(segments=(Segment(image=match[1]),), kind="saved to")
    if path := _parse_path(text.strip(), is_folder):
        return path
    prose = _prose(text)
    return replace(prose, segments=(Segment(text),)) if prose.kind == "text" else prose


def _prose(text: str) -> ParsedAnswer:
    """A text split at its markdown images; without white space at its ends."""
    spans = [
        span
        for span in image_spans(text)
        if is_image_reference(span.reference)
        or is_image_reference(re.split("[?#]", span.reference, maxsplit=1)[0])
    ]
    segments = split_at_images(text, spans)
    return ParsedAnswer(segments=segments, kind="markdown" if spans else "text")


def _parse_path(text: str, is_folder: Callable[[str], bool]) -> ParsedAnswer | None:
    image = (Segment(image=image_reference(text)),)
    if text.startswith("data:image/") and is_image_reference(text) and ";base64," in text[:64]:
        return ParsedAnswer(segments=image, kind="data uri")
    # Without a slash it may be a word: `a.png` can be the answer to a question.
    if not is_single_path(text) or not ("/" in text or "\\" in text):
        return None
    if is_image_reference(text):
        return ParsedAnswer(segments=image, kind="path")
    if text.lower().endswith(_VIDEO_SUFFIXES):
        return ParsedAnswer(kind="video", failure=VIDEO)
    if text.strip("/\\.") and is_folder(text):
        return ParsedAnswer(segments=image, kind="folder")
    return None
