"""Writes and reads the answers of ``--model interleaved``: a writer's text and its drawn pictures.

The answer is the JSON of an object. ``drawing`` says how it was put together. ``content`` holds the
parts; or ``answer`` holds the writer's unchanged answer if nothing was to be drawn (multi-step
reasoning, a failure of the writer's API, an answer with the writer's own pictures).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, TypeAdapter, ValidationError

from mmie_tasks.answers.content_json import content_json, json_text
from mmie_tasks.record.segment import Segment, Segments

WITHHELD = ("unavailable", "misconfigured", "over_budget", "not_stored")
"""Reasons for a missing picture that are not the models' fault: another run may draw it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawingFacts:
    """How an answer was put together.

    Attributes:
        signature: Protocol and drawer: ``step-2,images,model=flux,size=512x512``. Without ``|``.
        drawn: Number of pictures in the answer.
        failed: Number of pictures that could not be drawn, by reason.
        unused: What the writer wrote and the protocol could not use: name to count.
    """

    signature: Annotated[str, Field(pattern=r"^[^|\r\n]+$")]
    drawn: int = 0
    failed: Mapping[str, PositiveInt] = field(default_factory=dict)
    unused: Mapping[str, PositiveInt] = field(default_factory=dict)

    @property
    def withheld(self) -> Mapping[str, int]:
        """The failed pictures that another run may draw: see `WITHHELD`."""
        return {reason: count for reason, count in self.failed.items() if reason in WITHHELD}


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnAnswer:
    """Texts and pictures in order, each picture with its prompt; or the writer's own answer."""

    answer: str | Segments
    facts: DrawingFacts


class _DrawnPart(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _DrawnText(_DrawnPart):
    type: Literal["text"] = "text"
    text: str


class _DrawnImage(_DrawnPart):
    type: Literal["image"] = "image"
    path: Annotated[str, Field(pattern=r"\S")]
    prompt: str


class _Drawn(_DrawnPart):
    content: tuple[_DrawnText | _DrawnImage, ...]
    drawing: DrawingFacts


class _Undrawn(_DrawnPart):
    answer: str
    drawing: DrawingFacts


_ANSWER: TypeAdapter[_Drawn | _Undrawn] = TypeAdapter(_Drawn | _Undrawn)


def write_drawn_answer(segments: Iterable[Segment], facts: DrawingFacts) -> str:
    r"""Write texts and pictures, each in a segment of its own, as an answer.

    >>> segments = [Segment(text="Cut."), Segment(image="1.png", prompt="scissors")]
    >>> write_drawn_answer(segments, DrawingFacts(signature="s"))
    ... # doctest: +ELLIPSIS
    '{"content": [{"type": "text", "text": "Cut."}, {"type": "image", "path": "1.png", ...
    """
    return content_json(segments, has_prompts=True, fields={"drawing": asdict(facts)})


def write_undrawn_answer(answer: str, facts: DrawingFacts) -> str:
    """Write a writer's answer without drawn pictures; `read_drawn_answer` returns it unchanged."""
    return json_text({"answer": answer, "drawing": asdict(facts)})


def read_drawn_answer(text: str) -> DrawnAnswer | None:
    """Read an answer of ``--model interleaved``, and count its pictures; None for other texts.

    >>> read_drawn_answer(write_undrawn_answer("42", DrawingFacts(signature="step-2"))).answer
    '42'
    >>> read_drawn_answer('{"answer": "42"}') is None
    True
    """
    if not (text.startswith("{") and '"drawing"' in text):
        return None
    try:
        written = _ANSWER.validate_json(text)
    except (ValidationError, UnicodeEncodeError):
        return None
    if isinstance(written, _Undrawn):
        return DrawnAnswer(answer=written.answer, facts=replace(written.drawing, drawn=0))
    segments = tuple(
        Segment(text=part.text)
        if isinstance(part, _DrawnText)
        else Segment(image=part.path, prompt=part.prompt)
        for part in written.content
    )
    n_drawn = sum(part.image is not None for part in segments)
    return DrawnAnswer(answer=segments, facts=replace(written.drawing, drawn=n_drawn))
