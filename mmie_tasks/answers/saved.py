"""One saved answer, and how a value found in a file becomes one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import urlsplit

from mmie_tasks.benchmarks.milebench.sample import DATASETS
from mmie_tasks.core.errors import AnswersUnusable, DataBroken
from mmie_tasks.hub.images import inside

# Texts that stand where an answer should be: ours for saved answers, the runner's for failures.
#
# Source of the runner's texts: lmms-eval 0.7.3, ``models/`` and ``llm_judge/`` (they reach the
# scorer as if the tested model had said them).

MISSING = "[PREDICTIONS_MISSING]"
"""No answer was saved for the sample, or null."""

NOT_TEXT = "[PREDICTIONS_NOT_TEXT]"
"""The saved answer is a number, a list or an object; its JSON follows."""

_REASONS = (
    (MISSING, "no saved answer"),
    (NOT_TEXT, "the saved answer is not text"),
    ("[LMMS_EVAL_REQUEST_FAILED", "the request to the tested model failed"),
    ("[LMMS_EVAL_BUDGET_EXCEEDED]", "the token budget was used up"),
    ("[GENERATION_FAILED]", "generation failed"),
    ("[ERROR]", "the tested model reported an error"),
)


def failure_of(answer: object) -> str | None:
    """Why this is no answer of the tested model, or None where it is one.

    Only the beginning counts: an answer may quote such a text. Of several rounds, the first that
    failed is the reason.

    >>> failure_of("[LMMS_EVAL_REQUEST_FAILED after 3 retries] 503")
    'the request to the tested model failed'
    >>> failure_of("The log says [ERROR]") is None
    True
    """
    if isinstance(answer, (list, tuple)):
        turns = (turn for turn in answer if isinstance(turn, str))
        return next((reason for turn in turns if (reason := failure_of(turn))), None)
    if not isinstance(answer, str):
        return None
    start = answer.lstrip()
    return next((reason for text, reason in _REASONS if start.startswith(text)), None)


Answer = str | tuple[str, ...]
"""What the tested model said; one text a round where there were several."""

Format = Literal[
    "lmms-eval sample log",
    "lmms-eval cache log",
    "MileBench pred.json",
    "MIA-Bench answers",
    "id and answer",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAnswer:
    """An answer, where it was read, and whatever says which sample it belongs to."""

    answer: Answer
    format: Format
    file: str
    place: str  # within the file: "line 3"
    ids: tuple[str, ...] = ()  # the best first
    task: str | None = None  # logs of the runner only, like all that follows
    doc_id: int | None = None
    input: str | None = None
    input_hash: str | None = None  # of the text the model was sent; cache logs have no text
    target: str | None = None

    @property
    def where(self) -> str:
        """File and place, for messages."""
        return f"{self.file}, {self.place}"


def as_answer(value: object) -> Answer:
    """Any JSON value as an answer. Nothing is opened: image paths stay text.

    MMIE's list of ``{text, image}`` parts (``data.json`` of Lillianwei-h/MMIE at eb0fd6e) becomes
    the JSON text ``{"content": [...]}``; a list of texts is one text a round; null becomes
    `MISSING`; what is neither becomes `NOT_TEXT` and its JSON.

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
        return encodable(value)
    if isinstance(value, list) and value:
        if all(isinstance(turn, str) for turn in value):
            turns = tuple(encodable(turn) for turn in value)
            return turns[0] if len(turns) == 1 else turns
        if all(_is_part(part) for part in value):
            return _json({"content": value})
    if _is_interleaved(value):
        return _json(value)
    return f"{NOT_TEXT} {_json(value)}"


def beside(value: object, folder: Path) -> object:
    """The value with every relative image path in it that names a file below `folder` made whole.

    An answers file is moved about with its images, and the run that reads it starts elsewhere.
    MMIE's ``{text, image}`` parts and lists of ``images`` are looked at; nothing is opened.
    """
    match value:
        case list():
            return [beside(part, folder) for part in value]
        case {"image": str(image), **rest} if _is_part(value):
            return {**rest, "image": _whole(image, folder)}
        case {"images": list(images), **rest}:
            whole = [_whole(each, folder) if isinstance(each, str) else each for each in images]
            return {**rest, "images": whole}
        case {"content": list(parts), **rest}:
            return {**rest, "content": beside(parts, folder)}
    return value


def _whole(image: str, folder: Path) -> str:
    try:
        path = inside(folder, image)
        return str(path.absolute()) if path.is_file() else image
    except (DataBroken, OSError, ValueError):  # it leaves the folder, or can be no path
        return image


