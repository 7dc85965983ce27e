"""Reads one record of a file of answers as a `SavedAnswer`.

The format of a record is recognised by its fields, never by the name of its file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from mmie_tasks.answers.content_json import json_text
from mmie_tasks.answers.drawn import read_drawn_answer
from mmie_tasks.answers.failures import MISSING, not_text
from mmie_tasks.answers.objects import answer_of_object
from mmie_tasks.answers.references import image_reference, is_image_reference
from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.core.messages import replace_surrogates

_ANSWER_FIELDS = ("answer", "text")
_OTHERS_ANSWER_FIELDS = ("prediction", "pred", "response", "model_answer", "model_response")
_ID_FIELDS = ("id", "sample_id", "url", "question_id")
_IMAGE_FIELDS = ("images", "image")
_ANNOTATION_FIELDS = ("conversations", "task_instance", "meta_data")

Answer: TypeAlias = str | tuple[str, ...]
"""The tested model's answer; several rounds are a tuple."""

AnswerFormat: TypeAlias = Literal[
    "lmms-eval sample log",
    "answers of an ended run",
    "MileBench pred.json",
    "MIA-Bench answers",
    "OpenING output",
    "id and answer",
]
_AnswerRecord: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAnswer:
    """An answer, and the id of its sample.

    `location` is file, position and field of the id, `folder` the file's folder. Only logs of
    lmms-eval and answers saved before judging have the task and the `input`, the text that was sent
    to the model. `images` are references to images beside the answer in its record, and `unclear`
    says why they may not be the answer's; it is empty if they are.
    """

    answer: Answer
    format: AnswerFormat
    location: str
    id: str
    folder: Path = Path()
    task: str | None = None
    input: str | None = None
    images: tuple[str, ...] = ()
    unclear: str = ""

    def with_images(self) -> Answer:
        """The answer with the images beside it in its record, for a benchmark that shows them.

        Raises:
            AnswersUnusable: It is not clear whether the images are the answer's.
        """
        if not self.images:
            return self.answer
        if not self.unclear and isinstance(self.answer, str):
            text = "" if self.answer == MISSING else self.answer
            return json_text({"text": text, "images": self.images})
        raise AnswersUnusable(
            f"{self.location}: the record has images beside its answer, such as "
            f"`{self.images[0]:.200}`, and {self.unclear}: they may be those of the question.",
            hint="write an answer and its images as a record of nothing but `id`, `answer` (a "
            "text) and `images`; leave out the images of the question",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file, what its name says, and the position of a record in it.

    Attributes:
        path: The file.
        position: Such as ``line 3``.
        task: The task in the name of a sample log, or of answers saved before judging.
        date: Date of that run, as text that sorts by time.
        is_of_ended_run: Whether a run saved the file before judging.
        datasets: Names of datasets; a bare id in a folder of such a name is an id of that dataset.
    """

    path: Path
    position: str = "the whole file"
    task: str | None = None
    date: str = ""
    is_of_ended_run: bool = False
    datasets: Collection[str] = ()

    @property
    def folder(self) -> Path:
        """The folder of the file."""
        return self.path.absolute().parent

    @property
    def location(self) -> str:
        """File and position, for messages."""
        return f"{self.path}, {self.position}"

    def location_of(self, field: str) -> str:
        """File, position and field, for messages."""
        return f"{self.location}, `{field}`"

    def only(self, fields: Collection[str], meaning: str) -> str:
        """The only field of several candidates; raises if there are two."""
        if len(fields) > 1:
            names = " and ".join(f"`{name}`" for name in fields)
            raise self.error(f"it has {names}; which of them is {meaning} is not clear")
        return next(iter(fields))

    def error(self, problem: str) -> AnswersUnusable:
        """An error that names file and position."""
        return AnswersUnusable(
            f"{self.location}: {problem}.",
            hint="repair that record, or point `path` at another file",
        )

    def full_id(self, sample_id: str) -> str:
        """The id with its dataset: ``DocVQA/131`` in a folder ``DocVQA`` or ``DocVQA-adv``."""
        names = (parent.name.removesuffix("-adv") for parent in self.path.absolute().parents)
        dataset = next((name for name in names if name in self.datasets), None)
        return f"{dataset}/{sample_id}" if dataset and "/" not in sample_id else sample_id


RecordReader: TypeAlias = Callable[[Source], SavedAnswer | None]
"""Reads a record at its position in a file; returns None if it has no id."""


def reader_of(record: object) -> RecordReader | None:
    """The function that reads this record; None if it is not a saved answer.

    >>> read = reader_of({"sample_id": 0, "pred_response": "B"})
    >>> read(Source(path=Path("pred.json"))).answer
    'B'
    >>> reader_of({"id": 0, "score": 1.0}) is None
    True
    """
    if not isinstance(record, Mapping) or any(name in record for name in _ANNOTATION_FIELDS):
        return None
    if "doc_id" in record and ("filtered_resps" in record or "resps" in record):
        return partial(_read_sample_log, record)
    if record.keys() >= {"sample_id", "pred_response"}:
        return partial(_read_milebench, record)
    is_others = not record.keys().isdisjoint(_OTHERS_ANSWER_FIELDS)  # then `answer` is the gold one
    if record.keys() & {*_ID_FIELDS} and record.keys() & {*_ANSWER_FIELDS} and not is_others:
        return partial(_read_plain, record)
    return None


def _read_sample_log(record: _AnswerRecord, source: Source) -> SavedAnswer | None:
    """Read a line of ``<date>_samples_<task>.jsonl`` (lmms-eval, ``evaluation_tracker.py``).

    ``resps`` has the answer before reasoning tags were stripped. The id is in an object of the
    line, such as our tasks' record.
    """
    fields = {
        f"{name}.id": sample_id
        for name, value in record.items()
        if isinstance(value, Mapping)
        if isinstance(sample_id := value.get("id"), str) and sample_id
    }
    if not fields:
        return None
    field = source.only([*fields][:1] if len(set(fields.values())) == 1 else fields, "the id")
    return SavedAnswer(
        answer=_logged_answer(record),
        format="answers of an ended run" if source.is_of_ended_run else "lmms-eval sample log",
        folder=source.folder,
        location=source.location_of(field),
        id=fields[field],
        task=source.task,
        input=text if isinstance(text := record.get("input"), str) else None,
    )


def _read_milebench(record: _AnswerRecord, source: Source) -> SavedAnswer:
    """Read an entry of MileBench's ``<model>/<DATASET>/pred.json`` (``generate.py`` at 9583e1f)."""
    return SavedAnswer(
        answer=as_answer(record["pred_response"]),
        format="MileBench pred.json",
        folder=source.folder,
        location=source.location_of("sample_id"),
        id=source.full_id(_id(record["sample_id"], source)),
    )


def _read_plain(record: _AnswerRecord, source: Source) -> SavedAnswer:
    """Read a record of an id and an answer, as in MMIE's ``data.json`` and MIA-Bench's JSONL."""
    answer_field = source.only([name for name in _ANSWER_FIELDS if name in record], "the answer")
    id_fields = [name for name in _ID_FIELDS if name in record]
    is_mia_bench = "url" in record and "text" in record
    # In MIA-Bench's own answers, `question_id` is the number of a line.
    id_field = "url" if is_mia_bench else source.only(id_fields, "the id")
    sample_id = _id(record[id_field], source)
    others = [name for name in record if name not in (*_ID_FIELDS, answer_field)]
    images = tuple(image for name in others for image in _images(record, name))
    return SavedAnswer(
        answer=as_answer(record[answer_field]),
        format="MIA-Bench answers" if is_mia_bench else "id and answer",
        folder=source.folder,
        location=source.location_of(id_field),
        id=source.full_id(sample_id) if id_field in ("id", "sample_id") else sample_id,
        images=images,
        unclear=_unclear(record, answer_field, others) if images else "",
    )


def _images(record: _AnswerRecord, field: str) -> list[str]:
    """The references to images in a field: one or a list; in other fields than `_IMAGE_FIELDS`,
    only texts that are paths or URLs of images.
    """
    value = record[field]
    values = value if isinstance(value, list) else [value]
    if field in _IMAGE_FIELDS:
        return [reference for one in values if (reference := image_reference(one))]
    return [one for one in values if isinstance(one, str) and is_image_reference(one)]


def _unclear(record: _AnswerRecord, answer_field: str, others: Collection[str]) -> str:
    """Why images beside an answer may not be the answer's; empty if they are."""
    if not isinstance(record[answer_field], str | None):
        return f"`{answer_field}` is not a text"
    names = [f"`{name}`" for name in others if name not in _IMAGE_FIELDS]
    return f"other fields ({', '.join(names)})" if names else ""


def is_opening_output(record: object) -> bool:
    """Whether a record is an answer in the form of OpenING's ``<MODEL>_output/<total_uid>.json``.

    >>> is_opening_output({"conversations": [{"input": []}, {"output": []}]})
    True
    """
    match record:
        case {"conversations": [_, {"output": [*_]}]}:
            return True
    return False


def read_opening(record: object, source: Source) -> SavedAnswer:
    """Read a record for which `is_opening_output` holds (``GPT_score_A.py`` at 56b663b, 55-65).

    The id is the file's name up to its first dot. A picture is in the file's folder, whatever
    folder its path names. An answer with a step without text is not text.
    """
    folder = source.path.absolute().parent
    steps = record["conversations"][1]["output"]  # type: ignore[index]  # checked
    answer, parts = "", []
    for number, step in enumerate(steps, 1):
        match step:
            case {"text": str(text)} if isinstance(image := step.get("image"), str | None):
                path = str(folder / image.rpartition("/")[2]) if image else None
                parts.append({"text": text, "image": path})
            case _:
                answer = answer or not_text(f"step {number} is not a text with a picture")
    return SavedAnswer(
        answer=answer or as_answer(parts),
        format="OpenING output",
        folder=source.folder,
        location=source.location,
        id=source.path.name.partition(".")[0],
    )


def as_answer(value: object) -> Answer:
    """Any JSON value as an answer. No file is opened: image paths stay text.

    MMIE's list of ``{text, image}`` parts (``data.json`` of Lillianwei-h/MMIE at eb0fd6e), which
    may have further keys, becomes the JSON text ``{"content": [...]}``. A list of texts becomes one
    text per round, null becomes `MISSING`, an object with parts or images becomes its JSON, and
    everything else becomes `not_text` with its JSON.

    >>> as_answer([{"text": "Cut.", "image": None}, {"text": "", "image": "images/7.png"}])
    '{"content": [{"text": "Cut.", "image": null}, {"text": "", "image": "images/7.png"}]}'
    >>> as_answer(["first", "second"])
    ('first', 'second')
    >>> as_answer(3.5)
    '[PREDICTIONS_NOT_TEXT] 3.5'
    """
    if value is None:
        return MISSING
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, list) and value:
        if all(isinstance(text, str) for text in value):
            rounds = tuple(replace_surrogates(text) for text in value)
            return rounds[0] if len(rounds) == 1 else rounds
        if all(_is_part(part) for part in value):
            value = {"content": value}
    text = json_text(value)
    if read_drawn_answer(text):
        return text
    answer = answer_of_object(value) if isinstance(value, Mapping) else None
    return not_text(text) if answer is None or answer.kind == "part" else text


def _is_part(value: object) -> bool:
    keys = value.keys() if isinstance(value, Mapping) else set()
    return bool(keys) and (keys <= {"text", "image"} or keys >= {"text", "image"})


def _id(value: object, source: Source) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise source.error(f"the id is {value!r}, not a number or text")
    return str(value)


def _logged_answer(record: _AnswerRecord) -> Answer:
    """Unwrap the runner's lists: one per request, one per repeat.

    ``resps`` is a text, a list of repeats (the first counts, as in the runner), or the rounds if
    ``filtered_resps`` is a list, too.
    """
    filtered = record.get("filtered_resps")
    answer: object = record.get("resps", filtered)
    if isinstance(answer, list) and answer and "resps" in record:
        are_rounds = isinstance(filtered, list) and all(isinstance(text, str) for text in answer)
        answer = answer if are_rounds else answer[0]
    while isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    return as_answer(answer)
