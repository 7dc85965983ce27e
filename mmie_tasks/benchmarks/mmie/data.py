"""MMIE as a `datasets.Dataset` whose images are paths, from a folder or from the Hub."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loguru import logger

from mmie_tasks.benchmarks.mmie.assets import ANNOTATION, LAYOUT, files_in, hub_folder, image_paths, local_file
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, BadSample, Segment, category_of
from mmie_tasks.benchmarks.odd_rows import OddRows
from mmie_tasks.core.errors import DataBroken, DataMissing, SettingWrong
from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.hub.asset import read_json_file

if TYPE_CHECKING:
    import datasets


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
_GOLD_IMAGE = "images of gold answers that cannot be used, left out; no judge sees them"

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


def read_rows(values: Iterable[object], leave_out: Callable[[int, str], None] | None = None) -> list[DataRow]:
    """Check the rows of a file; harmless oddities are counted in the log, one line per kind.

    Args:
        values: The rows.
        leave_out: Called with the position (from 0) of each row that cannot be used, and the
            problem, which names row, id and field. None: the first one is an error, and so are
            odd rows that the official script judges without trouble.

    Raises:
        BadSample: A row cannot be used, and `leave_out` is None.
    """
    reader = _Reader(strict=leave_out is None)
    rows = []
    for number, value in enumerate(values):
        try:
            rows.append(reader.row(number, value))
        except BadSample as error:  # noqa: PERF203 - the other rows are read
            if leave_out is None:
                raise
            leave_out(number, str(error))
    reader.log()
    return rows


class _Reader:
    """Checks row after row, and counts oddities."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._form = ""
        self._row_of: dict[str, int] = {}
        self._location = ""
        self._oddities: dict[str, tuple[int, str]] = {}  # number, and location of the first

    def log(self) -> None:
        """Log the oddities."""
        for oddity, (count, location) in self._oddities.items():
            logger.warning(f"MMIE: {oddity}: {count:,}, the first at {location}.")

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
            self._tolerate(_GOLD_IMAGE, f"`{name}.image` is {_kind(image)}, not text")
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
        count, location = self._oddities.get(oddity, (0, self._location))
        self._oddities[oddity] = (count + 1, location)


def _object(value: object, name: str) -> Fields:
    if not isinstance(value, Mapping):
        raise BadSample(f"{name} is {_kind(value)}, not an object")
    return value


def _kind(value: object) -> str:
    return "null" if value is None else type(value).__name__


def _keys(fields: Fields) -> str:
    return reprlib.repr(sorted(fields))


SELECTIONS = ("all", "sa", "pbl", "msr", "1k")
PUBLISHED = {"SA": 5_005, "PBL": 11_482, "MSR": 3_616}
"""Published rows in each category (index.html of the project's site, 2287883)."""

SMALL_ROWS = 1_000

_REPAIR = "repair it, or replace it by the file of MMIE/MMIE; if a run has downloaded it, delete it and run again"


def dataset(selection: str, environment: Mapping[str, str]) -> datasets.Dataset:
    """The samples, going round the categories, so that the first few are from all of them.

    Columns: ``id``, ``index`` (position among these samples in the order of the data file, from 0), ``row`` (position
    in this dataset, from 0), ``category`` (by the id), ``field`` and ``subfield`` (may be empty), ``question`` and
    ``gold`` (lists of ``text`` and ``image``, either null; an image is the absolute path of a file that was not opened
    and may be missing) and ``data`` (the revision: ``MMIE/MMIE@<commit>``, or ``sha256:`` and 12 digits of a local data
    file; and the rows that were left out: see `OddRows`).

    Args:
        selection: ``all``, one category (``sa``, ``pbl``, ``msr``), or ``1k``: the sample that
            `ids_of_1k` draws, which is ours and no published subset.
        environment: ``MMIE_DATA``, ``MMIE_TASKS_ODD_ROWS``, and the variables of the Hub download.

    Raises:
        DataMissing: The data is missing, or has no such rows.
        DataBroken: Too many rows cannot be used (see `OddRows`); names row, id and field.
        SettingWrong: No such selection, or a variable has an invalid value.
    """
    if selection not in SELECTIONS:
        raise SettingWrong(f"MMIE has no selection `{selection}`.", hint=f"one of {', '.join(SELECTIONS)}")
    odd_rows = OddRows("MMIE", _REPAIR, environment)
    if local := environment.get("MMIE_DATA"):
        path, revision = local_file(Path(local).expanduser().absolute()), ""
    else:
        fetched = hub_folder(environment)
        path, revision = fetched.folder / ANNOTATION, fetched.revision
    file = read_json_file(path, layout=LAYOUT, repair=_REPAIR)
    rows = _checked(path, file.value, odd_rows)
    references = (image for row in rows for _, image in _images(row))
    paths = image_paths(path.parent, references, hub=bool(revision))
    rows = _without_outside_images(rows, paths, path, odd_rows)
    odd_rows.check(path, len(rows))
    if not rows:
        raise _broken(path, "no rows in it")
    odd_rows.log()
    _count(rows, revision)
    data = f"{revision or file.digest}{odd_rows.suffix}"
    return _dataset(_selected(rows, selection, path), paths, data)


