"""Reads files of saved answers, JSON and JSONL, for ``--model predictions``.

A record is recognised by its fields, never by the name of its file:

* a line of a run's log, or of the answers that a run saved before judging: ``doc_id`` and ``resps``
* MileBench's ``<DATASET>/pred.json`` (``generate.py`` at 9583e1f): ``sample_id``, ``pred_response``
* MIA-Bench's JSONL: ``url``, ``text``
* OpenING's ``<MODEL>_output/<total_uid>.json`` (``GPT_score_A.py`` at 56b663b, 55-65):
  ``conversations``
* any other: ``id``, and ``answer`` or ``text``, with ``images`` or ``image``; MMIE's ``data.json``
  is of this form; or one object ``{id: answer}``

Of several logs of a task in a folder, the newest is read, and older ones of its tested model that
share no sample with it: parts of one run.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

from mmie_tasks.answers.drawn import json_text
from mmie_tasks.answers.failures import NULL
from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.core.files import files_below, json_problem
from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.record.log_files import SampleLog

ResultText: TypeAlias = str | tuple[str, ...]
"""What a model returned for a sample: a text, or one per round."""

SUPPORTED_FILES = """\
answers are read from JSON or JSONL with a record for each sample, without or with images:

{"id": "ID", "answer": "Fold the paper."}
{"id": "ID", "answer": "Fold it. <image> Cut it. <image>", "images": ["1.png", "2.png"]}

also from an object `{id: answer}`, lmms-eval's sample logs of tasks of ours, and the official \
answers: MMIE `data.json`, MileBench `<DATASET>/pred.json`, MIA-Bench JSONL, OpenING \
`<MODEL>_output/`"""

