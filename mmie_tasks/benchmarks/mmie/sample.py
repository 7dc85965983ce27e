"""Samples of MMIE: a question of text and images, and a gold answer of the same kind.

Source: ``dataset.py``, ``prompts.py`` and ``main.py`` of Lillianwei-h/MMIE at eb0fd6e, and the rows
of ``MMIE/MMIE`` on the Hub.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mmie_tasks.core.messages import replace_surrogates

CATEGORIES = ("SA", "PBL", "MSR")
"""Situational analysis, project-based learning, multi-step reasoning.

The order in which an id is searched for them (``prompts.py:32-40``, ``main.py:190-197``).
"""


class BadSample(ValueError):
    """A row that cannot be used; the message names the sample and the field."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A text followed by an image, of a question or an answer; either may be absent.

    Attributes:
        text: None if absent; an empty text is a text.
        image: Path of an image file; None if absent.
        missing: Whether the file does not exist.
    """

    text: str | None = None
    image: str | None = None
    missing: bool = False


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
    def from_doc(cls, doc: Mapping[str, object]) -> Sample:
        """Read a row of the dataset that lmms-eval iterates.

        Raises:
            BadSample: A field is missing or of the wrong kind, or the id names no category.
        """
        sample_id = doc.get("id")
        if not isinstance(sample_id, str) or not sample_id:
            raise BadSample(f"MMIE: `id` is {sample_id!r}, not a text")
        location = f"MMIE, sample {sample_id}"
        field = doc.get("field") or ""
        if not isinstance(field, str):
            raise BadSample(f"{location}: `field` is {field!r}, not a text")
        return cls(
            id=sample_id,
            index=_number(doc, "index", location),
            row=_number(doc, "row", location),
            category=category_of(sample_id),
            field=field,
            question=_segments(doc.get("question"), f"{location}: `question`"),
            gold=_segments(doc.get("gold"), f"{location}: `gold`"),
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


def _number(doc: Mapping[str, object], name: str, location: str) -> int:
    value = doc.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadSample(f"{location}: `{name}` is {value!r}, not a number")
    return value


def _segments(value: object, location: str) -> tuple[Segment, ...]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise BadSample(f"{location} is {type(value).__name__}, not a list of text and images")
    return tuple(_segment(segment, f"{location}[{i}]") for i, segment in enumerate(value))


def _segment(value: object, location: str) -> Segment:
    fields = _object(value, location)
    text, image = fields.get("text"), fields.get("image")
    if not isinstance(text, (str, type(None))):
        raise BadSample(f"{location}: `text` is {type(text).__name__}, not text")
    if not isinstance(image, (str, type(None))):
        raise BadSample(f"{location}: `image` is {type(image).__name__}, not a path")
    return Segment(text=text, image=image or None)  # an empty path is no image


# The data file has one of two forms, which its first row shows:
#
# * ``conversations``, as on the Hub: the turns of ``human`` are the question, those of ``gpt`` the
#   gold answer.
# * ``question``, the official judge's input (``dataset.py`` of Lillianwei-h/MMIE at eb0fd6e); the
#   gold answer is ``gt_answer``, and ``answer`` and ``model`` are ignored.

_ROLES = ("human", "gpt")
_FORMS = ("conversations", "question")
_LABELS = ("catagory", "category")  # the first is the dataset's own spelling
_LONG_NAMES = {"situationalanalysis": "SA", "projectbasedlearning": "PBL", "multistepreasoning": "MSR"}
_LONE_SURROGATES = "texts with half a character (a lone surrogate), replaced by U+FFFD"
_SEVERAL_TURNS = "rows with several turns of one role, joined in order"
_SEVERAL_TOKENS = "ids that name several categories, of which the first of SA, PBL, MSR counts"
_UNKNOWN_LABEL = "category labels of no known spelling, not compared with the id"
_NO_QUESTION = "questions with neither text nor image"
_NO_GOLD = "MSR samples without a gold answer, which cannot be judged"
_NUMBERS = "gold answers that are numbers, converted to text as in the official script"
# The official script judges these rows; `strict` refuses them.
_OTHER_LABEL = "category labels that contradict the id, by which the official script judges"
_LABEL_NOT_TEXT = "labels that are no text, left out; the official script reads none"
_GOLD_NOT_TEXT = "gold answers that are no text, written by `str` as in the official script"
GOLD_IMAGE = "images of gold answers that cannot be used, left out; no judge sees them"

Fields = Mapping[str, object]
SegmentTuple = tuple[Segment, ...]


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


class RowReader:
    """Checks row after row, and counts oddities."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._form = ""
        self._row_of: dict[str, int] = {}
        self._location = ""
        self.oddities: dict[str, tuple[int, str]] = {}  # number, and location of the first

    def row(self, number: int, value: object) -> DataRow:
        """The checked row.

        Raises:
            BadSample: It cannot be used.
        """
        self._location = f"row {number}"
        try:
            fields = _object(value, "it")
            sample_id = self._id(fields, number)
            category = self._category(sample_id, fields)
            question, gold = self._content(fields)
            if not any(segment.text or segment.image for segment in question):
                self._note(_NO_QUESTION)
            if category == "MSR" and not gold:
                self._note(_NO_GOLD)
            return DataRow(
                number=number,
                id=sample_id,
                category=category,
                field=self._label(fields, "field"),
                subfield=self._label(fields, "subfield"),
                question=question,
                gold=gold,
            )
        except BadSample as error:
            raise BadSample(f"{self._location}: {error}") from None

    def _id(self, fields: Fields, number: int) -> str:
        """The id, which must be unique: answers are matched to samples by it."""
        value = fields.get("id")
        if not isinstance(value, str) or not value:
            raise BadSample(f"`id` is {reprlib.repr(value)}, not a text")
        sample_id = self._encodable(value)
        self._location += f", id {sample_id!r}"
        first = self._row_of.setdefault(sample_id, number)
        if first != number:
            raise BadSample(f"`id` is repeated, first at row {first}")
        return sample_id

    def _category(self, sample_id: str, fields: Fields) -> str:
        """The category of the id, as official."""
        if not (tokens := [category for category in CATEGORIES if category in sample_id]):
            raise BadSample(f"`id` contains none of {', '.join(CATEGORIES)}")
        if len(tokens) > 1:
            self._note(_SEVERAL_TOKENS)
        for key in _LABELS:
            label = self._label(fields, key)
            folded = re.sub(r"[\s_-]+", "", label).lower()
            short = folded.upper()
            category = short if short in CATEGORIES else _LONG_NAMES.get(folded)
            if label and category is None:
                self._note(_UNKNOWN_LABEL)
            elif category and category != tokens[0]:
                self._tolerate(_OTHER_LABEL, f"`{key}` is {label!r}, and by its `id` it is {tokens[0]}")
        return category_of(sample_id)

    def _label(self, fields: Fields, key: str) -> str:
        value = fields.get(key)
        if value is not None and not isinstance(value, str):
            self._tolerate(_LABEL_NOT_TEXT, f"`{key}` is {_kind(value)}, not text")
            return ""
        return self._text(value, key) or ""

    def _content(self, fields: Fields) -> tuple[SegmentTuple, SegmentTuple]:
        """Question and gold answer."""
        form = next((form for form in (self._form, *_FORMS) if form in fields), None)
        if form is None:
            raise BadSample(f"neither `conversations` nor `question` among {_keys(fields)}")
        self._form = self._form or form
        if form != self._form:
            raise BadSample(f"no `{self._form}`, as the rows before it have, among {_keys(fields)}")
        if form == "conversations":
            return self._turns(fields[form])
        gold = fields.get("gt_answer")
        return (
            self._segments(fields[form], form),
            () if gold is None else self._segments(gold, "gt_answer", gold=True),
        )

    def _turns(self, turns: object) -> tuple[SegmentTuple, SegmentTuple]:
        if not isinstance(turns, list):
            raise BadSample(f"`conversations` is {_kind(turns)}, not a list")
        by_role: dict[str, list[SegmentTuple]] = {role: [] for role in _ROLES}
        for i, turn in enumerate(turns):
            name = f"conversations[{i}]"
            fields = _object(turn, f"`{name}`")
            role = fields.get("from")
            if not isinstance(role, str) or role not in by_role:
                raise BadSample(f"`{name}.from` is {reprlib.repr(role)}, neither 'human' nor 'gpt'")
            content, name = fields.get("content"), f"{name}.content"
            by_role[role].append(self._segments(content, name, gold=role == "gpt"))
        if not by_role["human"]:
            raise BadSample("`conversations` has no turn of 'human'")
        if any(len(role_turns) > 1 for role_turns in by_role.values()):
            self._note(_SEVERAL_TURNS)
        question, gold = (tuple(segment for turn in by_role[role] for segment in turn) for role in _ROLES)
        return question, gold

    def _segments(self, value: object, name: str, *, gold: bool = False) -> SegmentTuple:
        """A plain text is one segment, as for an ``answer`` in the official script."""
        if isinstance(value, str):
            return (Segment(self._text(value, name)),)
        if not isinstance(value, list):
            raise BadSample(f"`{name}` is {_kind(value)}, not a list of text and images")
        return tuple(self._segment(part, f"{name}[{i}]", gold) for i, part in enumerate(value))

    def _segment(self, value: object, name: str, gold: bool) -> Segment:
        fields = _object(value, f"`{name}`")
        content, image = fields.get("text"), fields.get("image")
        if gold and not isinstance(content, (str, type(None))):
            if isinstance(content, (int, float)) and not isinstance(content, bool):
                self._note(_NUMBERS)
            else:
                self._tolerate(_GOLD_NOT_TEXT, f"`{name}.text` is {_kind(content)}, not text")
            content = str(content)
        if gold and not isinstance(image, (str, type(None))):
            self._tolerate(GOLD_IMAGE, f"`{name}.image` is {_kind(image)}, not text")
            image = None
        return Segment(self._text(content, f"{name}.text"), self._text(image, f"{name}.image") or None)

    def _text(self, value: object, name: str) -> str | None:
        if value is None:
            return None
        if not isinstance(value, str):
            raise BadSample(f"`{name}` is {_kind(value)}, not text")
        return self._encodable(value)

    def _encodable(self, text: str) -> str:
        clean = replace_surrogates(text)
        if clean is not text:
            self._note(_LONE_SURROGATES)
        return clean

    def _tolerate(self, oddity: str, problem: str) -> None:
        """Note an oddity of a row that the official script judges.

        Raises:
            BadSample: Such rows are refused.
        """
        if self._strict:
            raise BadSample(problem)
        self._note(oddity)

    def _note(self, oddity: str) -> None:
        count, location = self.oddities.get(oddity, (0, self._location))
        self.oddities[oddity] = (count + 1, location)


def _object(value: object, name: str) -> Fields:
    if not isinstance(value, Mapping):
        raise BadSample(f"{name} is {_kind(value)}, not an object")
    return value


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__


def _keys(fields: Fields) -> str:
    return reprlib.repr(sorted(fields))
