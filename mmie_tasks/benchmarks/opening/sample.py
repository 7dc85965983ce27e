"""Samples of OpenING: a question of texts and pictures, and a gold answer of the same kind.

Source: ``OpenING-benchmark/test_data.jsonl`` and ``GPT_score_A.py`` of LanceZPF/OpenING at 56b663b.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mmie_tasks.benchmarks.data_fields import items_of, object_of, text_of
from mmie_tasks.core.errors import BadSample
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
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
    def from_row(cls, fields: object, location: str) -> Sample:
        """Read a row of the data file; `location` names it in messages: ``row 7``.

        Raises:
            BadSample: A field is missing or of the wrong kind, or the question is empty.
        """
        row = object_of(fields, location)
        sample_id = row.get("total_uid")
        match = _ID.fullmatch(sample_id) if isinstance(sample_id, str) else None
        if match is None or int(match[1]) not in TOPICS:
            raise BadSample(f"{location}: `total_uid` is {sample_id!r}, no id of a topic from 1")
        location = f"{location}, id {match[0]}"
        subtask = text_of(row.get("subtask_name"), f"{location}: `subtask_name`")
        turns = items_of(row.get("conversations"), f"{location}: `conversations`")
        if len(turns) != 2:
            raise BadSample(f"{location}: `conversations` has {len(turns)} turns instead of two")
        question, gold = (
            _steps(object_of(turn, f"{location}: a turn").get(name), f"{location}: `{name}`")
            for name, turn in zip(("input", "output"), turns, strict=True)
        )
        if not question:
            raise BadSample(f"{location}: `input` is empty")
        topic = slug(TOPICS[int(match[1])])
        return cls(id=match[0], topic=topic, subtask=subtask, question=question, gold=gold)

    @classmethod
    def from_doc(cls, doc: Mapping[str, Any]) -> Sample:
        """Read a row of the dataset that lmms-eval iterates (see ``data.py``)."""
        question, gold = (
            tuple(Segment(text=step["text"], image=step["image"]) for step in doc[name])
            for name in ("question", "gold")
        )
        texts = {name: doc[name] for name in ("id", "topic", "subtask")}
        return cls(**texts, row=doc["row"], question=question, gold=gold)


def _steps(value: object, location: str) -> Segments:
    steps = []
    for i, item in enumerate(items_of(value, location)):
        step = object_of(item, f"{location}[{i}]")
        text = text_of(step.get("text"), f"{location}[{i}]: `text`")
        image = text_of(step.get("image") or "", f"{location}[{i}]: `image`")
        steps.append(Segment(text=text, image=image or None))
    return tuple(steps)