# A run's log of samples, or the answers that it saved before judging.
_RUN_FILE = re.compile(r"(?P<date>.*?\d{6})(?:-\w{8})?_(?:samples|answers)_(?P<task>.+)\.jsonl")
_NEVER_ANSWERS = re.compile(r".*_results\.json|eval(?:_score)?\.json|pred_with_extracted\.json")
_ANSWER_FIELDS = ("answer", "text")
_IMAGE_FIELDS = ("images", "image")
_GOLD_BESIDE = {"prediction", "pred", "response", "model_answer"}  # then `answer` is the gold one
_IMAGE_NAME = re.compile(r"\S.{0,1000}\.(?:png|jpe?g|webp|gif|bmp|tiff?|avif)", re.IGNORECASE)
_SHOWN_FIELDS = 20
_URI = "file://"
_SEPARATORS = frozenset(",;'\"{}[]")  # of model arguments, and of paths among them


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAnswer:
    """An answer, and the id of its sample.

    Attributes:
        id: The sample's id.
        answer: The answer; `NULL` for null. Without the images beside it.
        location: File and position, for messages.
        folder: The folder of the file.
        images: References to images beside the answer in its record.
        unclear: Why they may be those of the question; empty if they are the answer's.
        task: The task of the log; None for other files.
        input: The text that was sent to the model; None if the file does not have it.
    """

    id: str
    answer: ResultText
    location: str
    folder: Path
    images: tuple[str, ...] = ()
    unclear: str = ""
    task: str | None = None
    input: str | None = None

    def with_images(self) -> ResultText:
        """The answer with the images beside it in its record, for a benchmark that shows them.

        Raises:
            AnswersUnusable: It is not clear whether the images are the answer's.
        """
        if not self.images:
            return self.answer
        if not self.unclear:
            text = "" if self.answer == NULL else self.answer
            return json_text({"text": text, "images": self.images})
        raise AnswersUnusable(
            f"{self.location}: the record has images beside its answer, such as "
            f"`{self.images[0]:.200}`, and {self.unclear}: they may be those of the question.",
            hint="write an answer and its images as a record of nothing but `id`, `answer` (a "
            "text) and `images`; leave out the images of the question",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAnswers:
    """Saved answers, notes on what was left out, and the tested model's name if it is known."""

    answers: tuple[SavedAnswer, ...]
    notes: tuple[str, ...] = ()
    model: str = ""


def is_uri(text: str) -> bool:
    """Whether a path is written as `argument_of` writes one with a separator."""
    return text.startswith(_URI)


def answer_paths(text: str) -> list[Path]:
    """The files or folders in ``path=``, separated by ``;``.

    One whose name has a separator of model arguments is written as a URI, as by `argument_of`.

    >>> answer_paths("a.json; file:///out/a%2Cb.json") == [Path("a.json"), Path("/out/a,b.json")]
    True
    """
    parts = filter(None, (part.strip() for part in text.split(";")))
    return [
        Path(unquote(part.removeprefix(_URI))) if is_uri(part) else Path(part).expanduser()
        for part in parts
    ]


def argument_of(path: Path) -> str:
    """A path as a value of a model argument, which lmms-eval separates by commas.

    >>> argument_of(Path("out/a.json")), argument_of(Path("/out/a,b.json"))
    ('out/a.json', 'file:///out/a%2Cb.json')
    """
    text = str(path)
    is_plain = _SEPARATORS.isdisjoint(text) and text == text.strip() and not text.startswith("~")
    return text if is_plain else path.absolute().as_uri()


def read_answers(paths: Sequence[Path], datasets: Collection[str] = ()) -> SavedAnswers:
    """Read every saved answer in files and folders.

    Args:
        paths: The files or folders. In a folder, files without answers are skipped.
        datasets: Names of datasets whose sample ids are ``<dataset>/<id>``. A bare id in a folder
            of such a name, as in MileBench's ``<DATASET>/pred.json``, is an id of that dataset.

    Raises:
        AnswersUnusable: The path does not exist, is damaged, or has no readable answers.
    """
    absent = next((f"`{root}` does not exist" for root in paths if not root.exists()), "")
    if absent or not paths:
        raise AnswersUnusable(f"{absent or '`path=` is missing'}.", hint=SUPPORTED_FILES)
    notes: list[str] = []
    of_files = _read_files(_files(paths), paths, datasets, notes)
    answers = [answer for of_file in of_files.values() for answer in of_file]
    models = {_tested_model(file) for file, of_file in of_files.items() if of_file}
    if not answers:
        reasons = "".join(f" {note}." for note in notes)
        names = ", ".join(f"`{path}`" for path in paths)
        raise AnswersUnusable(f"{names}: no saved answers.{reasons}", hint=SUPPORTED_FILES)
    model = models.pop() if len(models) == 1 else ""
    if not model and len(paths) == 1:
        model = paths[0].stem if paths[0].is_file() else paths[0].resolve().name
    unique = {(one.task, one.id, one.answer, one.images): one for one in reversed(answers)}
    return SavedAnswers(answers=tuple(reversed(unique.values())), notes=tuple(notes), model=model)


# The files


def _files(roots: Sequence[Path]) -> list[Path]:
    """The files below the roots that may have answers."""
    files = [
        path
        for root in roots
        for path in (files_below(root, "*.json*") if root.is_dir() else [root])
        if path == root
        or (path.suffix in (".json", ".jsonl") and not _NEVER_ANSWERS.fullmatch(path.name))
    ]
    return list(dict.fromkeys(files))


def _read_files(
    files: Sequence[Path], roots: Sequence[Path], datasets: Collection[str], notes: list[str]
) -> dict[Path, list[SavedAnswer]]:
    """The answers of every file but those of older runs; see the module.

    Of one run, the answers that it saved before judging complete a log of samples that ends early.
    An older run with a damaged file is left out.
    """
    tasks: defaultdict[tuple[Path, str], defaultdict[str, list[Path]]]
    tasks = defaultdict(lambda: defaultdict(list))  # to the files of each run, by its date
    for file in files:
        run = _RUN_FILE.fullmatch(file.name)
        key = (file.parent, run["task"]) if run else (file, "")
        tasks[key][run["date"] if run else ""].append(file)
    read: dict[Path, list[SavedAnswer]] = {}
    for runs in tasks.values():
        newest, taken = max(runs), set[str]()
        for date in sorted(runs, reverse=True):
            try:
                of_run = {
                    file: list(_answers_of(file, datasets, notes, is_named=file in roots))
                    for file in runs[date]
                }
            except AnswersUnusable:
                if date == newest:
                    raise
                of_run = {}
            ids = {answer.id for answers in of_run.values() for answer in answers}
            models = {_tested_model(runs[one][0]) for one in (date, newest)}
            if date == newest or (of_run and not taken & ids and len(models) == 1):
                read |= of_run
            else:
                why = "was left out: its folder has a newer run of the task"
                notes += [f"{file} {why}" for file in runs[date]]
            taken |= ids
    return {file: read[file] for file in files if file in read}


def _tested_model(path: Path) -> str:
    """The tested model of the run that saved a file; empty if no run did."""
    if not (run := _RUN_FILE.fullmatch(path.name)):
        return ""
    return SampleLog(path=path, date=run["date"], task=run["task"]).tested_model


# The answers of a file


def _answers_of(
    path: Path, datasets: Collection[str], notes: list[str], *, is_named: bool
) -> Iterator[SavedAnswer]:
    """The answers of a file; a file without any is an error if the user named it."""
    run = _RUN_FILE.fullmatch(path.name)
    records = dict(_records(path, notes))
    answers = {where: _answer_of(records[where], path, f"{path}, {where}") for where in records}
    unread = [where for where, answer in answers.items() if answer is None]
    if len(unread) == len(answers):
        if is_named:
            raise _unsupported(path, [*records.values()])
        return
    if unread and run is None:
        raise AnswersUnusable(
            f"{path}, {unread[0]}: it lacks the fields that other records of the file have.",
            hint="repair that record, or name another file",
        )
    if unread:
        notes.append(f"{path}: {len(unread)} answers without an id were left out")
    parents = (parent.name.removesuffix("-adv") for parent in path.absolute().parents)
    dataset = next((name for name in parents if name in datasets), None)
    for answer in filter(None, answers.values()):
        if run:
            yield replace(answer, task=run["task"])
        elif dataset and "/" not in answer.id:
            yield replace(answer, id=f"{dataset}/{answer.id}")
        else:
            yield answer


def _records(path: Path, notes: list[str]) -> Iterator[tuple[str, object]]:
    """Each record of a file with its position."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        value = json.loads(text) if text.strip() else []
    except OSError as error:
        raise AnswersUnusable(f"`{path}` cannot be read: {error}.", hint=SUPPORTED_FILES) from error
    except (ValueError, RecursionError) as error:
        is_jsonl = path.suffix == ".jsonl" or "Extra data" in str(error)  # JSON, and then more
        if not is_jsonl or isinstance(error, UnicodeDecodeError):
            raise _not_json(str(path), error) from error
        yield from _lines(path, text, notes)
        return
    match value:
        case list():
            yield from ((f"entry {number}", record) for number, record in enumerate(value, 1))
        case dict() if _answer_of(value, path, "") is None and _are_answers(value):
            yield from ((f"key {id_!r}", {"id": id_, "answer": a}) for id_, a in value.items())
        case _:
            yield "the whole file", value


def _lines(path: Path, text: str, notes: list[str]) -> Iterator[tuple[str, object]]:
    """Each line of a JSONL. A last line that was cut off, as by a killed run, is left out with a
    note.
    """
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                yield f"line {number}", json.loads(line)
        except (ValueError, RecursionError) as error:  # noqa: PERF203 - concerns one line
            if number < len(lines):
                raise _not_json(f"{path}, line {number}", error) from error
            notes.append(f"{path}: line {number}, the last, is cut off and was left out")


def _are_answers(fields: Mapping[str, object]) -> bool:
    """Whether an object may be ``{id: answer}``; scores and configurations have other values."""
    values = fields.values()
    return any(values) and all(isinstance(value, str | list | None) for value in values)


def _answer_of(record: object, path: Path, location: str) -> SavedAnswer | None:
    """The answer of a record; None for a record of another kind."""
    fields: Mapping[str, object] = record if isinstance(record, Mapping) else {}
    folder = path.absolute().parent
    match fields:
        case {"doc_id": _, "resps": resps} | {"doc_id": _, "filtered_resps": resps}:
            return _logged_answer(fields, resps, location, folder)
        case {"conversations": [_, {"output": [*steps]}]}:
            id_: object = path.name.partition(".")[0]
            answer: object = _opening_parts(steps, folder, location)
        case {"sample_id": id_, "pred_response": answer} | {"url": id_, "text": answer}:
            pass
        case {"id": id_} if _GOLD_BESIDE.isdisjoint(fields):
            names = [name for name in _ANSWER_FIELDS if name in fields]
            if len(names) > 1:
                raise AnswersUnusable(
                    f"{location}: it has `answer` and `text`; which of them is the answer is not "
                    "clear.",
                    hint="leave one of them out",
                )
            answer = fields[names[0]] if names else None
            if not names and fields.keys().isdisjoint(_IMAGE_FIELDS):
                return None
        case _:
            return None
    if isinstance(id_, bool) or not isinstance(id_, str | int) or id_ == "":
        raise AnswersUnusable(
            f"{location}: the id is {id_!r}, not a number or text.", hint="repair that record"
        )
    images = tuple(
        image
        for name in fields
        if fields[name] != id_ or name in _IMAGE_FIELDS  # an id may be the file of a question
        for image in _images(name, fields[name])
    )
    return SavedAnswer(
        id=str(id_),
        answer=_text(answer),
        location=location,
        folder=folder,
        images=images,
        unclear=_unclear(fields, answer) if images else "",
    )


def _images(name: str, value: object) -> list[str]:
    """The references to images in a field: one or a list. In fields of other names than
    `_IMAGE_FIELDS`, only texts that end as the name of an image does; in these, what is no text is
    a reference to nothing, so that it is missing.
    """
    if name in _ANSWER_FIELDS:
        return []
    values = value if isinstance(value, list) else [value]
    texts = [replace_surrogates(one) for one in values if isinstance(one, str) and one.strip()]
    if name in _IMAGE_FIELDS:
        return texts + [json_text(one) for one in values if one and not isinstance(one, str)]
    return list(filter(_IMAGE_NAME.fullmatch, texts))


def _unclear(fields: Mapping[str, object], answer: object) -> str:
    """Why images beside an answer may not be the answer's; empty if they are."""
    if not isinstance(answer, str | None):
        return "`answer` is not a text"
    others = [name for name in fields if name not in ("id", *_ANSWER_FIELDS, *_IMAGE_FIELDS)]
    return f"other fields ({', '.join(f'`{name}`' for name in others)})" if others else ""


def _logged_answer(
    line: Mapping[str, object], resps: object, location: str, folder: Path
) -> SavedAnswer | None:
    """The answer in a line of a sample log (lmms-eval, ``evaluation_tracker.py``) or of answers
    that were saved before judging; None without the id of its sample.
    """
    nested = (value for value in line.values() if isinstance(value, Mapping))
    ids = [str(value["id"]) for value in nested if value.get("id")]
    # One list per request, one per repeat, of which the first counts. A list of texts in it, or
    # beside another under `filtered_resps`, is an answer of several rounds.
    filtered = line.get("filtered_resps")
    if isinstance(resps, list) and resps:
        are_rounds = isinstance(filtered, list) and all(isinstance(one, str) for one in resps)
        resps = resps if are_rounds else resps[0]
    while isinstance(resps, list) and len(resps) == 1:
        resps = resps[0]
    sent = line.get("input")
    if not ids:
        return None
    return SavedAnswer(
        id=ids[0],
        answer=_text(resps),
        location=location,
        folder=folder,
        input=sent if isinstance(sent, str) else None,
    )


def _text(value: object) -> ResultText:
    """A saved answer as the model returned it: a text, rounds, or the JSON of anything else.

    >>> _text([{"text": "Cut.", "image": None}])
    '[{"text": "Cut.", "image": null}]'
    """
    match value:
        case None:
            return NULL
        case str():
            return replace_surrogates(value)
        case [str(), *_] if all(isinstance(text, str) for text in value):
            rounds = tuple(replace_surrogates(str(text)) for text in value)
            return rounds[0] if len(rounds) == 1 else rounds
    return json_text(value)


def _opening_parts(steps: Sequence[object], folder: Path, location: str) -> list[object]:
    """The parts of an official answer of OpenING; an image is in the file's folder, whatever folder
    its path names.
    """
    parts: list[object] = []
    for number, step in enumerate(steps, 1):
        match step:
            case {"text": str(text), **others} if isinstance(
                image := others.get("image"), str | None
            ):
                path = str(folder / image.rpartition("/")[2]) if image else None
                parts.append({"text": text, "image": path})
            case _:
                raise AnswersUnusable(
                    f"{location}: step {number} is not a text with an image.",
                    hint="repair that record",
                )
    return parts


def _unsupported(path: Path, values: Sequence[object]) -> AnswersUnusable:
    """The error for a file of another format; names the fields of its first record."""
    record = next((value for value in values if isinstance(value, Mapping)), {})
    fields = ", ".join(f"`{name}`" for name in list(record)[:_SHOWN_FIELDS])
    named = f"; its first record has {fields}" if fields else ""
    return AnswersUnusable(f"{path} has no answers{named}.", hint=SUPPORTED_FILES)


def _not_json(location: str, error: ValueError | RecursionError) -> AnswersUnusable:
    message = f"{location}: not JSON in UTF-8 ({json_problem(error)})."
    return AnswersUnusable(message, hint=f"save it as JSON or JSONL in UTF-8; {SUPPORTED_FILES}")
