"""Read the files of saved answers below a path.

JSON and JSONL files of any origin, also damaged ones; the newest log of a task; one answer where
several logs hold the same.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from mmie_tasks.answers.saved import (
    ANSWER_FIELDS,
    SavedAnswer,
    Source,
    failure_of,
    read_plain,
    reader_of,
    require_reader,
)
from mmie_tasks.core.errors import AnswersUnusable

SUPPORTED_FILES = (
    "supported are lmms-eval sample logs (`*_samples_<task>.jsonl`) and cache logs "
    "(`*.audit.jsonl`), MileBench `<DATASET>/pred.json`, MMIE `data.json` with `answer`, "
    "MIA-Bench jsonl, JSON or JSONL records of `id` and `answer`, and folders of these"
)

_BOM = b"\xef\xbb\xbf"
_SAMPLE_LOG = re.compile(r"(?P<date>.*?)_samples_(?P<task>.+)\.jsonl")
_NEVER_ANSWERS = re.compile(r".*_results\.json|eval\.json|eval_score\.json")

_SampleKey: TypeAlias = tuple[str | None, int | None]


@dataclass(frozen=True, slots=True)
class Entry:
    """One JSON value and its position in the file."""

    value: object
    position: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """The content of a file: the lines of a JSONL, the entries of a list, or one other value."""

    kind: Literal["lines", "list", "single"]
    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SavedAnswers:
    """The saved answers below a path, and notes on what was left out."""

    answers: tuple[SavedAnswer, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    explicit: bool  # named by the user, not by a folder above it

    @property
    def task(self) -> str | None:
        match = _SAMPLE_LOG.fullmatch(self.path.name)
        return match["task"] if match else None


class _RepeatedKey(ValueError):
    """A key occurs twice in one JSON object; JSON readers silently keep the last."""


def read_answers(path: str, datasets: Collection[str] = ()) -> SavedAnswers:
    """Read every saved answer in a file or folder, or in several joined by ``;``.

    Of a folder's sample logs only the newest of each task is read. In a folder, JSON files that
    hold no answers are skipped.

    Args:
        path: Files and folders.
        datasets: Names of datasets whose sample ids are ``<dataset>/<id>``. A bare id in a folder
            of such a name, as MileBench's ``<DATASET>/pred.json``, belongs to that dataset.

    Raises:
        AnswersUnusable: The path does not exist, holds no readable answers, or holds two sources
            that contradict each other.
    """
    notes: list[str] = []
    answers: list[SavedAnswer] = []
    for file in _newest_logs(_files(path), notes):
        answers += _read(file, datasets, notes)
    answers = _merge_cache_logs(answers)
    if not answers:
        raise AnswersUnusable(f"No saved answers in `{path}`.", hint=SUPPORTED_FILES)
    return SavedAnswers(tuple(answers), tuple(notes))


def read_file(path: Path) -> FileContent:
    """Read a JSON or JSONL file, whatever its suffix.

    If the last line of a JSONL was cut off, as by a killed run, the file is read without that line,
    and a note reports it.

    Raises:
        AnswersUnusable: It cannot be opened, or is not JSON in UTF-8; names file and line.
    """
    try:
        content = path.read_bytes().removeprefix(_BOM)
    except OSError as error:
        raise AnswersUnusable(
            f"Cannot read {path}: {error.strerror}.", hint="check the path and its permissions"
        ) from error
    if path.suffix == ".jsonl" and not content.lstrip().startswith(b"["):
        return _parse_lines(content, path)
    try:
        return _parse_json(content)
    except _RepeatedKey as error:
        raise AnswersUnusable(
            f"{path}: the key {error} occurs twice.", hint="keep one of the two answers"
        ) from error
    except (ValueError, RecursionError) as error:
        if _starts_with_json_line(content):
            return _parse_lines(content, path)
        raise _not_json(path, _reason(error)) from error


def _parse_json(content: bytes) -> FileContent:
    if not content.strip():
        return FileContent(kind="list", entries=())
    value: object = json.loads(content.decode(), object_pairs_hook=_without_repeats)
    if isinstance(value, list):
        entries = (Entry(entry, f"entry {number}") for number, entry in enumerate(value, 1))
        return FileContent(kind="list", entries=tuple(entries))
    return FileContent(kind="single", entries=(Entry(value, "the whole file"),))


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _RepeatedKey(repr(next(key for key in keys if keys.count(key) > 1)))
    return fields


def _starts_with_json_line(content: bytes) -> bool:
    """Whether the first line is a JSON object by itself, so that the file is a JSONL."""
    first_line, _, following = content.lstrip().partition(b"\n")
    try:
        return bool(following) and isinstance(json.loads(first_line), dict)
    except (ValueError, RecursionError):
        return False


def _parse_lines(content: bytes, path: Path) -> FileContent:
    entries: list[Entry] = []
    notes: list[str] = []
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entries.append(Entry(json.loads(line.decode()), f"line {number}"))
        except (ValueError, RecursionError) as error:
            if number < len(lines):
                raise _not_json(f"{path}, line {number}", _reason(error)) from error
            notes.append(f"{path}: line {number}, the last, is cut off and was left out")
    return FileContent(kind="lines", entries=tuple(entries), notes=tuple(notes))


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _not_json(location: object, reason: str) -> AnswersUnusable:
    return AnswersUnusable(
        f"{location}: not JSON in UTF-8 ({reason}).",
        hint="repair the file, or point `path` at another one",
    )


def _files(path: str) -> list[_File]:
    roots = [Path(root.strip()).expanduser() for root in path.split(";") if root.strip()]
    if not roots:
        raise AnswersUnusable(
            "`path` is empty.", hint=f"--model_args path=FILE_OR_FOLDER; {SUPPORTED_FILES}"
        )
    files: dict[Path, _File] = {}
    for root in roots:
        if not root.exists():
            raise AnswersUnusable(
                f"`{root}` does not exist.", hint=f"check the path; {SUPPORTED_FILES}"
            )
        for file in _json_files(root) if root.is_dir() else [root]:
            files.setdefault(file.resolve(), _File(file, explicit=root.is_file()))
    return list(files.values())


def _json_files(folder: Path) -> Iterator[Path]:
    for file in sorted(folder.rglob("*.json*")):
        is_copy = file.name == "pred_with_extracted.json" and file.with_name("pred.json").exists()
        if (
            file.suffix in {".json", ".jsonl"}
            and file.is_file()
            and not is_copy
            and not _NEVER_ANSWERS.fullmatch(file.name)
        ):
            yield file


def _newest_logs(files: Sequence[_File], notes: list[str]) -> list[_File]:
    """Leave out the older logs of a task; their names begin with a date that sorts as text."""
    newest: dict[str, _File] = {}
    for file in files:
        if file.task is None:
            continue
        other = newest.setdefault(file.task, file)
        if other.path.resolve().parent != file.path.resolve().parent:
            raise AnswersUnusable(
                f"Two folders have answers to `{file.task}`: "
                f"{other.path.parent} and {file.path.parent}.",
                hint="point `path` at one of them",
            )
        newest[file.task] = max(other, file, key=lambda log: log.path.name)
    older = [file for file in files if file.task and file is not newest[file.task]]
    for file in older:
        newer = newest[file.task or ""].path.name
        notes.append(f"{file.path} was left out: {newer} is a newer run of the task")
    return [file for file in files if file not in older]


def _read(file: _File, datasets: Collection[str], notes: list[str]) -> list[SavedAnswer]:
    content = read_file(file.path)
    notes += content.notes
    records = _records(content, file)
    readers = (reader_of(entry.value) for entry in records)
    reader = next((reader for reader in readers if reader), None)
    if reader is None:
        if not content.entries:
            notes.append(f"{file.path} is empty")
        if file.explicit:
            problem = "answers in no supported format" if content.entries else "nothing"
            raise AnswersUnusable(f"{file.path} holds {problem}.", hint=SUPPORTED_FILES)
        return []
    if reader is read_plain and not file.explicit and _is_ambiguous(records):
        notes.append(f"{file.path} was left out: several of its fields may be the answer")
        return []
    answers = []
    for entry in records:
        source = Source(path=file.path, position=entry.position, task=file.task, datasets=datasets)
        if answer := reader(require_reader(entry.value, reader, source), source):
            answers.append(answer)
    return _without_shared_names(answers)


def _records(content: FileContent, file: _File) -> Sequence[Entry]:
    """The records of a file; those of an object ``{id: answer}`` are made of its pairs."""
    if content.kind != "single" or reader_of(content.entries[0].value):
        return content.entries
    fields = content.entries[0].value
    if not isinstance(fields, Mapping) or not _maps_ids_to_answers(
        fields, strict=not file.explicit
    ):
        return ()
    return [
        Entry({"id": key, "answer": value}, f"key {key!r}") for key, value in fields.items() if key
    ]


def _maps_ids_to_answers(fields: Mapping[str, object], *, strict: bool) -> bool:
    """Whether this is ``{id: answer}``, and not ``{id: score}``, an annotation or a configuration.

    In a folder (`strict`), every value must be a possible answer; otherwise one text is enough.
    """
    if "meta_data" in fields:
        return False
    can_be_answers = [value is None or isinstance(value, (str, list)) for value in fields.values()]
    return any(isinstance(value, (str, list)) for value in fields.values()) and (
        not strict or all(can_be_answers)
    )


def _is_ambiguous(records: Sequence[Entry]) -> bool:
    return any(
        isinstance(entry.value, Mapping) and sum(name in entry.value for name in ANSWER_FIELDS) > 1
        for entry in records
    )


def _without_shared_names(answers: list[SavedAnswer]) -> list[SavedAnswer]:
    """Drop a file name that two URLs of a file end in: it identifies neither; the URLs do."""
    counts = Counter(sample_id for answer in answers for sample_id in answer.ids)
    return [
        replace(
            answer, ids=(answer.ids[0], *(name for name in answer.ids[1:] if counts[name] == 1))
        )
        if len(answer.ids) > 1
        else answer
        for answer in answers
    ]


def _merge_cache_logs(answers: Sequence[SavedAnswer]) -> list[SavedAnswer]:
    """Merge cache logs: each rank has one, the whole cache another, a sample log repeats them.

    An answer replaces a failure that was logged for the same request.
    """
    merged: dict[_SampleKey, SavedAnswer] = {}
    not_cached = [answer for answer in answers if answer.format != "lmms-eval cache log"]
    in_sample_logs: dict[_SampleKey, SavedAnswer] = {
        (answer.task, answer.doc_id): answer for answer in not_cached if answer.task
    }
    for answer in answers:
        if answer.format != "lmms-eval cache log":
            continue
        key = (answer.task, answer.doc_id)
        other = in_sample_logs.get(key) or merged.get(key)
        if other is None or (failure_of(other.answer) and key not in in_sample_logs):
            merged[key] = answer
        elif other.answer != answer.answer and not failure_of(answer.answer):
            raise AnswersUnusable(
                f"Two answers to sample {answer.doc_id} of `{answer.task}`: "
                f"{other.location}, and {answer.location}.",
                hint="point `path` at one run: its sample log, or its folder below `runs/`",
            )
    return [*not_cached, *merged.values()]
