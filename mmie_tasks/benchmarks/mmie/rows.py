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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from loguru import logger
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, BadSample, category_of
from mmie_tasks.record.segment import Segment

_SEVERAL_TURNS = "rows with several turns of one role, joined in order"
_SEVERAL_TOKENS = "ids that name several categories, of which the first of SA, PBL, MSR counts"
_NO_QUESTION = "questions with neither text nor image"
_NO_GOLD = "MSR samples without a gold answer, which cannot be judged"

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


class _DataRow(_Model):
    id: str = Field(min_length=1)
    field: Annotated[str, BeforeValidator(_as_label)] = ""
    subfield: Annotated[str, BeforeValidator(_as_label)] = ""


class _HubRow(_DataRow):
    conversations: list[Annotated[_Question | _GoldAnswer, Field(discriminator="role")]]


class _JudgeRow(_DataRow):
    question: _Content
    gt_answer: _GoldContent | None = None


def read_rows(
    values: Iterable[object], leave_out: Callable[[int, str], None] | None = None
) -> list[DataRow]:
    """Check the rows of a file; harmless oddities are counted in the log, one line per kind.

    Args:
        values: The rows.
        leave_out: Called with the position (from 0) of each row that cannot be used, and the
            problem, which names row, id and field. None: the first one is an error.

    Raises:
        BadSample: A row cannot be used, and `leave_out` is None.
    """
    reader = _Reader()
    rows = []
    for number, value in enumerate(values):
        try:
            rows.append(reader.row(number, value))
        except BadSample as error:  # noqa: PERF203 - the other rows are read
            if leave_out is None:
                raise
            leave_out(number, str(error))
    for oddity, locations in reader.oddities.items():
        logger.warning(f"MMIE: {oddity}: {len(locations):,}, the first at {locations[0]}.")
    return rows


class _Reader:
    """Reads row after row; ids must be unique, because answers are matched to samples by them."""

    def __init__(self) -> None:
        self._row_of: dict[str, int] = {}
        self.oddities: dict[str, list[str]] = {}  # kind to locations

    def row(self, number: int, value: object) -> DataRow:
        """The checked row; raises `BadSample`."""
        sample_id = value.get("id") if isinstance(value, Mapping) else None
        location = f"row {number}"
        if isinstance(sample_id, str) and sample_id:
            location += f", id {sample_id!r}"
        try:
            row = _parsed(value)
            category = category_of(row.id)
        except BadSample as error:
            raise BadSample(f"{location}: {error}") from None
        first = self._row_of.setdefault(row.id, number)
        if first != number:
            raise BadSample(f"{location}: `id` is repeated, first at row {first}")
        question, gold = _content(row)
        is_odd = {
            _SEVERAL_TOKENS: sum(name in row.id for name in CATEGORIES) > 1,
            _SEVERAL_TURNS: isinstance(row, _HubRow) and _has_several_turns(row),
            _NO_QUESTION: not any(segment.text or segment.image for segment in question),
            _NO_GOLD: category == "MSR" and not gold,
        }
        for oddity in (oddity for oddity, applies in is_odd.items() if applies):
            self.oddities.setdefault(oddity, []).append(location)
        return DataRow(
            number=number,
            id=row.id,
            category=category,
            field=row.field,
            subfield=row.subfield,
            question=question,
            gold=gold,
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


def _content(row: _HubRow | _JudgeRow) -> tuple[SegmentTuple, SegmentTuple]:
    """Question and gold answer."""
    if isinstance(row, _JudgeRow):
        return _segments(row.question), _segments(row.gt_answer or ())
    by_role: dict[str, SegmentTuple] = {"human": (), "gpt": ()}
    for turn in row.conversations:
        by_role[turn.role] += _segments(turn.content)
    return by_role["human"], by_role["gpt"]


def _segments(parts: Iterable[_RowPart]) -> SegmentTuple:
    return tuple(Segment(part.text, part.image or None) for part in parts)


def _has_several_turns(row: _HubRow) -> bool:
    roles = [turn.role for turn in row.conversations]
    return len(roles) > len(set(roles))


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__
