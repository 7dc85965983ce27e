"""Samples of MMIE: a question of text and images, and a gold answer of the same kind.

Source: ``dataset.py``, ``prompts.py`` and ``main.py`` of Lillianwei-h/MMIE at eb0fd6e, and the rows
of ``MMIE/MMIE`` on the Hub.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mmie_tasks.record.segment import Segment

CATEGORIES = ("SA", "PBL", "MSR")
"""Situational analysis, project-based learning, multi-step reasoning.

The order in which an id is searched for them (``prompts.py:32-40``, ``main.py:190-197``).
"""


class BadSample(ValueError):
    """A row that cannot be used; the message names the sample and the field."""


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


def _object(value: object, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise BadSample(f"{name} is {type(value).__name__}, not an object")
    return value
