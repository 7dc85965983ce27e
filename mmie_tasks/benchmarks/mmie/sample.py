"""Samples of MMIE: a question of text and images, and a gold answer of the same kind.

Source: ``dataset.py``, ``prompts.py`` and ``main.py`` of Lillianwei-h/MMIE at eb0fd6e, and the rows
of ``MMIE/MMIE`` on the Hub.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from mmie_tasks.benchmarks.data_row import DataRow, DataText, read_row
from mmie_tasks.core.errors import BadSample
from mmie_tasks.record.segment import Segment, Segments

CATEGORIES = ("SA", "PBL", "MSR")
"""Situational analysis, project-based learning, multi-step reasoning, in the order in which an id
is searched for them (``prompts.py:32-40``, ``main.py:190-197``).
"""


def _parts(value: object) -> object:
    """The official script also takes a plain text."""
    return [{"text": value}] if isinstance(value, str) else value


def _text(value: object) -> object:
    """The official script also takes numbers, as gold texts."""
    return str(value) if type(value) in (int, float) else value


def _label(value: object) -> object:
    """No script reads the labels, so one of another type is left out."""
    return value if isinstance(value, str) else ""


class _MmiePart(DataRow):
    text: Annotated[DataText | None, BeforeValidator(_text)] = None
    image: DataText | None = None


_Parts: TypeAlias = Annotated[list[_MmiePart], BeforeValidator(_parts)]
_Label: TypeAlias = Annotated[DataText, BeforeValidator(_label)]


class _MmieTurn(DataRow):
    role: Literal["human", "gpt"] = Field(alias="from")
    content: _Parts


class _MmieRow(DataRow):
    id: Annotated[DataText, Field(min_length=1)]
    conversations: list[_MmieTurn]
    field: _Label = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MmieSample:
    """One question and its gold answer.

    Attributes:
        id: The released id; it names the category.
        index: Position among the task's samples in the order of the data file, from 0.
        row: Position in the task's dataset, from 0: lmms-eval's number of the sample.
        category: One of `CATEGORIES`, from the id.
        field: The released field, such as ``Education``; empty if the row has none.
        question: Texts and images in order.
        gold: Texts and images in order; the judge gets only the first text, and only for MSR.
    """

    id: str
    index: int = 0
    row: int = 0
    category: str
    field: str = ""
    question: Segments
    gold: Segments

    @classmethod
    def from_row(cls, fields: object, location: str) -> MmieSample:
        """Read a row of the data file: the turns of ``human`` are the question, those of ``gpt``
        the gold answer. `location` names the row in messages: ``row 7``.

        Raises:
            BadSample: The row cannot be used; names location, id and field.
        """
        row = read_row(_MmieRow, fields, location)

        def parts(role: str) -> Segments:
            turns = (turn.content for turn in row.conversations if turn.role == role)
            return tuple(Segment(part.text, part.image or None) for turn in turns for part in turn)

        return cls(
            id=row.id,
            category=category_of(row.id, f"{location}, id {row.id!r}"),
            field=row.field,
            question=parts("human"),
            gold=parts("gpt"),
        )

    @classmethod
    def from_doc(cls, doc: Mapping[str, Any]) -> MmieSample:
        """Read a row of the dataset that lmms-eval iterates (see ``data.py``)."""
        question, gold = (
            tuple(Segment(text=part["text"], image=part["image"]) for part in doc[name])
            for name in ("question", "gold")
        )
        return cls(
            id=doc["id"],
            index=doc["index"],
            row=doc["row"],
            category=category_of(doc["id"]),
            field=doc["field"],
            question=question,
            gold=gold,
        )


def category_of(sample_id: str, location: str = "") -> str:
    """The first of `CATEGORIES` that an id contains, as official. Raises `BadSample` if it contains
    none, where the official script fails.

    >>> category_of("PBL-17"), category_of("MSR-SA-3")
    ('PBL', 'SA')
    """
    for category in CATEGORIES:
        if category in sample_id:
            return category
    location = location or f"MMIE, sample {sample_id}"
    raise BadSample(f"{location}: `id` contains none of {', '.join(CATEGORIES)}")
