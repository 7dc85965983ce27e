"""Reads and checks the rows of MMIE's data file.

A row has one of two forms:

* ``conversations``, as on the Hub: the turns of ``human`` are the question, those of ``gpt`` the
  gold answer.
* ``question``, the official judge's input (``dataset.py`` of Lillianwei-h/MMIE at eb0fd6e); the
  gold answer is ``gt_answer``, and ``answer`` and ``model`` are ignored.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from mmie_tasks.benchmarks.mmie.sample import category_of
from mmie_tasks.core.errors import BadSample
from mmie_tasks.record.segment import Segment

SegmentTuple: TypeAlias = tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRow:
    """A checked row of the data file; images are named as in the file.

    Attributes:
        number: Position in the file, from 0.
    """

    number: int
    id: str
    category: str
    field: str
    subfield: str
    question: SegmentTuple
    gold: SegmentTuple


def _as_parts(content: object) -> object:
    """A plain text is one segment, as for an ``answer`` in the official script."""
    return [{"text": content}] if isinstance(content, str) else content


def _as_text(value: object) -> object:
    """A number in a gold answer is its text, as in the official script."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return str(value) if is_number else value


def _as_label(value: object) -> object:
    return value if isinstance(value, str) else ""  # no script reads labels


class _Model(BaseModel):
    model_config = ConfigDict(strict=True)


class _RowPart(_Model):
    text: str | None = None
    image: str | None = None


class _GoldPart(_RowPart):
    text: Annotated[str | None, BeforeValidator(_as_text)] = None


_Content = Annotated[list[_RowPart], BeforeValidator(_as_parts)]
_GoldContent = Annotated[list[_GoldPart], BeforeValidator(_as_parts)]


class _Question(_Model):
    role: Literal["human"] = Field(alias="from")
    content: _Content


class _GoldAnswer(_Model):
    role: Literal["gpt"] = Field(alias="from")
    content: _GoldContent


class _Labels(_Model):
    id: str = Field(min_length=1)
    field: Annotated[str, BeforeValidator(_as_label)] = ""
    subfield: Annotated[str, BeforeValidator(_as_label)] = ""


class _HubRow(_Labels):
    conversations: list[Annotated[_Question | _GoldAnswer, Field(discriminator="role")]]

    def parts(self, role: str) -> list[_RowPart]:
        """The content of a role's turns, in order."""
        return [part for turn in self.conversations if turn.role == role for part in turn.content]


class _JudgeRow(_Labels):
    question: _Content
    gt_answer: _GoldContent | None = None


def read_row(number: int, value: object) -> DataRow:
    """Check a row.

    Args:
        number: Its position in the file, from 0.
        value: The row.

    Raises:
        BadSample: It cannot be used; names row, id and field.
    """
    sample_id = value.get("id") if isinstance(value, Mapping) else None
    is_named = isinstance(sample_id, str) and sample_id
    try:
        return _row(number, value)
    except BadSample as error:
        location = f"row {number}, id {sample_id!r}" if is_named else f"row {number}"
        raise BadSample(f"{location}: {error}") from None


def _row(number: int, value: object) -> DataRow:
    row = _parsed(value)
    if isinstance(row, _HubRow):
        question, gold = row.parts("human"), row.parts("gpt")
    else:
        question, gold = row.question, [*(row.gt_answer or ())]
    return DataRow(
        number=number,
        id=row.id,
        category=category_of(row.id),
        field=row.field,
        subfield=row.subfield,
        question=_segments(question),
        gold=_segments(gold),
    )


def _parsed(value: object) -> _HubRow | _JudgeRow:
    if not isinstance(value, Mapping):
        raise BadSample(f"it is {_kind(value)}, not an object")
    form = _HubRow if "conversations" in value else _JudgeRow
    if form is _JudgeRow and "question" not in value:
        keys = reprlib.repr(sorted(value))
        raise BadSample(f"neither `conversations` nor `question` among {keys}")
    try:
        json.dumps(value, ensure_ascii=False).encode()
        return form.model_validate(value)
    except UnicodeEncodeError:
        raise BadSample("a text in it has a lone surrogate, which is not UTF-8") from None
    except ValidationError as error:
        first: Any = error.errors(include_url=False)[0]
        steps = [step for step in first["loc"] if step not in ("human", "gpt")]
        name = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
        raise BadSample(f"`{name[1:]}` is {_kind(first['input'])}: {first['msg']}") from None


def _segments(parts: Iterable[_RowPart]) -> SegmentTuple:
    return tuple(Segment(part.text, part.image or None) for part in parts)


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__
