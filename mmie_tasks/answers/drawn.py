"""Writes answers of texts and images as JSON, and reads those whose images were drawn again.

The JSON is an object. Its ``content`` has the parts in order. In an answer of a run with a drawer,
``drawing`` says how it was put together, each image has its ``prompt``, and ``answer`` holds the
writer's unchanged answer in place of ``content`` if nothing was to be drawn (multi-step reasoning,
no marker, a failure of the writer's API, an answer with the writer's own images).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.record.segment import Segment, Segments

_OF_THE_MODELS = ("refused", "unusable")
"""Reasons for a missing image that stay; for every other, another run may draw it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawingFacts:
    """How an answer was put together.

    Attributes:
        signature: Protocol and drawer: ``step-3,images,model=flux,size=512x512``. Without ``|``.
        drawn: Number of images in the answer.
        failed: Number of images that could not be drawn, by reason.
        unused: What the writer wrote and the protocol could not use: name to count.
    """

    signature: Annotated[str, Field(pattern=r"^[^|\r\n]+$")]
    drawn: int = 0
    failed: Mapping[str, PositiveInt] = field(default_factory=dict)
    unused: Mapping[str, PositiveInt] = field(default_factory=dict)

    @property
    def withheld(self) -> Mapping[str, int]:
        """The failed images that another run may draw."""
        failed = self.failed.items()
        return {reason: count for reason, count in failed if reason not in _OF_THE_MODELS}


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnAnswer:
    """Texts and images in order, each image with its prompt; or the writer's own answer."""

    answer: str | Segments
    facts: DrawingFacts


class _DrawnPart(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    type: Literal["text", "image"]
    text: str | None = None
    path: str | None = None
    prompt: str = ""


class _Drawn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    content: tuple[_DrawnPart, ...] = ()
    answer: str | None = None
    drawing: DrawingFacts


def json_text(value: object) -> str:
    """JSON that can be written as UTF-8."""
    return replace_surrogates(json.dumps(value, ensure_ascii=False))


def write_answer(content: Iterable[str | Path]) -> str:
    """Write texts and image files, in order, as the JSON text that a model should return.

    A string is a text, a `Path` is an image. A relative path is searched below the working
    directory and the folders of the run.

    >>> write_answer(["Cut.", Path("1.png")])
    '{"content": [{"type": "text", "text": "Cut."}, {"type": "image", "path": "1.png"}]}'
    """
    return answer_json(
        Segment(image=str(part)) if isinstance(part, Path) else Segment(part) for part in content
    )


def answer_json(segments: Iterable[Segment]) -> str:
    """Write segments, whose images are references of any kind, as an answer."""
    return json_text({"content": _parts(segments)})


def write_drawn_answer(segments: Iterable[Segment], facts: DrawingFacts) -> str:
    """Write texts and drawn images, each in a segment of its own, as an answer."""
    return json_text({"content": _parts(segments, has_prompts=True), "drawing": asdict(facts)})


def write_undrawn_answer(answer: str, facts: DrawingFacts) -> str:
    """Write a writer's answer without drawn images; `read_drawn_answer` returns it unchanged."""
    return json_text({"answer": answer, "drawing": asdict(facts)})


def read_drawn_answer(text: str) -> DrawnAnswer | None:
    """Read an answer of a run with a drawer, and count its images; None for other texts.

    >>> read_drawn_answer(write_undrawn_answer("42", DrawingFacts(signature="step-3"))).answer
    '42'
    >>> read_drawn_answer('{"answer": "42"}') is None
    True
    """
    if not (text.startswith("{") and '"drawing"' in text):
        return None
    try:
        written = _Drawn.model_validate_json(text)
    except (ValidationError, UnicodeEncodeError):
        return None
    drawn = sum(part.type == "image" for part in written.content)
    facts = replace(written.drawing, drawn=drawn)
    if written.answer is not None:
        return DrawnAnswer(answer=written.answer, facts=facts)
    segments = tuple(
        Segment(image=part.path, prompt=part.prompt) if part.type == "image" else Segment(part.text)
        for part in written.content
    )
    return DrawnAnswer(answer=segments, facts=facts)


def _parts(segments: Iterable[Segment], *, has_prompts: bool = False) -> list[dict[str, str]]:
    """The parts of segments; a segment with a text and an image is two."""
    parts: list[dict[str, str]] = []
    for segment in segments:
        if segment.text is not None:
            parts.append({"type": "text", "text": segment.text})
        if segment.image is not None:
            prompt = {"prompt": segment.prompt} if has_prompts else {}
            parts.append({"type": "image", "path": segment.image, **prompt})
    return parts
