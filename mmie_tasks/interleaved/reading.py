"""What the tested model returned, in any shape, as ordered segments of text and images.

Shapes: the table in ``README.md`` beside this file. What the runner makes of a model's return value
before it comes here: ``unwrap_generation_output`` in ``lmms_eval/api/instance.py``, version 0.7.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmie_tasks.answers.saved import encodable
from mmie_tasks.answers.sentinels import failure_of
from mmie_tasks.interleaved.parsing import objects_in
from mmie_tasks.interleaved.plain import in_words
from mmie_tasks.interleaved.segments import Segment
from mmie_tasks.interleaved.shapes import Shaped, shaped
from mmie_tasks.interleaved.thinking import segments_without_thinking, without_thinking

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