def encodable(text: str) -> str:
    r"""The text with every lone surrogate replaced by U+FFFD.

    Such a text cannot be written as UTF-8; the runner would fail on it when it saves its samples,
    after all the work.

    >>> encodable("a\ud800b") == "a\N{REPLACEMENT CHARACTER}b"
    True
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _is_part(value: object) -> bool:
    return isinstance(value, Mapping) and bool(value) and value.keys() <= {"text", "image"}


def _is_interleaved(value: object) -> bool:
    """The two JSON objects that stand for an answer with images: parts, or text and images."""
    if not isinstance(value, Mapping):
        return False
    images: object = value.get("images")
    return isinstance(value.get("content"), list) or (
        isinstance(value.get("text"), str)
        and isinstance(images, Sequence)
        and not isinstance(images, str)
    )


def _json(value: object) -> str:
    return encodable(json.dumps(value, ensure_ascii=False))


# Whether a saved answer answers a sample, told by what both know of the question.

_IMAGE_PLACE = re.compile(r"<image[ _]?\d*>|\[image[ _]?\d*\]", re.IGNORECASE)

ContentKey = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedSample:
    """A sample whose answer is wanted."""

    task: str
    doc_id: int  # the runner's number of it
    ids: tuple[str, ...] = ()  # candidates, the best first
    input: str | None = None  # the text the tested model is sent
    target: str | None = None  # the gold answer, as text


@dataclass(frozen=True, slots=True)
class Agreement:
    """Whether gold answer and input are the same; None where one side does not know."""

    target: bool | None
    input: bool | None

    @property
    def content(self) -> bool:
        """The input is the same, and nothing is known against the gold answer."""
        return self.input is True and self.target is not False

    @property
    def contradicts(self) -> bool:
        """Anything known to differ."""
        return self.input is False or self.target is False


def agreement(saved: SavedAnswer, sample: RequestedSample) -> Agreement:
    """Compare what is known of both."""
    return Agreement(target=_same(saved.target, sample.target), input=_same_input(saved, sample))


def normalised(text: str) -> str:
    r"""The text without placeholders of images and surplus white space: these differ by model.

    >>> normalised("<image 1> What is [image 2]\n this?")
    'What is this?'
    """
    return " ".join(_IMAGE_PLACE.sub(" ", text).split())


def key_of_saved(saved: SavedAnswer) -> ContentKey | None:
    """What the question is found by; None where the file does not tell."""
    if saved.input is not None and saved.target is not None:
        return _text_key(saved.input, saved.target)
    return None if saved.input_hash is None else ("hash", saved.input_hash)


def keys_of_requested(sample: RequestedSample) -> tuple[ContentKey, ...]:
    """The keys under which a saved answer to the sample may stand."""
    if sample.input is None:
        return ()
    by_hash: ContentKey = ("hash", runner_hash(sample.input))
    if sample.target is None:
        return (by_hash,)
    return (_text_key(sample.input, sample.target), by_hash)


def runner_hash(text: str) -> str:
    """As the runner hashes a request's text (``caching/response_cache.py``)."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _text_key(text: str, target: str) -> ContentKey:
    digest = hashlib.sha256(normalised(text).encode("utf-8", "surrogatepass")).hexdigest()
    return ("text", digest, target)


def _same(one: str | None, other: str | None) -> bool | None:
    return None if one is None or other is None else one == other


def _same_input(saved: SavedAnswer, sample: RequestedSample) -> bool | None:
    if sample.input is None:
        return None
    if saved.input is not None:
        return saved.input == sample.input or normalised(saved.input) == normalised(sample.input)
    return None if saved.input_hash is None else saved.input_hash == runner_hash(sample.input)


# From one JSON record to one saved answer, format by format.
#
# A format is told by the fields of its records, never by the name of the file.

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


# For models that answer with text and images: the form that is understood best.


def as_answer_writing(parts: Iterable[str | Path]) -> str:
    r"""Texts and image files, in order, as the JSON text a model should return.

    Args:
        parts: A string is words; a `Path` is an image. A relative path is looked for in the
            working directory and the folders of ``MMIE_OUTPUT_ROOT``.

    >>> as_answer(["Cut.", Path("1.png")])
    '{"content": [{"type": "text", "text": "Cut."}, {"type": "image", "path": "1.png"}]}'
    """
    content = [
        {"type": "image", "path": str(part)}
        if isinstance(part, Path)
        else {"type": "text", "text": part}
        for part in parts
    ]
    return encodable(json.dumps({"content": content}, ensure_ascii=False))
