"""Reads the fields of one sample log line. Logs are untrusted: any field may have any type."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TypeVar, get_args

from mmie_tasks.core.verdict import (
    NO_PROBABILITIES,
    Scored,
    Unscored,
    UnscoredReason,
    Verdict,
    Verdicts,
)
from mmie_tasks.record.expected import ExpectedScore
from mmie_tasks.record.panel import Judged, MemberResult, Panel, Rule, combine
from mmie_tasks.record.reply import DigitToken, JudgeReply, JudgeResult, Usage, read_digits
from mmie_tasks.record.sample import BadRecord, Line, LoggedSample, Record
from mmie_tasks.record.segment import LoggedSegment, Segments

IMAGE_PLACEHOLDER = "<image>"
"""Placeholder of an image in a logged question, unless the model's wrapper sets another."""

NOT_LOGGED = "not in this log"

_T = TypeVar("_T")
_REASONS: tuple[str, ...] = get_args(UnscoredReason)
_RULES: tuple[str, ...] = get_args(Rule)


def record_of(line: Line) -> Record:
    """The record that our tasks log under ``coverage``.

    Raises:
        BadRecord: The line has no record.
    """
    record = line.get("coverage")
    if not isinstance(record, Mapping):
        raise BadRecord("no record under `coverage`: not a scored sample of a task of ours")
    return record


def text(record: Record, name: str) -> str:
    """A required, non-empty text field.

    Raises:
        BadRecord: The field is missing, empty or not a text.
    """
    if value := optional_text(record, name):
        return value
    state = "missing" if record.get(name) is None else "empty"
    raise BadRecord(f"`{name}` is {state}, not a text")


def optional_text(record: Record, name: str) -> str:
    """A text field; empty if it is missing or null.

    Raises:
        BadRecord: The field is not a text.
    """
    return _field(record, name, str, "a text") or ""


def texts(record: Record, name: str) -> tuple[str, ...] | None:
    """A list of texts; None if it is missing or null, as in logs of older versions.

    Raises:
        BadRecord: The field is not a list of texts.
    """
    value = _field(record, name, list, "a list of texts", elements=str)
    return None if value is None else tuple(value)


def mapping(record: Record, name: str) -> Record:
    """An object field; empty if it is missing or null.

    Raises:
        BadRecord: The field is not an object.
    """
    return _field(record, name, Mapping, "an object") or {}  # type: ignore[type-abstract]


def _field(
    record: Record, name: str, kind: type[_T], noun: str, elements: type = object
) -> _T | None:
    """A field of this type, or a list of such elements; None if it is missing or null."""
    value = record.get(name)
    if value is None:
        return None
    if isinstance(value, kind) and (
        not isinstance(value, list) or all(isinstance(member, elements) for member in value)
    ):
        return value
    raise BadRecord(f"`{name}` is {type(value).__name__}, not {noun}")


