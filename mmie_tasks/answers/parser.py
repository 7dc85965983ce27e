"""Parses what the tested model returned into ordered segments of text and images.

A text is taken unchanged unless it has one of the documented shapes (``README.md``). Before it
comes here, the runner unwraps a model's return value (``unwrap_generation_output`` in
``lmms_eval/api/instance.py``, version 0.7.3).
Objects are read by `mmie_tasks.answers.objects`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from mmie_tasks.answers.drawn import read_drawn_answer
from mmie_tasks.answers.failures import failure_of
from mmie_tasks.answers.objects import VIDEO, answer_of_object
from mmie_tasks.answers.parsed_answer import Kind, Notation, ParsedAnswer, joined
from mmie_tasks.answers.placeholders import ImageSpan, split_at_images
from mmie_tasks.answers.references import is_image_reference, is_single_path
from mmie_tasks.answers.thinking import segments_without_thinking, strip_thinking
from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.record.segment import Segment

# ``models/simple/qwen_image_edit.py`` of lmms-eval 0.7.3 answers so.
_SAVED_TO = re.compile(r"Generated image saved to: (\S[^\n]*)")
_VIDEO_SUFFIXES = (".mp4", ".webm", ".mov", ".avi", ".mkv")

# Every repetition is bounded, so that no text makes the search slow.
_MARKUP = re.compile(
    r"""
    (?P<code>```.*?```|`[^`\n]*`)
    | !\[[^\]\n]{0,300}\]\(\s*
      (?:<(?P<angled>[^<>\n]{1,1024})>
        |(?P<data>data:image/[\w.+-]{1,20};base64,[A-Za-z0-9+/=]+)
        |(?P<bare>(?:[^()\s]|\([^()\s]{0,300}\)){1,1024}))
      (?:\s+(?:"[^"\n]{0,300}"|'[^'\n]{0,300}'))?\s*\)
    | (?P<uri>data:image/[\w.+-]{1,20};base64,[A-Za-z0-9+/]{80,}={0,2})
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)

_NAME_CHARACTERS = 40  # the length of a key in counts


def parse_answer(
    results: Sequence[object], is_folder: Callable[[str], bool] = lambda _: False
) -> ParsedAnswer:
    """Parse the results that lmms-eval passes to ``process_results``. Never raises.

    Several results are rounds, which are parsed one by one. No file is opened; `is_folder` tells
    whether a path is a folder.

    >>> answer = parse_answer(['{"text": "Cut. <image> Fold.", "images": ["a.png"]}'])
    >>> for segment in answer.segments:
    ...     print(segment.text or segment.image)
    Cut.
    a.png
    Fold.
    """
    rounds = [results] if isinstance(results, str) else list(results)
    if len(rounds) == 1 and isinstance(texts := rounds[0], list) and texts:
        # A list of texts as one result; a tuple may be a text and its image.
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
    # A round without content adds no segment.
    parts = [replace(answer, segments=()) if answer.is_empty else answer for answer in answers]
    rounds_joined = joined("rounds", parts)
    failed = Counter(f"round: {answer.failure}" for answer in answers if answer.failure)
    return replace(rounds_joined, unread={**rounds_joined.unread, **failed})


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
    parsed = _parse_object_text(stripped.text) if stripped.removed else None
    parsed = parsed or _parse_plain_text(stripped.text, is_folder)
    if stripped.removed and parsed.kind == "empty":
        return ParsedAnswer(kind="only thinking", thinking_removed=True)
    return replace(parsed, thinking_removed=parsed.thinking_removed or stripped.removed)


def _parse_object_text(text: str) -> ParsedAnswer | None:
    """Parse the JSON of an object or list with an answer; None for other texts."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    value = None
    with suppress(ValueError, RecursionError):
        value = json.loads(text)
    answer = answer_of_object(value)
    return answer and _finish(answer, "json")


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


# Plain text: prose, a folder, prose with images


def _parse_plain_text(text: str, is_folder: Callable[[str], bool]) -> ParsedAnswer:
    """Parse a text that is not an object; prose stays unchanged."""
    if not text.strip():
        return ParsedAnswer(segments=(Segment(text),), kind="empty")
    if match := _SAVED_TO.fullmatch(text.strip()):
        return ParsedAnswer(segments=(Segment(image=match[1]),), kind="saved to")
    return _parse_path(text.strip(), is_folder) or _prose(text)


def _parse_path(text: str, is_folder: Callable[[str], bool]) -> ParsedAnswer | None:
    """The folder of images that `wan2_1_t2i` answers with, or a failure for a video."""
    # Without a slash it may be a word.
    if not is_single_path(text) or not ("/" in text or "\\" in text):
        return None
    if text.lower().endswith(_VIDEO_SUFFIXES):
        return ParsedAnswer(kind="video", failure=VIDEO)
    if text.strip("/\\.") and is_folder(text):
        return ParsedAnswer(segments=(Segment(image=text),), kind="folder")
    return None


def _prose(text: str) -> ParsedAnswer:
    """A text split at its markdown images and data URIs outside code."""
    spans = []
    if "![" in text or "data:image/" in text:
        for match in _MARKUP.finditer(text):
            references = filter(None, match.group("angled", "data", "bare", "uri"))
            if (reference := next(references, "")) and _is_image(reference):
                spans.append(ImageSpan(match.start(), match.end(), reference))
    if not spans:
        return ParsedAnswer(segments=(Segment(text),), kind="text")
    return ParsedAnswer(segments=split_at_images(text, spans), kind="markdown")


def _is_image(reference: str) -> bool:
    return any(map(is_image_reference, (reference, re.split("[?#]", reference, maxsplit=1)[0])))
