"""The rows of MMIE's data file, checked, in either of the two forms it comes in.

* ``conversations``, as on the Hub: what ``human`` says is the question, what ``gpt`` says the gold
  answer.
* ``question``, as the official judge reads it (``dataset.py`` of Lillianwei-h/MMIE at eb0fd6e);
  the gold answer is ``gt_answer``, and ``answer`` and ``model`` are not looked at here.

The first row says which form the file has.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from loguru import logger

from mmie_tasks.answers.saved import encodable
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, BadSample, Segment, category_of

_ROLES = ("human", "gpt")
_FORMS = ("conversations", "question")
_LABELS = ("catagory", "category")  # the first is the dataset's own spelling
_LONG_NAMES = {
    "situationalanalysis": "SA",
    "projectbasedlearning": "PBL",
    "multistepreasoning": "MSR",
}

_LONE_SURROGATES = "texts with half a character (a lone surrogate), replaced by U+FFFD"
_SEVERAL_TURNS = "rows with several turns of one role, joined in order"
_SEVERAL_TOKENS = "ids that name several categories, of which the first of SA, PBL, MSR counts"
_UNKNOWN_LABEL = "category labels of no known spelling, not compared with the id"
_NO_QUESTION = "questions with neither text nor image"
_NO_GOLD = "MSR samples without a gold answer, which cannot be judged"
_NUMBERS = "gold answers that are numbers, taken as the text that the official script makes of them"

Fields = Mapping[str, object]
Segments = tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row; an image is still called as the file calls it."""

    id: str
    category: str
    field: str
    subfield: str
    question: Segments
    gold: Segments


def read_rows(values: Iterable[object]) -> list[Row]:
    """Check the rows of a file; what is odd and harmless is counted in the log, a line a kind.

    Raises:
        BadSample: A row cannot be used; names row (from 0), id and field.
    """
    reader = _Reader()
    rows = [reader.row(number, value) for number, value in enumerate(values)]
    reader.log()
    return rows


