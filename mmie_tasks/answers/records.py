"""From one JSON record to one saved answer, format by format.

A format is told by the fields of its records, never by the name of the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from mmie_tasks.answers.saved import Answer, SavedAnswer, as_answer, beside, encodable
from mmie_tasks.benchmarks.milebench.sample import DATASETS
from mmie_tasks.errors import AnswersUnusable

ANSWER_FIELDS = ("answer", "prediction", "response", "output", "text")
_ID_FIELDS = ("id", "sample_id", "question_id")
_ANNOTATION_FIELDS = ("conversations", "task_instance", "meta_data")

Record = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a record stands."""

    path: Path
    place: str
    task: str | None = None  # from the name of a sample log

    def broken(self, problem: str) -> AnswersUnusable:
        """An error that names the place."""
        return AnswersUnusable(
            f"{self.path}, {self.place}: {problem}.",
            hint="repair that record, or point `path` at another file",
        )


Reader = Callable[[Record, Source], SavedAnswer | None]


def reader_of(record: object) -> Reader | None:
    """The reader for records like this one; None where it is no saved answer.

    >>> reader_of({"sample_id": 0, "pred_response": "B"}) is read_milebench
    True
    >>> reader_of({"id": 0, "score": 1.0}) is None
    True
    """
    if not isinstance(record, Mapping) or any(name in record for name in _ANNOTATION_FIELDS):
        return None
    if "doc_id" in record and ("filtered_resps" in record or "resps" in record):
        return read_sample_log
    if record.keys() >= {"request_type", "task_name", "doc_id", "response"}:
        return read_cache_log
    if record.keys() >= {"sample_id", "pred_response"}:
        return read_milebench
    identified = any(name in record for name in _ID_FIELDS) or "url" in record
    if identified and any(name in record for name in ANSWER_FIELDS):
        return read_plain
    return None


def checked(record: object, reader: Reader, source: Source) -> Record:
    """The record, if the reader of its file can read it.

    Without a field for the answer it counts as null: that is how some tools leave a failure.

    Raises:
        AnswersUnusable: It is of another kind than the others in its file.
    """
    if not isinstance(record, Mapping):
        raise source.broken(f"it is {type(record).__name__}, not an object")
    found = reader_of(record)
    unanswered = found is None and any(name in record for name in (*_ID_FIELDS, "url"))
    if found is not reader and not (unanswered and reader in (read_plain, read_milebench)):
        raise source.broken("it lacks the fields that others in the file have")
    return record


def read_sample_log(record: Record, source: Source) -> SavedAnswer:
    """A line of ``<date>_samples_<task>.jsonl`` (lmms-eval, ``loggers/evaluation_tracker.py``).

    The answer is ``resps`` where it is there: that is before reasoning tags were stripped.
    """
    return SavedAnswer(
        answer=_logged_answer(record),
        format="lmms-eval sample log",
        file=str(source.path),
        place=source.place,
        ids=_metric_ids(record),
        task=source.task,
        doc_id=_doc_id(record, source),
        input=_text(record.get("input")),
        target=_text(record.get("target")),
    )


def read_cache_log(record: Record, source: Source) -> SavedAnswer | None:
    """A line of ``*.audit.jsonl`` (lmms-eval, ``caching/response_cache.py``, ``_log_to_audit``).

    None for requests that are not for text.
    """
    if not str(record["request_type"]).startswith("generate"):
        return None
    return SavedAnswer(
        answer=_cached_answer(record["response"]),
        format="lmms-eval cache log",
        file=str(source.path),
        place=source.place,
        task=str(record["task_name"]),
        doc_id=_doc_id(record, source),
        input_hash=_text(record.get("content_hash")),
    )


def read_milebench(record: Record, source: Source) -> SavedAnswer:
    """An item of MileBench's ``<model>/<DATASET>/pred.json`` (``generate.py`` at 9583e1f)."""
    sample_id = _id(record.get("sample_id"), source)
    return SavedAnswer(
        answer=as_answer(record.get("pred_response")),
        format="MileBench pred.json",
        file=str(source.path),
        place=source.place,
        ids=(_with_dataset(sample_id, source.path),),
    )


def read_plain(record: Record, source: Source) -> SavedAnswer:
    """A record of an id and an answer; MMIE's ``data.json`` and MIA-Bench's JSONL are such.

    Images of the answer are looked for beside the file.
    """
    present = [name for name in ANSWER_FIELDS if name in record]
    if len(present) > 1:
        names = " and ".join(f"`{name}`" for name in present)
        raise source.broken(f"it has {names}, and which is the tested model's is not said")
    return SavedAnswer(
        answer=as_answer(beside(record[present[0]], source.path.parent) if present else None),
        format="MIA-Bench answers" if "url" in record else "id and answer",
        file=str(source.path),
        place=source.place,
        ids=_plain_ids(record, source),
    )


def _plain_ids(record: Record, source: Source) -> tuple[str, ...]:
    for name in ("id", "sample_id"):
        if name in record:
            return (_with_dataset(_id(record[name], source), source.path),)
    ids: list[str] = []
    if isinstance(url := record.get("url"), str):
        ids += [url, PurePosixPath(urlsplit(url).path).name]
    if "question_id" in record:
        ids.append(_id(record["question_id"], source))
    ids = [each for each in dict.fromkeys(ids) if each]
    if not ids:
        raise source.broken("it has no `id`")
    return tuple(ids)


def _id(value: object, source: Source) -> str:
    if isinstance(value, float) and value.is_integer():  # as pandas writes numbers beside a gap
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
        raise source.broken(f"the id is {value!r}, not a number or text")
    return str(value)


def _with_dataset(sample_id: str, path: Path) -> str:
    """``131`` in a folder of MileBench's DocVQA, or of its ``-adv``, is ``DocVQA/131``."""
    names = (parent.name.removesuffix("-adv") for parent in path.absolute().parents)
    dataset = next((name for name in names if name in DATASETS), None)
    return f"{dataset}/{sample_id}" if dataset and "/" not in sample_id else sample_id


def _doc_id(record: Record, source: Source) -> int:
    value = record["doc_id"]
    if isinstance(value, bool) or not isinstance(value, (int, str)) or not str(value).isdecimal():
        raise source.broken(f"`doc_id` is {value!r}, not a number")
    return int(value)


def _metric_ids(record: Record) -> tuple[str, ...]:
    """The sample id that our tasks (and some others) put into what they log of a metric."""
    ids = [value.get("id") for value in record.values() if isinstance(value, Mapping)]
    return tuple(dict.fromkeys(each for each in ids if isinstance(each, str) and each))


def _logged_answer(record: Record) -> Answer:
    """Undo the lists that the runner wraps answers in: one a request, one a repeat.

    ``resps`` is a text, a list of repeats (the first counts, as in the runner), or the rounds;
    rounds it can only be where ``filtered_resps`` is a list, too.
    """
    filtered = record.get("filtered_resps")
    answer: object = record.get("resps", filtered)
    if isinstance(answer, list) and answer and "resps" in record:
        rounds = isinstance(filtered, list) and all(isinstance(turn, str) for turn in answer)
        answer = answer if rounds else answer[0]
    while isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    return as_answer(answer)


def _cached_answer(stored: object) -> Answer:
    if not isinstance(stored, str):
        return as_answer(stored)
    try:
        answer = json.loads(stored)
    except (ValueError, RecursionError):
        return as_answer(stored)
    match answer:
        case [str(text), {**_counts}]:  # a text with its token counts
            return as_answer(text)
    return as_answer(answer)


def _text(value: object) -> str | None:
    return encodable(value) if isinstance(value, str) else None
