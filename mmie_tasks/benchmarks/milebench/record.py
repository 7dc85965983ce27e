"""The record of a MileBench sample."""

from __future__ import annotations

from dataclasses import replace

from typing_extensions import override

from mmie_tasks.benchmarks.milebench.sample import TASK_OF, Sample, ScoringRule
from mmie_tasks.benchmarks.text_answer import logged_answer
from mmie_tasks.record.record import Line, Record, question_of
from mmie_tasks.record.sample import LoggedSample, Needle
from mmie_tasks.record.segment import Segments, text_segments


class MileRecord(Record):
    """The record of a MileBench sample.

    Attributes:
        dataset: One of the 29 datasets.
        task: The dataset's task in the paper.
        rule: How answers are scored.
        level: ``few``, ``medium`` or ``many`` images.
        gold: The reference answer; None if the data has none.
        choices: The options; empty for a question without options.
        images: The image files at the placeholders of the prompt.
    """

    dataset: str
    task: str
    rule: ScoringRule
    level: str
    gold: str | None = None
    choices: tuple[str, ...] = ()
    images: tuple[str, ...] = ()

    @property
    @override
    def groups(self) -> dict[str, tuple[str, ...]]:
        return {"dataset": (self.dataset,), "task": (self.task,), "level": (self.level,)}

    @override
    def shown_question(self, line: Line) -> Segments:
        return question_of(line, self.images)

    @override
    def shown_gold(self, line: Line) -> Segments:
        return text_segments(self.gold or "") or super().shown_gold(line)

    @override
    def shown_answer(self, line: Line) -> Segments:
        return logged_answer(line)

    @override
    def sample(self, line: Line) -> LoggedSample:
        prompt = str(line.get("input") or "")
        images = len(self.images)
        properties: dict[str, str | float | bool] = {"rule": self.rule, "images": images}
        needle = None
        if self.rule == "needle":  # its depth is known if the question contains the gold answer
            position = prompt.find(self.gold) if self.gold else -1
            depth = position / len(prompt) if position >= 0 else None
            needle = Needle(length=images, depth=depth)
            properties["needle_length"] = images
            if depth is not None:
                properties["needle_depth"] = depth
        return replace(super().sample(line), needle=needle, properties=properties)


def record_fields(sample: Sample) -> dict[str, object]:
    """The record's fields that come from the sample, except images."""
    return {
        "id": sample.id,
        "dataset": sample.dataset,
        "task": TASK_OF[sample.dataset],
        "rule": sample.rule,
        "level": sample.level,
        "gold": sample.gold,
        "choices": sample.choices,
    }
