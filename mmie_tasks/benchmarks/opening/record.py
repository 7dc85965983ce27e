"""The record of a sample of OpenING: what a run logs of it, and the sample read from a log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mmie_tasks.benchmarks.opening.official import FULL_MARKS
from mmie_tasks.benchmarks.opening.sample import TOPICS, Sample
from mmie_tasks.record import log_line
from mmie_tasks.record.answer_facts import AnswerFacts, shown_facts
from mmie_tasks.record.judged_sample import Judged
from mmie_tasks.record.metrics import slug
from mmie_tasks.record.picture_sample import picture_record, read_picture_sample
from mmie_tasks.record.rows import Row
from mmie_tasks.record.sample import BadRecord, Line, LoggedSample, Record
from mmie_tasks.record.segment import Segments

FORM = log_line.RecordForm(differ=True, parts=True)

_TOPICS = tuple(map(slug, TOPICS.values()))
_FACTS = {
    "shape": "shape of the answer",
    "steps": "steps of the answer",
    "gold_steps": "steps of the gold answer",
    "answer_pictures": "pictures in the answer",
    "shown_pictures": "pictures shown to the judge",
    "question_pictures_lost": "pictures of the question not shown",
    "drawn": "pictures drawn",
}
_COUNTS = {"pictures_lost": "pictures of the answer not shown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts(AnswerFacts):
    """Counts about an answer and its request; some answers have no request.

    Attributes:
        steps: Steps of the answer.
        gold_steps: Steps of the gold answer: what the tested model is told, unless a setting says
            otherwise.
        answer_pictures: Pictures that the answer names.
        pictures_lost: Of them those that the judge does not see, by reason.
        question_pictures_lost: Pictures of the question that the judge does not see.
        shown_pictures: Pictures in the request.
    """

    steps: int = 0
    gold_steps: int = 0
    answer_pictures: int = 0
    pictures_lost: Mapping[str, int] = field(default_factory=dict)
    question_pictures_lost: int = 0
    shown_pictures: int = 0

    def without_request(self) -> StepFacts:
        """These facts with no pictures shown."""
        return replace(self, shown_pictures=0)


def sample_record(
    sample: Sample, judged: Judged, facts: StepFacts, answer: Segments, signature: str
) -> Row:
    """Everything that is needed to score the sample again; the runner logs it under ``coverage``.

    Args:
        sample: The question.
        judged: The verdicts on its answer, and the judges' replies.
        facts: About the answer and its request.
        answer: Its steps; empty if it was not parsed.
        signature: Everything that can move the score.
    """
    fields = {"topic": sample.topic, "subtask": sample.subtask}
    return picture_record(sample, judged, facts, answer, signature, form=FORM, sample_fields=fields)


def read_line(line: Line) -> LoggedSample:
    """Read one line of a sample log.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    record = record_of(line)
    return replace(
        read_picture_sample(line, math.inf),
        groups=groups(log_line.text(record, "topic"), log_line.text(record, "subtask")),
        parts=log_line.component_shares(record),
        facts=_facts(record),
    )


def groups(topic: str, subtask: str) -> dict[str, tuple[str, ...]]:
    """Kind of group to the groups of a sample."""
    return {"topic": (topic,), "subtask": (slug(subtask),)}


def record_of(line: Line) -> Record:
    """The record of a line.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    record = log_line.record_of(line)
    if record.get("topic") not in _TOPICS:
        raise BadRecord("`topic` is none of OpenING's topics: not a sample of OpenING")
    return record


def _facts(record: Record) -> dict[str, str | float | bool]:
    """The facts worth showing: without zeros, empty texts and unset flags."""
    shown = shown_facts(record, _FACTS, _COUNTS)
    for name, share in log_line.component_shares(record)["official"].items():
        shown[name] = round(FULL_MARKS * share, 2)
    return shown
