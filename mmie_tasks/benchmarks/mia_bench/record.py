"""The record of a MIA-Bench sample."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import Self, override

from mmie_tasks.benchmarks.mia_bench.robust import Mark, ParsedReply, is_impossible, read_reply
from mmie_tasks.benchmarks.text_answer import logged_answer
from mmie_tasks.record.record import Line, Record, question_of
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.segment import Segment, Segments

CLEAN = "clean"
"""The group of samples whose components do not contradict the instruction."""


def needed_replies(weights: Sequence[int], result: JudgeResult) -> JudgeResult:
    """The result without a second reply that today's reader would not request."""
    first = result.reply
    is_needed = first is not None and first.finish == "stop" and is_impossible(weights, first.text)
    return result if is_needed else JudgeResult(reply=first, failure=result.failure)


class MiaRecord(Record):
    """The record of a MIA-Bench sample.

    Attributes:
        type: The difficulty of the instruction.
        categories: The category of each component.
        weights: Full marks of each component, in points.
        contradictory: Whether the components contradict the instruction.
        components: The parts of the instruction that are graded.
        instruction: The instruction as released.
        image: Path of the image.
    """

    type: Literal["basic", "intermediate", "advanced", "creative", "complex"]
    categories: tuple[str, ...]
    weights: tuple[Annotated[int, Field(gt=0, lt=1000)], ...]
    contradictory: bool = False
    components: tuple[str, ...] = ()
    instruction: str = ""
    image: str = ""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if len(self.weights) != len(self.categories):
            raise ValueError("weights and categories differ in number")
        return self

    @property
    def marks(self) -> tuple[ParsedReply, ...]:
        """The marks in each judge's last reply, as the robust reader finds them."""
        results = (needed_replies(self.weights, j.result) for j in self.judgements)
        return tuple(read_reply(result.last_text, self.weights) for result in results)

    @property
    @override
    def groups(self) -> dict[str, tuple[str, ...]]:
        clean = {} if self.contradictory else {CLEAN: (CLEAN,)}
        component = tuple(dict.fromkeys(self.categories))
        return {"type": (self.type,), "component": component, **clean}

    @property
    @override
    def shown_properties(self) -> dict[str, str | float | bool]:
        """Text and each judge's mark for each component, and what is unusual."""
        properties: dict[str, str | float | bool] = {}
        of_judges = self.marks
        columns = zip_longest(
            self.categories,
            self.weights,
            self.components,
            zip_longest(*(marks.components for marks in of_judges)),
        )
        for number, (category, weight, text, component_marks) in enumerate(columns, 1):
            suffix = f": {text}" if text else ""
            marks_in_order = component_marks or (None,) * max(1, len(of_judges))
            shown = ", ".join(_shown_mark(mark, weight) for mark in marks_in_order)
            properties[f"component {number}"] = f"{category or '?'} {shown}{suffix}"
        if self.contradictory:
            properties["contradictory"] = True
        if len(of_judges) == 1:
            if not of_judges[0].agrees:
                properties["the stated total is that of its components"] = False
            if of_judges[0].recomputed is not None:
                properties["total of the components, percent"] = 100 * of_judges[0].recomputed
        return properties

    @override
    def shown_question(self, line: Line) -> Segments:
        """The image, then the instruction, as for the tested model."""
        return (Segment(image=self.image), *question_of(line, ()))

    @override
    def shown_answer(self, line: Line) -> Segments:
        return logged_answer(line)


def _shown_mark(mark: Mark | None, weight: int | None) -> str:
    """``3/4``; ``-/4`` if the reply gives no mark."""
    return f"{mark.points:g}/{mark.out_of:g}" if mark else f"-/{weight or '?'}"
