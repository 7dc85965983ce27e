"""Samples of MMIE: a question of text and images, and a gold answer of the same kind.

Source: ``dataset.py``, ``prompts.py`` and ``main.py`` of Lillianwei-h/MMIE at eb0fd6e, and the rows
of ``MMIE/MMIE`` on the Hub.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mmie_tasks.benchmarks.data_fields import items_of, object_of, text_of
from mmie_tasks.core.errors import BadSample
from mmie_tasks.record.segment import Segment, Segments

CATEGORIES = ("SA", "PBL", "MSR")
"""Situational analysis, project-based learning, multi-step reasoning, in the order in which an id
is searched for them (``prompts.py:32-40``, ``main.py:190-197``).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One question and its gold answer.

    Attributes:
        id: The released id; it names the category.
        index: Position among the task's samples in the order of the data file, from 0.
        row: Position in the task's dataset, from 0: lmms-eval's number of the sample.
        category: One of `CATEGORIES`, from the id.
        field: The released field, such as ``Education``; empty if the row has none.
        subfield: The released subfield; empty if the row has none.
        question: Texts and images in order.
        gold: Texts and images in order; the judge gets only the first text, and only for MSR.
    """

    id: str
    index: int = 0
    row: int = 0
    category: str
    field: str = ""
    subfield: str = ""
    question: Segments
    gold: Segments

    @classmethod
    def from_row(cls, fields: object, location: str) -> Sample:
        """Read a row of the data file, in one of two forms.

        * ``conversations``, as on the Hub: the turns of ``human`` are the question, the turns of
          ``gpt`` the gold answer.
        * ``question``, the official judge's input (``dataset.py``): the gold answer is
          ``gt_answer``; ``answer`` and ``model`` are ignored.

        `location` names the row in messages: ``row 7``.

        Raises:
            BadSample: The row cannot be used; names location, id and field.
        """
        row = object_of(fields, location)
        if not (sample_id := text_of(row.get("id"), f"{location}: `id`")):
            raise BadSample(f"{location}: `id` is empty")
        location = f"{location}, id {sample_id!r}"
        if "conversations" in row:
            question, gold = _turns(row["conversations"], location)
        else:
            question = _content(row.get("question"), location, "question")
            answer = () if row.get("gt_answer") is None else row["gt_answer"]
            gold = _content(answer, location, "gt_answer", is_gold=True)
        field, subfield = (  # no script reads these two
            text_of(row[name], f"{location}: `{name}`") if isinstance(row.get(name), str) else ""
            for name in ("field", "subfield")
        )
        return cls(
            id=sample_id,
            category=category_of(sample_id, location),
            field=field,
            subfield=subfield,
            question=question,
            gold=gold,
        )

    @classmethod
    def from_doc(cls, doc: Mapping[str, Any]) -> Sample:
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


def _turns(value: object, location: str) -> tuple[Segments, Segments]:
    """The segments of ``human`` and of ``gpt``, in order."""
    by_role: dict[object, Segments] = {"human": (), "gpt": ()}
    for i, item in enumerate(items_of(value, f"{location}: `conversations`")):
        turn = object_of(item, f"{location}: `conversations[{i}]`")
        role = text_of(turn.get("from"), f"{location}: `conversations[{i}].from`")
        if role not in by_role:
            raise BadSample(f"{location}: `conversations[{i}].from` is neither human nor gpt")
        name = f"conversations[{i}].content"
        by_role[role] += _content(turn.get("content"), location, name, is_gold=role == "gpt")
    return by_role["human"], by_role["gpt"]


def _content(value: object, location: str, name: str, *, is_gold: bool = False) -> Segments:
    """The segments of a value. The official script also takes a plain text, and numbers as gold."""
    if isinstance(value, str):
        value = [{"text": value}]
    segments = []
    for i, item in enumerate(items_of(value, f"{location}: `{name}`")):
        part = object_of(item, f"{location}: `{name}[{i}]`")
        if is_gold and type(part.get("text")) in (int, float):
            part = {**part, "text": str(part["text"])}
        texts = {
            key: text_of(part[key], f"{location}: `{name}[{i}].{key}`")
            for key in ("text", "image")
            if part.get(key) is not None
        }
        segments.append(Segment(texts.get("text"), texts.get("image") or None))
    return tuple(segments)
