"""The fields of a sample log's line, for the rooms that read it: a stranger may have written it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias, get_args

from mmie_tasks.core.verdict import Scored, Unscored, UnscoredReason, Verdict
from mmie_tasks.judges.base import JudgeReply, Usage
from mmie_tasks.judging.session import JudgeResult
from mmie_tasks.runs.benchmark import BadRecord, Line, LoggedSegment

Record: TypeAlias = Mapping[str, object]

PLACE = "<image>"
"""Where an image stands in a logged question, unless the model's wrapper wants another mark."""

NOT_LOGGED = "not in this log"

_REASONS: tuple[str, ...] = get_args(UnscoredReason)


def record_of(line: Line) -> Record:
    """What our tasks log of a sample.

    Raises:
        BadRecord: There is none.
    """
    record = line.get("coverage")
    if not isinstance(record, Mapping):
        raise BadRecord("there is no record under `coverage`: no scored sample of ours")
    return record


def text(record: Record, name: str) -> str:
    """A text that must be there, and not be empty.

    Raises:
        BadRecord: It is not.
    """
    value = record.get(name)
    if not isinstance(value, str) or not value:
        raise BadRecord(f"`{name}` is {_shown(value)}, not a text")
    return value


def optional_text(record: Record, name: str) -> str:
    """A text; empty where it is absent or null.

    Raises:
        BadRecord: It is something else.
    """
    value = record.get(name)
    if value is not None and not isinstance(value, str):
        raise BadRecord(f"`{name}` is {_shown(value)}, not a text")
    return value or ""


def texts(record: Record, name: str) -> tuple[str, ...] | None:
    """A list of texts; None where it is absent or null, as in logs of older versions.

    Raises:
        BadRecord: It is something else.
    """
    value = record.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise BadRecord(f"`{name}` is {_shown(value)}, not a list of texts")
    return tuple(value)


def mapping(record: Record, name: str) -> Record:
    """An object; empty where it is absent or null.

    Raises:
        BadRecord: It is something else.
    """
    value = record.get(name)
    if value is not None and not isinstance(value, Mapping):
        raise BadRecord(f"`{name}` is {_shown(value)}, not an object")
    return value or {}


def number(value: object) -> float | None:
    """A finite number; None for everything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # JSON has whole numbers of any length
        return None


def verdict(record: Record, name: str, full_marks: float = math.inf) -> Verdict:
    """The verdict of a reading, on the scale it was logged in; NaN for points that are not on it.

    Args:
        record: What was logged.
        name: Of the reading.
        full_marks: Points below 0 or above are not on the scale; infinite for a benchmark whose
            official script clamps nothing.

    Raises:
        BadRecord: There is none.
    """
    row = mapping(record, name)
    points = row.get("points", row.get("score"))
    if isinstance(points, (int, float)) and not isinstance(points, bool):
        return Scored(_on_scale(points, full_marks), optional_text(row, "reading"))
    reason = row.get("unscored")
    if reason not in _REASONS:
        raise BadRecord(f"`{name}` has neither points nor a known reason why not")
    return Unscored(reason, optional_text(row, "detail"))  # type: ignore[arg-type]  # known


def _on_scale(points: float, full_marks: float) -> float:
    known = number(points)
    clamped = math.isfinite(full_marks)
    if known is None or (clamped and not 0 <= known <= full_marks):
        return math.nan
    return known


def replies(record: Record) -> tuple[JudgeReply, ...] | None:
    """The judge's replies, the last one last; None where the log does not hold them whole.

    Raises:
        BadRecord: They are no list.
    """
    value = record.get("replies")
    if value is None:
        return None
    if not isinstance(value, list):
        raise BadRecord(f"`replies` is {_shown(value)}, not a list")
    found = [_reply(each) for each in value]
    whole = [reply for reply in found if reply is not None]
    return tuple(whole) if len(whole) == len(found) else None


def _reply(value: object) -> JudgeReply | None:
    if not isinstance(value, Mapping) or not isinstance(said := value.get("text"), str):
        return None
    model, usage = value.get("model"), value.get("usage")
    return JudgeReply(
        text=said,
        model=model if isinstance(model, str) else "",
        usage=_usage(usage if isinstance(usage, Mapping) else {}),
        finish="length" if value.get("finish") == "length" else "stop",
        cached=value.get("cached") is True,
    )


def _usage(value: Record) -> Usage:
    counts = {
        name: int(number(value.get(name)) or 0)
        for name in ("input_tokens", "output_tokens", "reasoning_tokens")
    }
    return Usage(**counts, cost_usd=number(value.get("cost_usd")))


def judged(found: Sequence[JudgeReply]) -> JudgeResult:
    """What came of a question, as it was before it was logged.

    Args:
        found: One reply or two.
    """
    return JudgeResult(reply=found[0], second_reply=found[1] if len(found) > 1 else None)


def answer(line: Line) -> str:
    """What the tested model said; of several rounds, all of them.

    Raises:
        BadRecord: It is no text.
    """
    value = line.get("filtered_resps")
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return "\n".join(value)
    return optional_text(line, "filtered_resps")


def segments(record: Record, name: str) -> tuple[LoggedSegment, ...] | None:
    """Text and images in order, as a record holds them; None where it has none.

    Raises:
        BadRecord: They are something else.
    """
    value = record.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise BadRecord(f"`{name}` is {_shown(value)}, not a list of text and images")
    return tuple(
        LoggedSegment(
            text=optional_text(each, "text"),
            image=optional_text(each, "image") or None,
            problem=optional_text(each, "problem"),
        )
        for each in value
    )


def asked(line: Line, images: Sequence[str] | None) -> tuple[LoggedSegment, ...]:
    """A question, from its text and its images.

    Args:
        line: Holds the text under ``input``, with `PLACE` where an image stands.
        images: The files in order; None where nobody knows. Where there are not as many as places
            (a text may say `PLACE` itself), all stand after the text.

    Raises:
        BadRecord: ``input`` is no text.
    """
    said = optional_text(line, "input")
    *before, last = said.split(PLACE)
    if images is None:
        placed = [LoggedSegment(text=each, problem=NOT_LOGGED) for each in before]
    elif len(images) == len(before):
        placed = [LoggedSegment(text=t, image=i) for t, i in zip(before, images, strict=True)]
    else:
        return (*_text(said), *(LoggedSegment(image=image) for image in images))
    return (*placed, *_text(last))


def _text(said: str) -> tuple[LoggedSegment, ...]:
    return (LoggedSegment(text=said),) if said else ()


def _shown(value: object) -> str:
    return "missing" if value is None else type(value).__name__
