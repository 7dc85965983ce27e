"""The record of a sample, and the line of a log that holds it: written and read.

`sample_record` writes the fields that all benchmarks have, and `sample` reads them. The parts of a
record are written and read by the modules of their types: verdicts by `verdict_row` and `expected`,
replies and the judges of a panel by `judged_sample`, texts and images by `segment`. Benchmarks read
their own fields with the functions of `fields`, which are names of this module, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mmie_tasks.core.verdict import Unscored, Verdict, Verdicts
from mmie_tasks.record.expected import expected_row
from mmie_tasks.record.expected import read_expected as expected
from mmie_tasks.record.fields import (
    BadRecord,
    Line,
    NoJudgeRequest,
    Record,
    mapping,
    number,
    optional_text,
    text,
    texts,
)
from mmie_tasks.record.judged_sample import Judged, rejudged
from mmie_tasks.record.judged_sample import read_members as members
from mmie_tasks.record.judged_sample import read_panel as panel
from mmie_tasks.record.judged_sample import read_replies as replies
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.rows import COVERAGE, Row
from mmie_tasks.record.sample import READER_KINDS, LoggedSample, ScoreKind
from mmie_tasks.record.segment import Segment, Segments
from mmie_tasks.record.segment import read_segments as segments
from mmie_tasks.record.signature import Signature
from mmie_tasks.record.text_facts import read_text_facts
from mmie_tasks.record.verdict_row import PointsKey, as_row, verdict

__all__ = [
    "IMAGE_PLACEHOLDER",
    "NOT_LOGGED",
    "RecordForm",
    "answer",
    "component_shares",
    "expected",
    "is_scored",
    "mapping",
    "members",
    "number",
    "optional_text",
    "panel",
    "parts",
    "question",
    "record_of",
    "replies",
    "reread",
    "rerecord",
    "rescored",
    "sample",
    "sample_record",
    "segments",
    "signature",
    "text",
    "text_answer",
    "text_segments",
    "texts",
    "verdict",
    "verdict_fields",
    "with_record",
]

IMAGE_PLACEHOLDER = "<image>"
"""Placeholder of an image in a logged question, unless the model's wrapper sets another."""

NOT_LOGGED = "not in this log"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordForm:
    """Which verdicts the records of a benchmark have, and in which form; `sample` reads every form.

    Attributes:
        points_key: The key of the points in a row.
        rows_have_id: Whether the official and the robust row have the sample's id, too.
        expected: Whether there is a row of the expected score.
        differ: Whether there is a flag that official and robust points differ.
        parts: Whether there are the shares of components: see `component_shares`.
    """

    points_key: PointsKey = "score"
    rows_have_id: bool = False
    expected: bool = False
    differ: bool = False
    parts: bool = False


_OFFICIAL_AND_ROBUST = RecordForm()


def sample_record(
    sample_id: str,
    graded: Judged | Verdicts,
    signature: str,
    *,
    form: RecordForm = _OFFICIAL_AND_ROBUST,
    sample_fields: Mapping[str, object],
    readings: Mapping[str, object] = {},
    request_fields: Mapping[str, object] = {},
    answer_fields: Mapping[str, object] = {},
) -> Row:
    """The record of a sample: everything that is needed to show it and to score it again.

    Args:
        sample_id: Unique within the benchmark.
        graded: The verdicts on the answer; with the judges' replies if a judge gave them.
        signature: Everything that can move the score.
        form: Of the verdicts.
        sample_fields: The benchmark's own fields about the sample, which follow the id.
        readings: Its fields that depend on the readers: see `verdict_fields`.
        request_fields: Its fields about question and request, which follow the verdicts.
        answer_fields: Its fields about the answer, which follow the signature.
    """
    verdicts = graded.verdicts if isinstance(graded, Judged) else graded
    return {
        "id": sample_id,
        **sample_fields,
        **verdict_fields(sample_id, verdicts, form, readings),
        **request_fields,
        "signature": signature,
        **answer_fields,
        **(graded.fields if isinstance(graded, Judged) else {}),
    }


