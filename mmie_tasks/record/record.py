"""The record of a sample: everything needed to show it and to score it again.

A run logs it under `RECORD_KEY` in each line of the sample log. A benchmark adds fields in a
subclass of `Record`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
)
from typing_extensions import override

from mmie_tasks.core.verdict import Scored, ScoreKind, Verdict, Verdicts
from mmie_tasks.record.answer_facts import AnswerFacts
from mmie_tasks.record.judgement import Judged, Judgement
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.sample import LoggedSample, Needle
from mmie_tasks.record.segment import Segment, Segments, text_segments
from mmie_tasks.record.signature import SharedSignature, Signature
from mmie_tasks.record.text_facts import TextFacts

Line: TypeAlias = Mapping[str, object]
"""One line of a sample log, as lmms-eval wrote it."""

RECORD_KEY = "record"
"""The key of the record in a sample's line."""

IMAGE_PLACEHOLDER = "<image>"
"""Placeholder for an image in a logged question, unless the model's wrapper sets another."""

NOT_LOGGED = "not in this log"
NO_REPLY = "the log does not hold the reply or answer"

_LOGGED_CHARS = 80  # a verdict's reading may be the whole answer
_VERDICT_KINDS = ("Scored", "Unscored")

RecordT = TypeVar("RecordT", bound="Record")

LoggedSegments: TypeAlias = Annotated[
    Segments, AfterValidator(lambda segments: tuple(segment.logged for segment in segments))
]


_Groups: TypeAlias = Annotated[
    tuple[str, ...], BeforeValidator(lambda names: (names,) if isinstance(names, str) else names)
]


class BadRecord(ValueError):
    """A log line is not a scored sample of a benchmark."""


class Record(BaseModel):
    """What a run logs of one sample of any benchmark.

    Attributes:
        id: Unique within the benchmark.
        official: Official verdict, on the benchmark's own scale.
        robust: Robust verdict, on the same scale.
        shares: For each score, component to share of full marks, 0 to 1; empty for benchmarks
            without components.
        judgements: Replies and verdicts of each judge, in order; empty without judge requests.
        signature: Everything that can move the score.
        facts: What was noted about the answer.
    """

    model_config = ConfigDict(frozen=True)

    id: Annotated[str, Field(min_length=1)]
    official: Verdict
    robust: Verdict
    shares: Mapping[ScoreKind, Mapping[str, float]] = {}
    judgements: tuple[Judgement, ...] = ()
    signature: SharedSignature = Signature()
    facts: TextFacts = TextFacts()

    @classmethod
    def of(cls: type[RecordT], graded: Judged | Verdicts, **fields: object) -> RecordT:
        """A record of verdicts, with each judge's if judges gave them, and the other fields."""
        return cls.model_validate({**fields, **_graded_fields(graded)})

    def graded(self: RecordT, graded: Judged) -> RecordT:
        """The record with other verdicts."""
        return self.model_copy(update=_graded_fields(graded))

    def regraded(self: RecordT, grade: Callable[[JudgeResult], Verdicts]) -> RecordT:
        """The record with `grade`'s verdicts on its saved replies; unchanged without judgements.

        Raises:
            BadRecord: The log does not hold the replies of a score.
        """
        if not self.judgements:
            return self
        read = [_regraded(judgement, grade) for judgement in self.judgements]
        return self.graded(Judged.by(read))

    @property
    def verdicts(self) -> Verdicts:
        """All verdicts on the answer."""
        return Verdicts(official=self.official, robust=self.robust, shares=self.shares)

    @property
    def replies(self) -> tuple[JudgeReply, ...]:
        """All judges' replies, judge by judge."""
        return tuple(r for judgement in self.judgements for r in judgement.result.replies)

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """Kind of group to the groups that contain the sample."""
        return {}

    @property
    def sample_fields(self) -> Mapping[str, Any]:
        """What the verdicts depend on, which is the fields of the benchmark's own."""
        own = type(self).model_fields.keys() - Record.model_fields.keys()
        return {name: getattr(self, name) for name in own}

    @property
    def shown_properties(self) -> dict[str, str | float | bool]:
        """Title to value, for display."""
        return {}

    def shown_question(self, line: Line) -> Segments:
        """The question as the tested model got it."""
        return question_of(line, ())

    def shown_gold(self, line: Line) -> Segments:
        """The reference answer; empty if there is none."""
        return text_segments(_text(line, "target"))

    def shown_answer(self, line: Line) -> Segments:
        """The tested model's answer."""
        return text_segments(answer_text(line))

    def needle(self, line: Line) -> Needle | None:  # noqa: ARG002 - for benchmarks with haystacks
        """The needle of a haystack question; None for other questions."""
        return None

    def sample(self, line: Line) -> LoggedSample:
        """The sample for tables and reports; the line is empty during a run."""
        return LoggedSample(
            id=self.id,
            official=self.official,
            robust=self.robust,
            groups=self.groups,
            shares=self.shares,
            question=self.shown_question(line),
            gold=self.shown_gold(line),
            answer=self.shown_answer(line),
            judgements=self.judgements,
            signature=self.signature,
            text=self.facts,
            needle=self.needle(line),
            properties=self.shown_properties,
        )


