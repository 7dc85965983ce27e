"""The record of an OpenING sample: what a run logs about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator
from typing_extensions import override

from mmie_tasks.benchmarks.opening.official import FULL_MARKS
from mmie_tasks.benchmarks.opening.sample import TOPICS
from mmie_tasks.record.answer_facts import AnswerFacts, properties_of
from mmie_tasks.record.metrics import slug
from mmie_tasks.record.record import ImageRecord

_TOPICS = tuple(map(slug, TOPICS.values()))
_TITLES = {
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
        gold_steps: Steps of the gold answer; the tested model is told this number by default.
        answer_pictures: Pictures that the answer names.
        pictures_lost: Pictures of the answer that the judge does not see, by reason.
        question_pictures_lost: Pictures of the question that the judge does not see.
        shown_pictures: Pictures in the request.
    """

    steps: int = 0
    gold_steps: int = 0
    answer_pictures: int = 0
    pictures_lost: Mapping[str, int] = field(default_factory=dict)
    question_pictures_lost: int = 0
    shown_pictures: int = 0


def _topic(topic: str) -> str:
    if topic not in _TOPICS:
        raise ValueError("not a topic of OpenING")
    return topic


class OpeningRecord(ImageRecord):
    """The record of a sample of OpenING.

    Attributes:
        topic: One of 23 topics.
        subtask: One of 56 subtasks, as released.
        facts: Counts about the answer and its request.
    """

    topic: Annotated[str, AfterValidator(_topic)]
    subtask: str
    facts: StepFacts = StepFacts()

    @property
    @override
    def groups(self) -> dict[str, tuple[str, ...]]:
        return {"topic": (self.topic,), "subtask": (slug(self.subtask),)}

    @property
    @override
    def shown_properties(self) -> dict[str, str | float | bool]:
        shown = properties_of(self.facts, _TITLES, _COUNTS)
        for name, share in self.shares.get("official", {}).items():
            shown[name] = round(FULL_MARKS * share, 2)
        return shown