def verdict_fields(
    sample_id: object, verdicts: Verdicts, form: RecordForm, readings: Mapping[str, object] = {}
) -> Row:
    """The fields of a record that depend on the readers, but those of a panel's judges.

    Args:
        sample_id: As in the record.
        verdicts: On the answer.
        form: Of the verdicts.
        readings: The benchmark's own fields, which follow the verdicts.
    """
    row_id = {"id": sample_id} if form.rows_have_id else {}
    fields: Row = {
        "official": as_row(verdicts.official, points_key=form.points_key, **row_id),
        "robust": as_row(verdicts.robust, points_key=form.points_key, **row_id),
    }
    if form.expected:
        fields["expected"] = expected_row(verdicts, form.points_key)
    fields |= readings
    if form.differ:
        fields["differ"] = verdicts.differ
    if form.parts:
        fields["parts"] = {kind: dict(verdicts.parts.get(kind, {})) for kind in READER_KINDS}
    return fields


def component_shares(record: Record) -> dict[ScoreKind, dict[str, float]]:
    """For the official and the robust score, component to its share of full marks.

    Raises:
        BadRecord: ``parts`` has another form.
    """
    return {
        kind: {
            name: value
            for name, share in mapping(mapping(record, "parts"), kind).items()
            if (value := number(share)) is not None
        }
        for kind in READER_KINDS
    }


def is_scored(line: Line) -> bool:
    """Whether it has a record; it has none of a run with ``--predict_only``."""
    return "bypass" not in line or COVERAGE in line


def with_record(line: Line, record: Record) -> dict[str, object]:
    """The line with another record."""
    return {**line, COVERAGE: record}


def record_of(line: Line) -> Record:
    """The record of a line.

    Raises:
        BadRecord: The line has no record.
    """
    record = line.get(COVERAGE)
    if not isinstance(record, Mapping):
        raise BadRecord(f"no record under `{COVERAGE}`: not a scored sample of a task of ours")
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


def text_answer(line: Line) -> str | None:
    """The tested model's answer if it is one text; None if it is missing or anything else."""
    value = line.get("filtered_resps")
    return value if isinstance(value, str) else None


def parts(content: Segments) -> tuple[str | Path, ...]:
    """Texts and image files of segments in their order, for a request to a judge.

    Raises:
        NoJudgeRequest: An image could not be used, or its file is gone.
    """
    pieces: list[str | Path] = []
    for segment in content:
        pieces += [segment.text] if segment.text else []
        if segment.problem or (segment.image is not None and not Path(segment.image).is_file()):
            problem = segment.problem or "there is no such file"
            detail = f"`{(segment.image or '')[:200]}`: {problem}"
            raise NoJudgeRequest(Unscored("bad_image", detail))
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
    * ``official``, ``robust``: rows of `mmie_tasks.record.verdict_row.as_row`
    * ``expected``: such a row, with ``entropy_bits``; may be missing
    * ``replies``, ``panel``: those of `mmie_tasks.record.judged_sample.Judged.fields`; missing if
      the benchmark is scored by rule
    * ``images``: paths of the question's images, in order; may be missing
    * ``signature``: a text; may be missing
    * ``facts``: those of `mmie_tasks.record.text_facts.TextFacts`; may be missing
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
        text=read_text_facts(record),
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


def rerecord(
    record: Record,
    grade: Callable[[JudgeResult], Verdicts] | None,
    full_marks: float,
    form: RecordForm,
    readings: Callable[[Judged], Mapping[str, object]] = lambda _: {},
) -> Record:
    """The record with the verdicts of the current readers on its saved replies, and each judge's:
    `Benchmark.rerecord` of a judged benchmark.

    Args:
        record: A sample's record. It is returned unchanged if its replies cannot be read.
        grade: As of `reread`.
        full_marks: As of `sample`.
        form: As of `sample_record`.
        readings: The benchmark's own fields that depend on the readers.

    Raises:
        BadRecord: A field has another form.
    """
    judged = rejudged(record, grade, full_marks)
    if judged is None or not replies(record):
        return record
    fields = verdict_fields(record.get("id"), judged.verdicts, form, readings(judged))
    return {**record, **fields, **judged.panel_fields}


def rescored(record: Record, package: str, *, changed: bool) -> dict[str, object]:
    """The record, marked as scored again.

    Args:
        record: With the verdicts of the current readers.
        package: The version of this package, also for the record's signature if it has one.
        changed: Whether a verdict changed.
    """
    marked = dict(record)
    if current_signature := str(signature(record).with_package(package)):
        marked["signature"] = current_signature
    marked["rescored"] = {"pkg": package, "changed": changed}
    return marked
