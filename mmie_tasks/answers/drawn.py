"""Answers of ``--model interleaved``: a writer's text with pictures drawn to it, and what could not be used.

Such an answer is the JSON of an object with a key ``drawing``. Beside it stand the parts under ``content``; or, if no
picture belongs to the answer (multi-step reasoning, a failure of the writer's API, an answer with pictures of the
writer's own), the writer's answer as it was, under ``answer``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mmie_tasks.answers.segments import replace_surrogates


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawingFacts:
    """How an answer was put together.

    Attributes:
        signature: Protocol and drawer: ``step-1,images,model=flux,size=512x512``. Without ``|``.
        drawn: Pictures in the answer.
        failed: Pictures that are not in the answer because they could not be drawn, by reason.
        unused: What the writer wrote and the protocol could not use, by name.
    """

    signature: str
    drawn: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    unused: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPicture:
    """A picture in an answer.

    Attributes:
        path: The image file.
        prompt: The words it was drawn to.
    """

    path: Path
    prompt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnAnswer:
    """An answer of ``--model interleaved``.

    Attributes:
        answer: The object with the parts under ``content``, or the writer's answer as it was.
        facts: How it was put together.
    """

    answer: object
    facts: DrawingFacts


def write_drawn_answer(parts: Iterable[str | DrawnPicture], facts: DrawingFacts) -> str:
    r"""Write texts and pictures, in order, as an answer.

    >>> write_drawn_answer(["Cut.", DrawnPicture(path=Path("1.png"), prompt="scissors")], DrawingFacts(signature="s"))
    ... # doctest: +ELLIPSIS
    '{"content": [{"type": "text", "text": "Cut."}, {"type": "image", "path": "1.png", "prompt": "scissors"}], ...
    """
    content = [
        {"type": "image", "path": str(part.path), "prompt": part.prompt}
        if isinstance(part, DrawnPicture)
        else {"type": "text", "text": part}
        for part in parts
    ]
    return _written({"content": content, "drawing": asdict(facts)})


def write_undrawn_answer(answer: str, facts: DrawingFacts) -> str:
    """Write a writer's answer that no picture belongs to; `read_drawn_answer` returns it unchanged."""
    return _written({"answer": answer, "drawing": asdict(facts)})


def read_drawn_answer(text: str) -> DrawnAnswer | None:
    """Read an answer of ``--model interleaved``; None for any other text.

    >>> read_drawn_answer(write_undrawn_answer("42", DrawingFacts(signature="step-1"))).answer
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
        case {"content": list() as content, "drawing": {"signature": str(signature), **rest}} if len(value) == 2:
            answer: object = {"content": content}
        case {"answer": str(answer), "drawing": {"signature": str(signature), **rest}} if len(value) == 2:
            pass
        case _:
            return None
    drawn = rest.get("drawn")
    facts = DrawingFacts(
        signature=signature.replace("|", " "),
        drawn=drawn if type(drawn) is int else 0,
        failed=_counts(rest.get("failed")),
        unused=_counts(rest.get("unused")),
    )
    return DrawnAnswer(answer=answer, facts=facts)


def _written(answer: Mapping[str, object]) -> str:
    return replace_surrogates(json.dumps(answer, ensure_ascii=False))


def _counts(value: object) -> dict[str, int]:
    counts = value if isinstance(value, dict) else {}
    return {str(name): count for name, count in counts.items() if type(count) is int and count > 0}