class ImageRecord(Record):
    """The record of a sample whose question, gold and answer are texts and images.

    Attributes:
        facts: Counts about the answer.
        question: The question.
        gold: The reference answer.
        answer: The answer as the judge saw it; empty if it was not parsed.
    """

    facts: AnswerFacts = AnswerFacts()
    question: LoggedSegments = ()
    gold: LoggedSegments = ()
    answer: LoggedSegments = ()

    @override
    def shown_question(self, line: Line) -> Segments:
        return self.question or question_of(line, None)

    @override
    def shown_gold(self, line: Line) -> Segments:
        return self.gold or super().shown_gold(line)

    @override
    def shown_answer(self, line: Line) -> Segments:
        return self.answer or super().shown_answer(line)

    @override
    def sample(self, line: Line) -> LoggedSample:
        return replace(
            super().sample(line),
            text=self.facts.of_text,
            pictures_not_drawn=sum(self.facts.not_drawn.values()),
            looks_unread=self.facts.looks_unread,
            unfilled_placeholders=self.facts.unfilled_placeholders,
            pictures_unplaced=self.facts.unplaced,
        )


class SampleRecord(ImageRecord):
    """The record of a benchmark without a class of its own.

    Attributes:
        in_groups: Kind of group to the groups that contain the sample.
        doc: The sample, as far as JSON has its values.
    """

    in_groups: Mapping[
        str,
        Annotated[tuple[str, ...], BeforeValidator(lambda x: (x,) if isinstance(x, str) else x)],
    ] = {}
    doc: Mapping[str, JsonValue] = {}

    @property
    @override
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        return self.in_groups

    @property
    @override
    def sample_fields(self) -> Mapping[str, Any]:
        return self.doc


def read_record(kind: type[RecordT], line: Line) -> RecordT:
    """The record of a line, in a benchmark's own class.

    Raises:
        BadRecord: The line has no record, or a field is missing or malformed; names the field.
    """
    record = line.get(RECORD_KEY)
    if not isinstance(record, Mapping):
        raise BadRecord(f"no record under `{RECORD_KEY}`: not a scored sample of a task of ours")
    try:
        return kind.model_validate(record)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False)
        # For a verdict of neither kind, a wrong field says more than a missing one.
        detail = next((d for d in details if d["type"] != "missing"), details[0])
        name = ".".join(str(part) for part in detail["loc"] if part not in _VERDICT_KINDS)
        value = repr(detail["input"])[:80]
        raise BadRecord(f"`{name}` is {value}: {detail['msg']}") from error


def is_scored(line: Line) -> bool:
    """Whether the line has a record; lines of ``--predict_only`` runs have none."""
    return "bypass" not in line or RECORD_KEY in line


def answer_text(line: Line) -> str:
    """The tested model's answer; several rounds are joined with line breaks.

    Raises:
        BadRecord: The answer is not text.
    """
    value = line.get("filtered_resps")
    if isinstance(value, list) and all(isinstance(element, str) for element in value):
        return "\n".join(value)
    return _text(line, "filtered_resps")


def question_of(line: Line, images: Sequence[str] | None) -> Segments:
    """The question under ``input``, with images in place of the placeholders.

    All images follow the text if their number is not that of the placeholders, whose text a
    question may contain. If `images` is None, because the log has none, they are marked as missing.

    Raises:
        BadRecord: ``input`` is not text.
    """
    prompt = _text(line, "input")
    *before, last = prompt.split(IMAGE_PLACEHOLDER)
    if images is None:
        placed = [Segment(text=part, problem=NOT_LOGGED) for part in before]
    elif len(images) == len(before):
        placed = [Segment(text=t, image=i) for t, i in zip(before, images, strict=True)]
    else:
        return (*text_segments(prompt), *(Segment(image=image) for image in images))
    return (*placed, *text_segments(last))


def _text(line: Line, name: str) -> str:
    value = line.get(name)
    if value is None or isinstance(value, str):
        return value or ""
    raise BadRecord(f"`{name}` is {type(value).__name__}, not a text")


def _regraded(judgement: Judgement, grade: Callable[[JudgeResult], Verdicts]) -> Judgement:
    if judgement.result != JudgeResult():
        return replace(judgement, verdicts=grade(judgement.result))
    if isinstance(judgement.verdicts.official, Scored):
        raise BadRecord(NO_REPLY)
    return judgement


def _graded_fields(graded: Judged | Verdicts) -> dict[str, Any]:
    verdicts = graded.verdicts if isinstance(graded, Judged) else graded
    return {
        "official": _shortened(verdicts.official),
        "robust": _shortened(verdicts.robust),
        "shares": verdicts.shares,
        "judgements": graded.judgements if isinstance(graded, Judged) else (),
    }


def _shortened(verdict: Verdict) -> Verdict:
    if isinstance(verdict, Scored) and len(verdict.reading) > _LOGGED_CHARS:
        return Scored(verdict.points, f"{verdict.reading[:_LOGGED_CHARS]}…")
    return verdict
