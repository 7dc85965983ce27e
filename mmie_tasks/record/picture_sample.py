"""The record of a sample whose question, gold and answer are texts and pictures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Protocol

from mmie_tasks.record import log_line
from mmie_tasks.record.answer_facts import AnswerFacts, fact_counts
from mmie_tasks.record.judged_sample import Judged
from mmie_tasks.record.rows import Row
from mmie_tasks.record.sample import Line, LoggedSample, Record
from mmie_tasks.record.segment import Segments, segment_rows


class _PictureSample(Protocol):
    """A sample of the data with texts and pictures."""

    @property
    def id(self) -> str: ...
    @property
    def question(self) -> Segments: ...
    @property
    def gold(self) -> Segments: ...


def picture_record(
    sample: _PictureSample,
    judged: Judged,
    facts: AnswerFacts,
    answer: Segments,
    signature: str,
    *,
    form: log_line.RecordForm,
    sample_fields: Mapping[str, object],
) -> Row:
    """The record of a sample with question, gold and answer as texts and pictures, and facts about
    the answer; `read_picture_sample` and `answer_facts.facts_of` read it.

    Args:
        sample: The question.
        judged: The verdicts on its answer, and the judges' replies.
        facts: About the answer and its request.
        answer: As the judge was shown it; empty if it was not parsed.
        signature: Everything that can move the score.
        form: Of the verdicts.
        sample_fields: The benchmark's own fields about the sample.
    """
    question, gold = segment_rows(sample.question), segment_rows(sample.gold)
    return log_line.sample_record(
        sample.id,
        judged,
        signature,
        form=form,
        sample_fields=sample_fields,
        request_fields={"facts": asdict(facts), "question": question, "gold": gold},
        answer_fields={"answer": segment_rows(answer)},
    )


def shown_answer(record: Record) -> Segments:
    """The answer as the judge was shown it; empty if it was not parsed.

    Raises:
        BadRecord: It has another form.
    """
    return log_line.segments(record, "answer") or ()


def read_picture_sample(line: Line, full_marks: float) -> LoggedSample:
    """The sample of a line with question, gold and answer as texts and pictures: `log_line.sample`
    of a benchmark with pictures in answers.

    Raises:
        BadRecord: The line has no record, or a field is missing or has another form.
    """
    sample, record = log_line.sample(line, full_marks), log_line.record_of(line)
    question, gold = (log_line.segments(record, name) for name in ("question", "gold"))
    return replace(
        sample,
        question=log_line.question(line, None) if question is None else question,
        gold=sample.gold if gold is None else gold,
        answer=shown_answer(record) or sample.answer,
        pictures_not_drawn=sum(fact_counts(record, "not_drawn").values()),
        picture_signs=tuple(fact_counts(record, "picture_signs")),
        pictures_unplaced=int(
            log_line.number(log_line.mapping(record, "facts").get("unplaced")) or 0
        ),
    )
