"""The layouts of MMRB2's files: its pairs with people's verdicts, and a judge's verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import BaseModel, Field, TypeAdapter

from mmie_tasks.quality.judge_exam.published_files import PublishedContent
from mmie_tasks.quality.judge_exam.verdict_set import Side

MMRB2_FILES = (
    "interleaved.json",
    "benchmark/interleaved.json",
    "benchmark/interleaved_response_only.json",
)

MMRB2_HINT = (
    f"name a folder with `{MMRB2_FILES[0]}`, or with `{MMRB2_FILES[-1]}` for the verdicts alone"
)


class _Mmrb2Answer(BaseModel):
    model_name: str
    response_content: PublishedContent


class Mmrb2Row(BaseModel):
    """A pair of answers, and people's verdict on it."""

    id: str
    prompt_content: PublishedContent | None = None
    prompt_source: str
    prompt_metadata: dict[str, object] = Field(default_factory=dict)
    response_a: _Mmrb2Answer
    response_b: _Mmrb2Answer
    chosen: Side
    human_annotations: tuple[Annotated[int, Field(ge=1, le=6)], ...] = ()


class Mmrb2File(BaseModel):
    """``interleaved.json`` as ``build_from_hf.py`` writes it, or the repository's file without
    questions.
    """

    pairs: tuple[Mmrb2Row, ...]


class _VerdictEntry(BaseModel):
    judgement: str | None = None


class _Orders(BaseModel):
    forward: tuple[_VerdictEntry, ...] = ()
    reverse: tuple[_VerdictEntry, ...] = ()


def mmrb2_judge_rows(text: str) -> Iterator[tuple[str, bool, str | None]]:
    """Ids of pairs, whether B is shown first, and the winner in the order shown, in a file of
    ``compute_accuracy.py``.

    The first entry of each order counts.
    """
    for pair, orders in TypeAdapter(dict[str, _Orders]).validate_json(text, strict=True).items():
        for is_reversed, entries in ((False, orders.forward), (True, orders.reverse)):
            yield pair, is_reversed, entries[0].judgement if entries else None
