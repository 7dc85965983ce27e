"""Samples of MMIE: a question of text and images, and a gold answer of the same kind.

Source: ``dataset.py``, ``prompts.py`` and ``main.py`` of Lillianwei-h/MMIE at eb0fd6e, and the rows
of ``MMIE/MMIE`` on the Hub.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mmie_tasks.core.errors import BadSample
from mmie_tasks.record.segment import Segment

CATEGORIES = ("SA", "PBL", "MSR")
"""Situational analysis, project-based learning, multi-step reasoning.

The order in which an id is searched for them (``prompts.py:32-40``, ``main.py:190-197``).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One question and its gold answer.

    Attributes:
        id: As released; it names the category.
        index: Position among the task's samples in the order of the data file, from 0.
        row: Position in the task's dataset, from 0: the runner's number of the sample.
        category: One of `CATEGORIES`, by the id.
        field: As released: ``Education``; empty if the row has none.
        question: In order.
        gold: In order; the request to the judge has its first text, and only for MSR.
    """

    id: str
    index: int
    row: int
    category: str
    field: str
    question: tuple[Segment, ...]
    gold: tuple[Segment, ...]

    @classmethod
    def from_doc(cls, doc: Mapping[str, Any]) -> Sample:
        """Read a row of the dataset that lmms-eval iterates (see ``data.py``).

        Raises:
            BadSample: The id names no category.
        """
        return cls(
            id=doc["id"],
            index=doc["index"],
            row=doc["row"],
            category=category_of(doc["id"]),
            field=doc["field"],
            question=_segments(doc["question"]),
            gold=_segments(doc["gold"]),
        )


def category_of(sample_id: str) -> str:
    """The category of an id: the first of `CATEGORIES` that it contains, as official.

    Raises:
        BadSample: It contains none. The official script ends here.

    >>> category_of("PBL-17"), category_of("MSR-SA-3")
    ('PBL', 'SA')
    """
    for category in CATEGORIES:
        if category in sample_id:
            return category
    raise BadSample(f"MMIE, sample {sample_id}: `id` contains none of {', '.join(CATEGORIES)}")


def _segments(rows: Iterable[Mapping[str, Any]]) -> tuple[Segment, ...]:
    return tuple(Segment(text=row["text"], image=row["image"]) for row in rows)