def missing_images(docs: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Images of questions without a file, each with the id of a sample that has it.

    Every folder is listed once; no file is opened.

    Raises:
        DataMissing: A folder cannot be listed.
    """
    listed: dict[str, dict[str, bool]] = {}
    missing: dict[str, str] = {}
    for doc in docs:
        for path in (segment["image"] for segment in doc["question"] if segment["image"]):
            folder, name = os.path.split(path)
            if folder not in listed:
                listed[folder] = files_in(folder)
            if name not in listed[folder]:
                missing.setdefault(path, doc["id"])
    return missing


def ids_of_1k(ids_by_category: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """The ids of the thousand samples of ``mmie_1k``, or all ids if there are fewer.

    Each category has its share, rounded by largest remainder; in it, the ids whose
    ``mmie_1k:<id>`` has the smallest SHA-256. So the ids alone decide, not their order.

    >>> len(ids_of_1k({"SA": ["SA-1", "SA-2"], "PBL": [], "MSR": ["MSR-1"]}))
    3
    """
    from mmie_tasks.core.bootstrap import allocation  # numpy, which few commands need

    counts = [len(ids) for ids in ids_by_category.values()]
    sizes = allocation(counts, min(SMALL_ROWS, sum(counts)))

    def lot(sample_id: str) -> bytes:
        return hashlib.sha256(f"mmie_1k:{sample_id}".encode()).digest()

    drawn = (sorted(ids, key=lot)[:size] for ids, size in zip(ids_by_category.values(), sizes, strict=True))
    return frozenset(sample_id for ids in drawn for sample_id in ids)


def _broken(path: Path, problem: str) -> DataBroken:
    return DataBroken(f"`{path}`: {problem}.", hint=_REPAIR)


def _checked(path: Path, value: object, odd_rows: OddRows) -> list[DataRow]:
    def leave_out(number: int, problem: str) -> None:
        odd_rows.add(path, number, problem)

    rows = value if isinstance(value, list) else [value]  # a file of JSON Lines with a single one
    try:
        return read_rows(rows, None if odd_rows.stop else leave_out)
    except BadSample as error:
        raise _broken(path, str(error)) from error


def _count(rows: Sequence[DataRow], revision: str) -> None:
    """Log counts other than the published ones: a warning for the Hub's data, else a note."""
    counts = Counter(row.category for row in rows)
    if counts != PUBLISHED:
        sizes = " + ".join(f"{counts[category]:,} {category}" for category in CATEGORIES)
        published = " + ".join(f"{count:,} {category}" for category, count in PUBLISHED.items())
        logger.log(
            "WARNING" if revision else "INFO",
            f"MMIE: {len(rows):,} samples ({sizes}); published are 20,103 ({published}).",
        )


def _without_outside_images(
    rows: Sequence[DataRow], paths: Mapping[str, str | None], path: Path, odd_rows: OddRows
) -> list[DataRow]:
    """The rows whose questions name no path outside the folder of the data file.

    A gold answer may name one: its images are shown to no judge, so the row is judged without.
    """
    usable: list[DataRow] = []
    gold_images = 0
    for row in rows:
        outside = [(name, image) for name, image in _images(row) if paths[image] is None]
        in_question = [pair for pair in outside if pair[0].startswith("question")]
        gold_images += len(outside) - len(in_question)
        for name, image in outside if odd_rows.stop else in_question[:1]:
            problem = f"`{name}.image`: {image!r} is not a file inside `{path.parent}`"
            odd_rows.add(path, row.number, f"row {row.number}, id {row.id!r}: {problem}")
        if not in_question:
            usable.append(row)
    if gold_images:
        logger.warning(f"MMIE: {_GOLD_IMAGE}: {gold_images:,} outside `{path.parent}`.")
    return usable


def _images(row: DataRow) -> Iterable[tuple[str, str]]:
    """The image references of a row, each with the name of its field."""
    for name, segments in (("question", row.question), ("gold", row.gold)):
        for i, segment in enumerate(segments):
            if segment.image is not None:
                yield f"{name}[{i}]", segment.image


def _selected(rows: Sequence[DataRow], selection: str, path: Path) -> Sequence[DataRow]:
    if selection == "all":
        return rows
    if selection != "1k":
        if not (chosen := [row for row in rows if row.category == selection.upper()]):
            raise DataMissing(
                f"`{path}` has no row of the category {selection.upper()}.",
                hint="take the task `mmie`, or point `MMIE_DATA` at data that has some",
            )
        return chosen
    if len(rows) < SMALL_ROWS:
        logger.info(f"MMIE: `mmie_1k` has all samples, as there are only {len(rows):,}.")
    drawn = ids_of_1k({name: [row.id for row in rows if row.category == name] for name in CATEGORIES})
    return [row for row in rows if row.id in drawn]


def _dataset(rows: Sequence[DataRow], paths: Mapping[str, str | None], data: str) -> datasets.Dataset:
    import datasets

    positions = {row.id: position for position, row in enumerate(rows)}
    turns = itertools.zip_longest(*([row for row in rows if row.category == name] for name in CATEGORIES))
    rows = [row for turn in turns for row in turn if row is not None]
    text, whole_number = datasets.Value("string"), datasets.Value("int32")
    features = dict.fromkeys(("id", "category", "field", "subfield", "data"), text)
    features |= {"index": whole_number, "row": whole_number}
    features |= {name: [{"text": text, "image": text}] for name in ("question", "gold")}
    columns: dict[str, list[object]] = {
        name: [getattr(row, name) for row in rows] for name in ("id", "category", "field", "subfield")
    }
    for name in ("question", "gold"):
        columns[name] = [
            [{"text": s.text, "image": s.image and paths[s.image]} for s in getattr(row, name)] for row in rows
        ]
    columns |= {"index": [positions[row.id] for row in rows], "row": list(range(len(rows)))}
    columns["data"] = [data] * len(rows)
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))