class _Reader:
    """What the next row is compared with, and what was odd so far."""

    def __init__(self) -> None:
        self._form = ""
        self._row_of: dict[str, int] = {}
        self._place = ""
        self._odd: dict[str, tuple[int, str]] = {}  # how often, and where first

    def log(self) -> None:
        for what, (count, place) in self._odd.items():
            logger.warning(f"MMIE: {what}: {count:,}, the first at {place}.")

    def row(self, number: int, value: object) -> Row:
        self._place = f"row {number}"
        try:
            fields = _object(value, "it")
            sample_id = self._id(fields, number)
            return self._row(sample_id, fields)
        except BadSample as error:
            raise BadSample(f"{self._place}: {error}") from None

    def _id(self, fields: Fields, number: int) -> str:
        """Answers are joined to samples by their ids, so none may stand twice."""
        value = fields.get("id")
        if not isinstance(value, str) or not value:
            raise BadSample(f"`id` is {reprlib.repr(value)}, not a text")
        sample_id = self._encodable(value)
        self._place += f", id {sample_id!r}"
        first = self._row_of.setdefault(sample_id, number)
        if first != number:
            raise BadSample(f"`id` stands twice, first at row {first}")
        return sample_id

    def _row(self, sample_id: str, fields: Fields) -> Row:
        category = self._category(sample_id, fields)
        question, gold = self._content(fields)
        if not any(segment.text or segment.image for segment in question):
            self._note(_NO_QUESTION)
        if category == "MSR" and not gold:
            self._note(_NO_GOLD)
        return Row(
            id=sample_id,
            category=category,
            field=self._label(fields, "field"),
            subfield=self._label(fields, "subfield"),
            question=question,
            gold=gold,
        )

    def _category(self, sample_id: str, fields: Fields) -> str:
        """The one the id names, as official. A label may not contradict it."""
        tokens = [category for category in CATEGORIES if category in sample_id]
        if not tokens:
            raise BadSample(f"`id` holds none of {', '.join(CATEGORIES)}")
        if len(tokens) > 1:
            self._note(_SEVERAL_TOKENS)
        for key in _LABELS:
            label = self._label(fields, key)
            named = _named(label)
            if label and named is None:
                self._note(_UNKNOWN_LABEL)
            elif named and named != tokens[0]:
                raise BadSample(f"`{key}` is {label!r}, and by its `id` it is {tokens[0]}")
        return category_of(sample_id)

    def _label(self, fields: Fields, key: str) -> str:
        return self._text(fields.get(key), key) or ""

    def _content(self, fields: Fields) -> tuple[Segments, Segments]:
        """Question and gold answer."""
        form = next((form for form in (self._form, *_FORMS) if form in fields), None)
        if form is None:
            raise BadSample(f"neither `conversations` nor `question` among {_keys(fields)}")
        self._form = self._form or form
        if form != self._form:
            raise BadSample(f"no `{self._form}`, as the rows before it have, among {_keys(fields)}")
        if form == "conversations":
            return self._said(fields[form])
        gold = fields.get("gt_answer")
        return (
            self._segments(fields[form], form),
            () if gold is None else self._segments(gold, "gt_answer", gold=True),
        )

    def _said(self, turns: object) -> tuple[Segments, Segments]:
        if not isinstance(turns, list):
            raise BadSample(f"`conversations` is {_kind(turns)}, not a list")
        said: dict[str, list[Segments]] = {role: [] for role in _ROLES}
        for i, turn in enumerate(turns):
            name = f"conversations[{i}]"
            fields = _object(turn, f"`{name}`")
            role = fields.get("from")
            if not isinstance(role, str) or role not in said:
                found = reprlib.repr(role)
                raise BadSample(f"`{name}.from` is {found}, neither 'human' nor 'gpt'")
            content, name = fields.get("content"), f"{name}.content"
            said[role].append(self._segments(content, name, gold=role == "gpt"))
        if not said["human"]:
            raise BadSample("`conversations` has no turn of 'human'")
        if any(len(turns_of_one) > 1 for turns_of_one in said.values()):
            self._note(_SEVERAL_TURNS)
        question, gold = (tuple(one for turn in said[role] for one in turn) for role in _ROLES)
        return question, gold

    def _segments(self, value: object, name: str, *, gold: bool = False) -> Segments:
        """A plain text is one segment, as the official script takes an ``answer``."""
        if isinstance(value, str):
            return (Segment(self._text(value, name)),)
        if not isinstance(value, list):
            raise BadSample(f"`{name}` is {_kind(value)}, not a list of text and images")
        return tuple(self._segment(item, f"{name}[{i}]", gold) for i, item in enumerate(value))

    def _segment(self, value: object, name: str, gold: bool) -> Segment:
        fields = _object(value, f"`{name}`")
        said = fields.get("text")
        if gold and isinstance(said, (int, float)) and not isinstance(said, bool):
            self._note(_NUMBERS)
            said = str(said)
        text = self._text(said, f"{name}.text")
        image = self._text(fields.get("image"), f"{name}.image")
        return Segment(text, image or None)

    def _text(self, value: object, name: str) -> str | None:
        if value is None:
            return None
        if not isinstance(value, str):
            raise BadSample(f"`{name}` is {_kind(value)}, not text")
        return self._encodable(value)

    def _encodable(self, text: str) -> str:
        clean = encodable(text)
        if clean is not text:
            self._note(_LONE_SURROGATES)
        return clean

    def _note(self, what: str) -> None:
        count, place = self._odd.get(what, (0, self._place))
        self._odd[what] = (count + 1, place)


def _named(label: str) -> str | None:
    """The category a label means, whatever its case and separators; None for no known one."""
    folded = re.sub(r"[\s_-]+", "", label).lower()
    short = folded.upper()
    return short if short in CATEGORIES else _LONG_NAMES.get(folded)


def _object(value: object, name: str) -> Fields:
    if not isinstance(value, Mapping):
        raise BadSample(f"{name} is {_kind(value)}, not an object")
    return value


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__


def _keys(fields: Fields) -> str:
    return reprlib.repr(sorted(fields))
