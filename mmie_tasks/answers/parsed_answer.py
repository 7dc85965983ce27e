"""A parsed answer: ordered segments of text and images, or the reason why there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mmie_tasks.answers.drawn import DrawingFacts
from mmie_tasks.record.segment import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedAnswer:
    """An answer as segments, or the reason why there is no answer.

    Attributes:
        segments: In order; empty if there is no answer. The segments of an empty answer have
            neither text nor image.
        shape: How the answer was written, for counts and logs: ``json:content``, ``text``. Of an
            answer without content, ``empty`` or ``only thinking``.
        failure: Why there is no answer, for people; empty if there is one.
        thinking_removed: Whether thinking was removed.
        unfilled_placeholders: How many placeholders got no image and stayed in the text.
        unread: How many texts and images of the answer are not in the segments, by their key or
            the type of their part. Thinking and messages of other roles are not among them.
        drawing: How an answer of ``--model interleaved`` was put together; None for other answers.
    """

    segments: tuple[Segment, ...] = ()
    shape: str
    failure: str = ""
    thinking_removed: bool = False
    unfilled_placeholders: int = 0
    unread: Mapping[str, int] = field(default_factory=dict)
    drawing: DrawingFacts | None = None


def joined(shape: str, answers: Sequence[ParsedAnswer]) -> ParsedAnswer:
    """Several answers, or parts of one, in order."""
    return ParsedAnswer(
        segments=tuple(segment for answer in answers for segment in answer.segments),
        shape=shape,
        thinking_removed=any(answer.thinking_removed for answer in answers),
        unfilled_placeholders=sum(answer.unfilled_placeholders for answer in answers),
        unread=dict(sum((Counter(answer.unread) for answer in answers), Counter[str]())),
    )
