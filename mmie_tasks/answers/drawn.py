"""The form of answers of ``--model interleaved``: a writer's text with pictures drawn to it, and
what could not be used.

Such an answer is the JSON of an object with a key ``drawing``. Beside it stand the parts under
``content``; or, if no picture belongs to the answer (multi-step reasoning, a failure of the
writer's API, an answer with pictures of the writer's own), the writer's answer as it was, under
``answer``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.record.segment import Segment, Segments

WITHHELD = ("unavailable", "misconfigured", "over_budget", "not_stored")
"""Why a picture is not in an answer through no fault of the models: another run may draw it."""

_MAX_CHARACTERS = 500  # of a signature
_NAME_CHARACTERS = 80  # of a reason and of what is unused
_MAX_COUNT = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawingFacts:
    """How an answer was put together.

    Attributes:
        signature: Protocol and drawer: ``step-2,images,model=flux,size=512x512``. Without ``|``.
        drawn: Pictures in the answer.
        failed: Pictures that are not in the answer because they could not be drawn, by reason.
        unused: What the writer wrote and the protocol could not use, by name.
    """

    signature: str
    drawn: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    unused: Mapping[str, int] = field(default_factory=dict)

    @property
    def withheld(self) -> Mapping[str, int]:
        """Of the pictures that failed those that another run may draw: see `WITHHELD`."""
        return {reason: count for reason, count in self.failed.items() if reason in WITHHELD}


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnAnswer:
    """An answer of ``--model interleaved``.

    Attributes:
        answer: Texts and pictures in order, the pictures with the words that they were drawn to; or
            the writer's answer as it was.
        facts: How it was put together.
    """

    answer: str | Segments
    facts: DrawingFacts


def write_drawn_answer(parts: Iterable[Segment], facts: DrawingFacts) -> str:
    r"""Write texts and pictures, each in a segment of its own, as an answer.

    >>> parts = [Segment(text="Cut."), Segment(image="1.png", prompt="scissors")]
    >>> write_drawn_answer(parts, DrawingFacts(signature="s"))
    ... # doctest: +ELLIPSIS
    '{"content": [{"type": "text", "text": "Cut."}, {"type": "image", "path": "1.png", ...
    """
    content = [
        {"type": "text", "text": part.text}
        if part.image is None
        else {"type": "image", "path": part.image, "prompt": part.prompt}
        for part in parts
    ]
    return _written({"content": content, "drawing": asdict(facts)})


def write_undrawn_answer(answer: str, facts: DrawingFacts) -> str:
    """Write a writer's answer that no picture belongs to; `read_drawn_answer` returns it
    unchanged.
    """
    return _written({"answer": answer, "drawing": asdict(facts)})


def read_drawn_answer(text: str) -> DrawnAnswer | None:
    """Read an answer of ``--model interleaved``; None for any other text.

    The pictures are counted again.

    >>> read_drawn_answer(write_undrawn_answer("42", DrawingFacts(signature="step-2"))).answer
    '42'
    >>> read_drawn_answer('{"answer": "42"}') is None
    True
    """
    if not (text.startswith("{") and '"drawing"' in text):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match value:
        case {"content": list() as content, "drawing": {"signature": str(signature), **rest}} if (
            len(value) == 2
        ):
            parts = [part for value in content if (part := _part(value)) is not None]
            if len(parts) < len(content):
                return None
            answer: str | Segments = tuple(parts)
        case {"answer": str(answer), "drawing": {"signature": str(signature), **rest}} if (
            len(value) == 2
        ):
            parts = []
        case _:
            return None
    one_line = " ".join(replace_surrogates(signature).replace("|", " ").split())
    facts = DrawingFacts(
        signature=one_line[:_MAX_CHARACTERS],
        drawn=sum(part.image is not None for part in parts),
        failed=_counts(rest.get("failed")),
        unused=_counts(rest.get("unused")),
    )
    return DrawnAnswer(answer=answer, facts=facts)


def _part(value: object) -> Segment | None:
    """A part as `write_drawn_answer` writes it; None for any other value."""
    match value:
        case {"type": "text", "text": str(text), **rest} if not rest:
            return Segment(text=text)
        case {"type": "image", "path": str(path), "prompt": str(prompt), **rest} if (
            not rest and path.strip()
        ):
            return Segment(image=path, prompt=prompt)
    return None


def _written(answer: Mapping[str, object]) -> str:
    return replace_surrogates(json.dumps(answer, ensure_ascii=False))


def _counts(value: object) -> dict[str, int]:
    """Counts by name, of a file that may have been edited: cut to lengths and numbers that a log
    can take.
    """
    counts = value if isinstance(value, dict) else {}
    names = {
        replace_surrogates(str(name))[:_NAME_CHARACTERS]: count for name, count in counts.items()
    }
    return {
        name: min(count, _MAX_COUNT)
        for name, count in names.items()
        if type(count) is int and count > 0
    }
