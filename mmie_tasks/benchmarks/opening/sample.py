"""Samples of OpenING: a question of texts and pictures, and a gold answer of the same kind.

Source: ``OpenING-benchmark/test_data.jsonl`` and ``GPT_score_A.py`` of LanceZPF/OpenING at 56b663b.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from mmie_tasks.benchmarks.data_row import DataRow, DataText, read_row
from mmie_tasks.record.metrics import slug
from mmie_tasks.record.segment import Segment, Segments

TOPICS: Mapping[int, str] = {
    1: "Storybook Creation",
    2: "Multimodal Report Generation",  # some of its rows are named "Dynamic biography generation"
    3: "Multimodal Content Completion",
    4: "Multimodal Layout Generation",
    5: "GUI Navigation",
    6: "Interactive Image Editing",
    7: "Interactive Visual Design",
    8: "Multimodal Exam",
    9: "Graph Generation",
    10: "Event Reasoning and Deductive Simulation",
    11: "2D Image Reasoning",
    12: "Image-based 3D Reasoning",
    13: "Multimodal Information Summary",
    14: "Multimodal Information Recommendation",
    15: "Multimodal Brainstorming",
    16: "Multimodal Time Series Forecasting",
    17: "Geographical Tasks",
    18: "Social Media Tasks",
    19: "Fashion Tasks",
    20: "Cooking Tasks",
    21: "Educational Tasks",
    22: "Healthcare Tasks",
    23: "Embodied-AI Tasks",
}
"""Number of a meta-topic, which two names may share, to its name."""

_ID = re.compile(r"(\d\d)\d{5}", re.ASCII)  # numbers of meta-topic, task and question


def _of_a_topic(sample_id: str) -> str:
    match = _ID.fullmatch(sample_id)
    if match is None or int(match[1]) not in TOPICS:
        raise ValueError(f"{sample_id!r} is not the id of a topic from 1")
    return sample_id


class _OpeningStep(DataRow):
    text: DataText
    image: DataText | None = None


class _OpeningQuestion(DataRow):
    input: Annotated[list[_OpeningStep], Field(min_length=1)]


class _OpeningAnswer(DataRow):
    output: list[_OpeningStep]


class _OpeningRow(DataRow):
    total_uid: Annotated[DataText, AfterValidator(_of_a_topic)]
    subtask_name: DataText
    conversations: tuple[_OpeningQuestion, _OpeningAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpeningSample:
    """One question and its gold answer.

    Attributes:
        id: ``total_uid``, 7 digits; the first two are the number of the topic.
        row: Position in the task's dataset, from 0: lmms-eval's number of the sample.
        topic: The meta-topic in the form of task names.
        subtask: The released name, such as ``Story Writting``.
        question: Steps in order; images are paths.
        gold: Steps in order. The judge never sees them; a tested model is told their number.
    """

    id: str
    row: int = 0
    topic: str
    subtask: str
    question: Segments
    gold: Segments

    @classmethod
    def from_row(cls, fields: object, location: str) -> OpeningSample:
        """Read a row of the data file; `location` names it in messages: ``row 7``.

        Raises:
            BadSample: A field is missing or of the wrong kind, or the question is empty.
        """
        row = read_row(_OpeningRow, fields, location, "total_uid")
        question, gold = row.conversations
        return cls(
            id=row.total_uid,
            topic=slug(TOPICS[int(row.total_uid[:2])]),
            subtask=row.subtask_name,
            question=_segments(question.input),
            gold=_segments(gold.output),
        )

    @classmethod
    def from_doc(cls, doc: Mapping[str, Any]) -> OpeningSample:
        """Read a row of the dataset that lmms-eval iterates (see ``data.py``)."""
        question, gold = (
            tuple(Segment(text=step["text"], image=step["image"]) for step in doc[name])
            for name in ("question", "gold")
        )
        texts = {name: doc[name] for name in ("id", "topic", "subtask")}
        return cls(**texts, row=doc["row"], question=question, gold=gold)


def _segments(steps: list[_OpeningStep]) -> Segments:
    return tuple(Segment(text=step.text, image=step.image or None) for step in steps)
