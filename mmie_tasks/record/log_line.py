"""Reads one line of a sample log: the record of a sample with its question, answer and verdicts.

A record is a dict that a benchmark writes. The parts that all have are written and read by the
module of their type: replies and the judges of a panel by `panel`, texts and images by `segment`.
Other packages read their own fields with the functions of `fields`, which are names of this module,
too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mmie_tasks.core.verdict import Verdict, Verdicts
from mmie_tasks.record.expected import read_expected as expected
from mmie_tasks.record.fields import (
    BadRecord,
    Line,
    Record,
    mapping,
    number,
    optional_text,
    text,
    texts,
    verdict,
)
from mmie_tasks.record.judged import read_members as members
from mmie_tasks.record.judged import read_panel as panel
from mmie_tasks.record.judged import read_replies as replies
from mmie_tasks.record.judged import rejudged
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.segment import Segment, Segments
from mmie_tasks.record.segment import read_segments as segments
from mmie_tasks.record.signature import Signature

__all__ = [
    "IMAGE_PLACEHOLDER",
    "NOT_LOGGED",
    "answer",
    "expected",
    "mapping",
    "members",
    "number",
    "optional_text",
    "panel",
    "parts",
    "question",
    "record_of",
    "rejudged",
    "replies",
    "reread",
    "sample",
    "segments",
    "text",
    "text_segments",
    "texts",
    "verdict",
]

IMAGE_PLACEHOLDER = "<image>"
"""Placeholder of an image in a logged question, unless the model's wrapper sets another."""

NOT_LOGGED = "not in this log"


def record_of(line: Line) -> Record:
    """The record that our tasks log under ``coverage``.

    Raises:
        BadRecord: The line has no record.
    """
    record = line.get("coverage")
    if not isinstance(record, Mapping):
        raise BadRecord("no record under `coverage`: not a scored sample of a task of ours")
    return record


def answer(line: Line) -> str:
    """The tested model's answer; several rounds are joined with line breaks.

    Raises:
        BadRecord: The answer is not a text.
    """
    value = line.get("filtered_resps")
    if isinstance(value, list) and all(isinstance(element, str) for element in value):
        return "\n".join(value)
    return optional_text(line, "filtered_resps")


def parts(content: Segments) -> tuple[str | Path, ...]:
    """Texts and image files of segments in their order, for a request to a judge.

    Raises:
        BadRecord: An image could not be used, or its file is gone.
    """
    pieces: list[str | Path] = []
    for segment in content:
        pieces += [segment.text] if segment.text else []
        if segment.problem or (segment.image is not None and not Path(segment.image).is_file()):
            raise BadRecord(
                f"bad_image: `{(segment.image or '')[:200]}`: "
                f"{segment.problem or 'there is no such file'}"
            )
        pieces += [Path(segment.image)] if segment.image else []
    return tuple(pieces)


def question(line: Line, images: Sequence[str] | None) -> tuple[Segment, ...]:
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
        placed_segments = [Segment(text=part, problem=NOT_LOGGED) for part in before]
    elif len(images) == len(before):
        placed_segments = [Segment(text=t, image=i) for t, i in zip(before, images, strict=True)]
    else:
        return (*text_segments(prompt), *(Segment(image=image) for image in images))
    return (*placed_segments, *text_segments(last))


def signature(record: Record) -> Signature:
    """Everything that can move the score; empty if it was not logged."""
    return Signature(optional_text(record, "signature"))


def text_segments(content: str) -> tuple[Segment, ...]:
    """A text as one segment; no segment if it is empty."""
    return (Segment(text=content),) if content else ()


def sample(line: Line, full_marks: float, groups: Sequence[str] = ()) -> LoggedSample:
    """The sample of a line whose record has these fields; other fields are not read.

    * ``id``: a text
    * ``official``, ``robust``: rows of `mmie_tasks.core.verdict.as_row`
    * ``expected``: such a row, with ``entropy_bits``; may be missing
    * ``replies``, ``panel``: those of `mmie_tasks.record.judged.Judged.fields`; missing if the
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
        signature=signature(record),
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
