"""The record of a sample of MMIE: what a run logs of it, and the sample that is read from a log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace

from mmie_tasks.benchmarks.mmie.official import FULL_MARKS
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, Sample
from mmie_tasks.core.tables import listed
from mmie_tasks.core.verdict import Scored, Verdict, Verdicts, as_row
from mmie_tasks.record import log_line
from mmie_tasks.record.panel import Judged
from mmie_tasks.record.rows import Row
from mmie_tasks.record.sample import BadRecord, Line, LoggedSample, Record
from mmie_tasks.record.segment import Segments, segment_rows

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
_COUNTS = {
    "image_problems": "images of the answer not used",
    "unread": "texts and images not read",
    "picture_signs": "signs of unread pictures",
    "not_drawn": "pictures not drawn",
    "unused": "not used of the writer's answer",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
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
        judge_tokens_exact: Whether the judge counted them: as `judge_tokens` is there.
        shown_images: Images in the request, the question's included.
        answer_images: Images of the answer, in the request or not.
        shape: How the answer was written.
        thinking: Thinking was removed from the answer.
        unfilled_placeholders: Placeholders of the answer without an image.
        unread: Texts and images of the answer that were not read, by key or type.
        picture_signs: Signs that texts of the answer have pictures that were not read, each with 1.
        drawn: Pictures that ``--model interleaved`` drew; None for answers of other models.
        not_drawn: Pictures that could not be drawn, by reason.
        unused: What the writer wrote and the protocol could not use, by name.
    """

    dropped: bool = False
    missing_images: int = 0
    bad_images: int = 0
    image_problems: Mapping[str, int] = field(default_factory=dict)
    truncated: bool = False
    typed: Mapping[str, int] = field(default_factory=dict)
    judge_tokens: int | None = None
    judge_tokens_exact: bool = False
    shown_images: int = 0
    answer_images: int = 0
    shape: str = ""
    thinking: bool = False
    unfilled_placeholders: int = 0
    unread: Mapping[str, int] = field(default_factory=dict)
    picture_signs: Mapping[str, int] = field(default_factory=dict)
    drawn: int | None = None
    not_drawn: Mapping[str, int] = field(default_factory=dict)
    unused: Mapping[str, int] = field(default_factory=dict)


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
    return {
        "id": sample.id,
        "index": sample.index,
        "category": sample.category,
        "field": sample.field,
        **graded_fields(judged.verdicts),
        "facts": asdict(facts),
        "question": segment_rows(sample.question),
        "gold": segment_rows(sample.gold),
        "signature": signature,
        "answer": segment_rows(answer),
        **judged.fields,
    }


def graded_fields(verdicts: Verdicts) -> Row:
    """The fields of a record that depend on the readers."""
    expected = _points(verdicts.expected)
    if isinstance(verdicts.expected, Scored):
        expected = {"points": verdicts.expected.points, "entropy_bits": verdicts.entropy_bits}
    return {
        "official": _points(verdicts.official),
        "robust": _points(verdicts.robust),
        "expected": expected,
        "differ": verdicts.differ,
    }


def _points(verdict: Verdict) -> Row:
    """A verdict of a record, with its points, 0 to 6."""
    row = as_row(verdict)
    return {"points": row.pop("score"), **row} if isinstance(verdict, Scored) else row


def facts_of(record: Record) -> RequestFacts:
    """The facts in a new record; fields of older versions are ignored."""
    facts = record["facts"]
    if not isinstance(facts, Mapping):
        return RequestFacts()
    names = {attribute.name for attribute in fields(RequestFacts)}
    return RequestFacts(**{name: value for name, value in facts.items() if name in names})


def read_line(line: Line) -> LoggedSample:
    """Read one line of a sample log.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    record = record_of(line)
    question = log_line.segments(record, "question")
    gold, target = log_line.segments(record, "gold"), log_line.optional_text(line, "target")
    return replace(
        log_line.sample(line, FULL_MARKS),
        groups=groups(str(record["category"]), log_line.optional_text(record, "field")),
        question=log_line.question(line, None) if question is None else question,
        gold=log_line.text_segments(target) if gold is None else gold,
        answer=shown_answer(line) or log_line.text_segments(log_line.answer(line)),
        pictures_not_drawn=sum(fact_counts(record, "not_drawn").values()),
        picture_signs=tuple(fact_counts(record, "picture_signs")),
        facts=_facts(record),
    )


def shown_answer(line: Line) -> Segments:
    """The answer as the judge was shown it; empty if it was not parsed.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    return log_line.segments(record_of(line), "answer") or ()


def groups(category: str, field_name: str) -> dict[str, tuple[str, ...]]:
    """Kind of group to the groups of a sample; a sample may lack a field."""
    field_slug = slug(field_name)
    return {"category": (category,), **({"field": (field_slug,)} if field_slug else {})}


def slug(name: str) -> str:
    """A field's name in the form of metric names.

    >>> slug("EECS"), slug(" Project Work ")
    ('eecs', 'project_work')
    """
    return re.sub(r"\W+", "_", name.strip()).lower()


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
    facts = log_line.mapping(record, "facts")
    shown: dict[str, str | float | bool] = {}
    for name, title in _FACTS.items():
        value = facts.get(name)
        fact = value if isinstance(value, (str, bool)) else log_line.number(value)
        if fact:
            shown[title] = fact
    if marks := ", ".join(
        mark for mark, count in log_line.mapping(facts, "typed").items() if count
    ):
        shown["typed control marks"] = marks
    for name, title in _COUNTS.items():
        if counts := fact_counts(record, name):
            shown[title] = listed(counts)
    return shown


def fact_counts(record: Record, name: str) -> dict[str, int]:
    """Counts above 0 in the facts of a record, by name; of a log that may have any content."""
    counts = log_line.mapping(log_line.mapping(record, "facts"), name)
    return {
        reason: count
        for reason, value in counts.items()
        if (count := int(log_line.number(value) or 0)) > 0
    }