def number(value: object) -> float | None:
    """The value as a float if it is a finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # JSON integers have no size limit
        return None


def verdict(record: Record, name: str, full_marks: float = math.inf) -> Verdict:
    """The official, robust or expected verdict of a record, on the scale it was logged in.

    Args:
        record: A sample's record.
        name: ``official``, ``robust`` or ``expected``.
        full_marks: Points outside 0 to `full_marks` become NaN; infinity accepts all points, for
            a benchmark whose official script does not clamp.

    Raises:
        BadRecord: The record has neither points nor a reason.
    """
    row = mapping(record, name)
    points = row.get("points", row.get("score"))
    if isinstance(points, (int, float)) and not isinstance(points, bool):
        finite = number(points)
        if finite is None or not (math.isinf(full_marks) or 0 <= finite <= full_marks):
            finite = math.nan
        return Scored(finite, optional_text(row, "reading"))
    reason = row.get("unscored")
    if reason not in _REASONS:
        raise BadRecord(f"`{name}` has neither points nor a known reason for having none")
    return Unscored(reason, optional_text(row, "detail"))  # type: ignore[arg-type]  # checked above


def expected(record: Record, full_marks: float) -> ExpectedScore:
    """The expected score of a record, with `NO_PROBABILITIES` in logs of older versions.

    Raises:
        BadRecord: As `verdict`.
    """
    if record.get("expected") is None:
        return ExpectedScore(verdict=NO_PROBABILITIES)
    entropy_bits = number(mapping(record, "expected").get("entropy_bits"))
    is_possible = entropy_bits is not None and entropy_bits >= 0
    return ExpectedScore(
        verdict=verdict(record, "expected", full_marks),
        entropy_bits=entropy_bits if is_possible else None,
    )


def replies(record: Record) -> tuple[JudgeReply, ...] | None:
    """The replies in order, of several judges one after the other; None if the log lacks any of
    them or their text.

    Digits that cannot be those of a reply are left out.

    Raises:
        BadRecord: ``replies`` is not a list, or ``panel`` has another form.
    """
    by_judge = [_replies(judge_record) for judge_record in _judge_records(record)]
    return None if None in by_judge else tuple(chain.from_iterable(filter(None, by_judge)))


def _judge_records(record: Record) -> Sequence[Record]:
    """The records of a panel's judges; without a panel, the sample's own record."""
    logged_panel = mapping(record, "panel")
    if not logged_panel:
        return (record,)
    judge_records = _field(logged_panel, "members", list, "a list of judges", elements=Mapping)
    if not judge_records:
        raise BadRecord("`panel` has no `members`")
    return judge_records


def panel(record: Record) -> Panel | None:
    """The panel that judged a sample; None for a single judge.

    Raises:
        BadRecord: ``panel`` has another form.
    """
    logged_panel = mapping(record, "panel")
    if not logged_panel:
        return None
    rule, min_valid = logged_panel.get("rule"), logged_panel.get("min_valid")
    if rule not in _RULES:
        raise BadRecord(f"`rule` of `panel` is none of {', '.join(_RULES)}")
    if type(min_valid) is not int or min_valid < 1:
        raise BadRecord("`min_valid` of `panel` is not a number of judges from 1")
    return Panel(rule=rule, min_valid=min_valid)  # type: ignore[arg-type]  # checked above


def members(record: Record, full_marks: float) -> tuple[MemberResult, ...]:
    """The judges of a panel with the verdicts that were logged; none for a single judge.

    Raises:
        BadRecord: ``panel`` has another form, or a judge has neither points nor a reason.
    """
    judge_records = _judge_records(record) if panel(record) else ()
    return tuple(_member(judge_record, full_marks) for judge_record in judge_records)


def _member(judge_record: Record, full_marks: float) -> MemberResult:
    expected_score = expected(judge_record, full_marks)
    return MemberResult(
        judge=optional_text(judge_record, "judge"),
        result=judge_result(_replies(judge_record) or ()),
        verdicts=Verdicts(
            official=verdict(judge_record, "official", full_marks),
            robust=verdict(judge_record, "robust", full_marks),
            expected=expected_score.verdict,
            entropy_bits=expected_score.entropy_bits,
        ),
    )


def _replies(record: Record) -> tuple[JudgeReply, ...] | None:
    value = _field(record, "replies", list, "a list")
    if value is None:
        return None
    replies = [reply for logged_reply in value if (reply := _reply(logged_reply)) is not None]
    return tuple(replies) if len(replies) == len(value) else None


def _reply(value: object) -> JudgeReply | None:
    if not isinstance(value, Mapping) or not isinstance(reply_text := value.get("text"), str):
        return None
    model, usage = value.get("model"), value.get("usage")
    usage = usage if isinstance(usage, Mapping) else {}
    digits: tuple[DigitToken, ...] | None = None
    with suppress(ValueError):
        digits = read_digits(value, reply_text)
    counts = {
        name: int(number(usage.get(name)) or 0)
        for name in ("input_tokens", "output_tokens", "reasoning_tokens")
    }
    return JudgeReply(
        text=reply_text,
        model=model if isinstance(model, str) else "",
        usage=Usage(**counts, cost_usd=number(usage.get("cost_usd"))),
        finish="length" if value.get("finish") == "length" else "stop",
        cached=value.get("cached") is True,
        digits=digits,
    )


def judge_result(logged_replies: Sequence[JudgeReply]) -> JudgeResult:
    """The judging result from which none, one or two replies were logged."""
    first, second = (*logged_replies, None, None)[:2]
    return JudgeResult(reply=first, second_reply=second)


def answer(line: Line) -> str:
    """The tested model's answer; several rounds are joined with line breaks.

    Raises:
        BadRecord: The answer is not a text.
    """
    value = line.get("filtered_resps")
    if isinstance(value, list) and all(isinstance(element, str) for element in value):
        return "\n".join(value)
    return optional_text(line, "filtered_resps")


def segments(record: Record, name: str) -> tuple[LoggedSegment, ...] | None:
    """Texts and images of a record in their order; None if the record has none.

    Raises:
        BadRecord: The field is not a list of objects with ``text`` and ``image``.
    """
    value = _field(record, name, list, "a list of text and images", elements=Mapping)
    if value is None:
        return None
    return tuple(
        LoggedSegment(
            text=optional_text(segment, "text"),
            image=optional_text(segment, "image") or None,
            problem=optional_text(segment, "problem"),
            prompt=optional_text(segment, "prompt"),
        )
        for segment in value
    )


def parts(segments: Segments) -> tuple[str | Path, ...]:
    """Texts and image files of segments in their order, for a request to a judge.

    Raises:
        BadRecord: An image could not be used, or its file is gone.
    """
    content: list[str | Path] = []
    for segment in segments:
        content += [segment.text] if segment.text else []
        if segment.problem or (segment.image is not None and not Path(segment.image).is_file()):
            raise BadRecord(
                f"bad_image: `{(segment.image or '')[:200]}`: "
                f"{segment.problem or 'there is no such file'}"
            )
        content += [Path(segment.image)] if segment.image else []
    return tuple(content)


def question(line: Line, images: Sequence[str] | None) -> tuple[LoggedSegment, ...]:
    """The question of a line, its images put in place of the placeholders.

    Args:
        line: Has the question's text under ``input``.
        images: Image paths in order; None if the log has none. If their number differs from that
            of the placeholders (a question may contain the placeholder's text), all images follow
            the text.

    Raises:
        BadRecord: ``input`` is not a text.
    """
    prompt = optional_text(line, "input")
    *before, last = prompt.split(IMAGE_PLACEHOLDER)
    if images is None:
        placed_segments = [LoggedSegment(text=part, problem=NOT_LOGGED) for part in before]
    elif len(images) == len(before):
        placed_segments = [
            LoggedSegment(text=t, image=i) for t, i in zip(before, images, strict=True)
        ]
    else:
        return (*text_segments(prompt), *(LoggedSegment(image=image) for image in images))
    return (*placed_segments, *text_segments(last))


def text_segments(content: str) -> tuple[LoggedSegment, ...]:
    """A text as one segment; no segment if it is empty."""
    return (LoggedSegment(text=content),) if content else ()


def sample(line: Line, full_marks: float, groups: Sequence[str] = ()) -> LoggedSample:
    """The sample of a line whose record has these fields; other fields are not read.

    * ``id``: a text
    * ``official``, ``robust``: rows of `mmie_tasks.core.verdict.as_row`
    * ``expected``: such a row, with ``entropy_bits``; may be missing
    * ``replies``, ``panel``: those of `mmie_tasks.record.panel.Judged.fields`; missing if the
      benchmark is scored by rule
    * ``images``: paths of the question's images, in order; may be missing
    * ``signature``: a text; may be missing
    * every field named in `groups`: a text

    Args:
        line: A line of a sample log.
        full_marks: Points outside 0 to `full_marks` become NaN.
        groups: Names of the fields that say to which groups the sample belongs.

    Raises:
        BadRecord: The line has no record, or a field is missing or has another form.
    """
    record = record_of(line)
    expected_score = expected(record, full_marks)
    return LoggedSample(
        id=text(record, "id"),
        official=verdict(record, "official", full_marks),
        robust=verdict(record, "robust", full_marks),
        expected=expected_score.verdict,
        entropy_bits=expected_score.entropy_bits,
        groups={name: (text(record, name),) for name in groups},
        question=question(line, texts(record, "images") or ()),
        gold=text_segments(optional_text(line, "target")),
        answer=text_segments(answer(line)),
        replies=replies(record) or (),
        members=members(record, full_marks),
        signature=optional_text(record, "signature"),
    )


def reread(
    line: Line, grade: Callable[[JudgeResult], Verdicts] | None, full_marks: float
) -> Mapping[str, Verdict] | None:
    """The verdicts of the current readers on a line's saved replies: `Benchmark.reread` of a judged
    benchmark.

    Those of a panel's judges are combined by the logged rule; of a judge without a reply, the
    logged ones count.

    Args:
        line: A line whose record has the fields of `sample`.
        grade: The verdicts on the replies of one judge; None if nothing can be read.
        full_marks: As of `sample`.

    Returns:
        The logged verdicts if the sample has no reply and no score; None if the log lacks the
        replies that its scores were read from.

    Raises:
        BadRecord: The line has no record, or a field has another form.
    """
    judged = rejudged(record_of(line), grade, full_marks)
    return (
        None
        if judged is None
        else {"official": judged.verdicts.official, "robust": judged.verdicts.robust}
    )


def rejudged(
    record: Record, grade: Callable[[JudgeResult], Verdicts] | None, full_marks: float
) -> Judged | None:
    """As `reread`, of a record, with the replies and verdicts of each judge."""
    logged_panel, current = panel(record), []
    for judge_record in _judge_records(record):
        member, saved_replies = _member(judge_record, full_marks), _replies(judge_record)
        logged = (member.verdicts.official, member.verdicts.robust)
        if saved_replies and grade:
            member = replace(member, verdicts=grade(member.result))
        elif saved_replies != () or any(isinstance(entry, Scored) for entry in logged):
            return None
        current.append(member)
    verdicts = current[0].verdicts
    if logged_panel is not None:
        if len(current) < logged_panel.min_valid:  # not of ours
            return None
        verdicts = combine(current, logged_panel)
    return Judged(verdicts=verdicts, members=tuple(current), panel=logged_panel)
