"""The type of a parsed answer: ordered segments of text and images, or why there is no answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from mmie_tasks.answers.drawn import DrawingFacts
from mmie_tasks.record.segment import Segment

PartsKey: TypeAlias = Literal["content", "messages", "output"]
"""The key of an object that its list of parts is under."""

Kind: TypeAlias = (
    PartsKey
    | Literal["parts", "part", "text+images"]  # the other objects
    | Literal["text", "markdown", "saved to", "folder"]
    | Literal["rounds", "empty", "only thinking"]
    | Literal["sentinel", "null", "not text", "video"]  # failures
)
Notation: TypeAlias = Literal["", "json", "object"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedAnswer:
    """An answer as segments, or the reason why there is no answer.

    Attributes:
        segments: In order; empty if there is no answer. The segments of an empty answer have
            neither text nor image.
        kind: The kind of answer; ``empty`` or ``only thinking`` without content.
        notation: How the object with the answer was written; empty if it was not in an object.
        failure: Why there is no answer, in words; empty if there is one.
        thinking_removed: Whether thinking was removed.
        unfilled_placeholders: Number of placeholders that got no image and stayed in the text.
        unplaced_images: Number of images after a text that has no place for them.
        unread: Number of texts and images that are not in the segments, by their key or the type
            of their part. Thinking and messages of other roles are not counted.
        drawing: How an answer of ``--model interleaved`` was put together; None for other answers.
    """

    segments: tuple[Segment, ...] = ()
    kind: Kind
    notation: Notation = ""
    failure: str = ""
    thinking_removed: bool = False
    unfilled_placeholders: int = 0
    unplaced_images: int = 0
    unread: Mapping[str, int] = field(default_factory=dict)
    drawing: DrawingFacts | None = None

    @property
    def shape(self) -> str:
        """How the answer was written, for counts and logs: ``json:content``, ``text``."""
        return f"{self.notation}:{self.kind}" if self.notation else self.kind

    @property
    def is_empty(self) -> bool:
        """Whether it is an answer without content."""
        return self.kind in ("empty", "only thinking")


def joined(kind: Kind, answers: Sequence[ParsedAnswer]) -> ParsedAnswer:
    """Several answers, or parts of one, in order."""
    return ParsedAnswer(
        segments=tuple(segment for answer in answers for segment in answer.segments),
        kind=kind,
        thinking_removed=any(answer.thinking_removed for answer in answers),
        unfilled_placeholders=sum(answer.unfilled_placeholders for answer in answers),
        unplaced_images=sum(answer.unplaced_images for answer in answers),
        unread=dict(sum((Counter(answer.unread) for answer in answers), Counter[str]())),
    )
