"""The record of a sample of MMIE: what a run logs of it, and the sample that is read from a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mmie_tasks.benchmarks.mmie.official import FULL_MARKS
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, Sample
from mmie_tasks.record import log_line
from mmie_tasks.record.answer_facts import AnswerFacts, fact_counts, shown_facts
from mmie_tasks.record.judged_sample import Judged
from mmie_tasks.record.metrics import slug
from mmie_tasks.record.picture_sample import picture_record, read_picture_sample
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.record.rows import Row
from mmie_tasks.record.sample import BadRecord, Line, LoggedSample, Record
from mmie_tasks.record.segment import Segments

FORM = log_line.RecordForm(points_key="points", expected=True, differ=True)

_FACTS = {
    "shape": "shape of the answer",
    "answer_images": "images in the answer",
    "shown_images": "images shown to the judge",
    "tiles": "tiles",
    "judge_tokens": "judge tokens",
    "judge_tokens_exact": "judge tokens are exact",
    "truncated": "truncated",
    "dropped": "dropped",
    "missing_images": "missing images",
    "bad_images": "bad images",
    "drawn": "pictures drawn",
}
_COUNTS = {"image_problems": "images of the answer not used"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts(AnswerFacts):
    """Counts about an answer and its request; some answers have no request.

    Attributes:
        dropped: The official script leaves the sample out: it has more than 4 images.
        missing_images: Image references without a file.
        bad_images: Images, in files or in data URIs, that cannot be used.
        image_problems: Images of the answer that are in one of these counts, by reason.
        truncated: The limit on images removed text or images of the answer.
        typed: Control string in the question or the answer to its number.
        judge_tokens: Tokens of the request, as the judge, of a panel the first, reports with its
            reply; None without.
        judge_tokens_exact: Whether `judge_tokens` is known; follows from it.
        shown_images: Images in the request, the question's included.
        answer_images: Images of the answer, in the request or not.
        unfilled_placeholders: Placeholders of the answer without an image.
    """

    dropped: bool = False
    missing_images: int = 0
    bad_images: int = 0
    image_problems: Mapping[str, int] = field(default_factory=dict)
    truncated: bool = False
    typed: Mapping[str, int] = field(default_factory=dict)
    judge_tokens: int | None = None
    judge_tokens_exact: bool = field(init=False)
    shown_images: int = 0
    answer_images: int = 0
    unfilled_placeholders: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "judge_tokens_exact", self.judge_tokens is not None)

    def without_request(self) -> RequestFacts:
        """These facts with no images shown."""
        return replace(self, shown_images=0)

    def with_usage(self, reply: JudgeReply | None) -> RequestFacts:
        """These facts with the tokens of the request that the judge reports with its reply, if
        any.
        """
        if reply is None or not reply.usage.input_tokens:
            return self
        return replace(self, judge_tokens=reply.usage.input_tokens)


def sample_record(
    sample: Sample, judged: Judged, facts: RequestFacts, answer: Segments, signature: str
) -> Row:
    """Everything that is needed to score the sample again; the runner logs it under ``coverage``.

    Args:
        sample: The question.
        judged: The verdicts on its answer, and the judges' replies.
        facts: About the answer and its request.
        answer: As the judge was shown it; empty if it was not parsed.
        signature: Everything that can move the score.
    """
    fields = {"index": sample.index, "category": sample.category, "field": sample.field}
    return picture_record(sample, judged, facts, answer, signature, form=FORM, sample_fields=fields)


def read_line(line: Line) -> LoggedSample:
    """Read one line of a sample log.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    record = record_of(line)
    return replace(
        read_picture_sample(line, FULL_MARKS),
        groups=groups(str(record["category"]), log_line.optional_text(record, "field")),
        answer_cut=log_line.mapping(record, "facts").get("truncated") is True,
        facts=_facts(record),
    )


def groups(category: str, field_name: str) -> dict[str, tuple[str, ...]]:
    """Kind of group to the groups of a sample; a sample may lack a field."""
    field_slug = slug(field_name)
    return {"category": (category,), **({"field": (field_slug,)} if field_slug else {})}


def record_of(line: Line) -> Record:
    """The record of a line.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    record = log_line.record_of(line)
    if record.get("category") not in CATEGORIES:
        raise BadRecord(f"`category` is none of {', '.join(CATEGORIES)}: not a sample of MMIE")
    return record


def _facts(record: Record) -> dict[str, str | float | bool]:
    """The facts worth showing: without zeros, empty texts and unset flags."""
    shown = shown_facts(record, _FACTS, _COUNTS)
    if marks := ", ".join(fact_counts(record, "typed")):
        shown["typed control marks"] = marks
    return shown
