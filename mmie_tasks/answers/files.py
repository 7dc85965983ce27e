"""From a path to saved answers: which files to read, and which of them to believe."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from mmie_tasks.answers.saved import (
    ANSWER_FIELDS,
    SavedAnswer,
    Source,
    checked,
    failure_of,
    read_plain,
    reader_of,
)
from mmie_tasks.core.errors import AnswersUnusable

# Reading JSON and JSONL files that a stranger, or a crashed run, has left.

_BOM = b"\xef\xbb\xbf"
_HINT_JSON = "repair the file, or point `path` at another one"


@dataclass(frozen=True, slots=True)
class Entry:
    """One JSON value, and where in the file it stands."""

    value: object
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a file holds: the lines of a JSONL, the items of a list, or one other value."""

    kind: Literal["lines", "list", "single"]
    entries: tuple[Entry, ...]
    notes: tuple[str, ...] = ()


class _Repeated(ValueError):
    """A key stands twice in one JSON object; JSON readers keep the last and say nothing."""


def read_file(path: Path) -> Contents:
    """Read a JSON or JSONL file, whatever its name ends with.

    A JSONL whose last line was cut off, as a killed run leaves it, is read without that line, and
    a note says so.

    Raises:
        AnswersUnusable: It cannot be opened, or is not JSON in UTF-8; names file and line.
    """
    try:
        data = path.read_bytes().removeprefix(_BOM)
    except OSError as error:
        raise AnswersUnusable(
            f"Cannot read {path}: {error.strerror}.", hint="check the path and its permissions"
        ) from error
    if path.suffix == ".jsonl" and not data.lstrip().startswith(b"["):
        return _lines(data, path)
    try:
        return _whole(data)
    except _Repeated as error:
        raise AnswersUnusable(
            f"{path}: the key {error} stands there twice.", hint="keep one of the two answers"
        ) from error
    except (ValueError, RecursionError) as error:
        if _starts_with_an_object(data):
            return _lines(data, path)
        raise _not_json(path, _reason(error)) from error


def _whole(data: bytes) -> Contents:
    if not data.strip():
        return Contents(kind="list", entries=())
    value: object = json.loads(data.decode(), object_pairs_hook=_without_repeats)
    if isinstance(value, list):
        entries = (Entry(item, f"entry {number}") for number, item in enumerate(value, 1))
        return Contents(kind="list", entries=tuple(entries))
    return Contents(kind="single", entries=(Entry(value, "the whole file"),))


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _Repeated(repr(next(key for key in keys if keys.count(key) > 1)))
    return fields


def _starts_with_an_object(data: bytes) -> bool:
    """Whether the first line is a JSON object by itself, so that the file is a JSONL."""
    first, _, rest = data.lstrip().partition(b"\n")
    try:
        return bool(rest) and isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def _lines(data: bytes, path: Path) -> Contents:
    entries: list[Entry] = []
    notes: list[str] = []
    for number, line, cut in _numbered(data):
        entry = _entry(number, line)
        if isinstance(entry, Entry):
            entries.append(entry)
        elif cut:
            notes.append(f"{path}: line {number}, the last, is cut off and was left out")
        else:
            raise _not_json(f"{path}, line {number}", entry)
    return Contents(kind="lines", entries=tuple(entries), notes=tuple(notes))


def _entry(number: int, line: bytes) -> Entry | str:
    """The value in a line, or why there is none."""
    try:
        return Entry(json.loads(line.decode()), f"line {number}")
    except (ValueError, RecursionError) as error:
        return _reason(error)


def _numbered(data: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """Every line that is not blank: its number, itself, and whether it may have been cut off."""
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, line, number == len(lines)


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is not UTF-8"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _not_json(where: object, reason: str) -> AnswersUnusable:
    return AnswersUnusable(f"{where}: not JSON in UTF-8 ({reason}).", hint=_HINT_JSON)


UNDERSTOOD = (
    "understood are lmms-eval sample logs (`*_samples_<task>.jsonl`) and cache logs "
    "(`*.audit.jsonl`), MileBench `<DATASET>/pred.json`, MMIE `data.json` with `answer`, "
    "MIA-Bench jsonl, JSON or JSONL records of `id` and `answer`, and folders of these"
)

_SAMPLE_LOG = re.compile(r"(?P<date>.*?)_samples_(?P<task>.+)\.jsonl")
_NEVER_ANSWERS = re.compile(r".*_results\.json|eval\.json|eval_score\.json")


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read, and what the reader ought to know about it."""

    answers: tuple[SavedAnswer, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    named: bool  # by the user, rather than found in a folder

    @property
    def task(self) -> str | None:
        match = _SAMPLE_LOG.fullmatch(self.path.name)
        return match["task"] if match else None


def read_answers(path: str) -> Reading:
    """Read every saved answer in a file or folder, or in several joined by ``;``.

    Of a folder's sample logs only the newest of each task is read. In a folder, JSON files that
    hold no answers are passed over.

    Raises:
        AnswersUnusable: Nothing there, nothing readable, or two sources that contradict each other.
    """
    notes: list[str] = []
    answers: list[SavedAnswer] = []
    for file in _newest_logs(_files(path), notes):
        answers += _read(file, notes)
    answers = _one_a_place(answers)
    if not answers:
        raise AnswersUnusable(f"No saved answers in `{path}`.", hint=UNDERSTOOD)
    return Reading(tuple(answers), tuple(notes))


def _files(path: str) -> list[_File]:
    roots = [Path(root.strip()).expanduser() for root in path.split(";") if root.strip()]
    if not roots:
        raise AnswersUnusable(
            "`path` is empty.", hint=f"--model_args path=FILE_OR_FOLDER; {UNDERSTOOD}"
        )
    files: dict[Path, _File] = {}
    for root in roots:
        if not root.exists():
            raise AnswersUnusable(f"`{root}` does not exist.", hint=f"check the path; {UNDERSTOOD}")
        found = _in_folder(root) if root.is_dir() else [root]
        for file in found:
            files.setdefault(file.resolve(), _File(file, named=root.is_file()))
    return list(files.values())


def _in_folder(folder: Path) -> Iterator[Path]:
    for file in sorted(folder.rglob("*.json*")):
        extracted = file.name == "pred_with_extracted.json" and file.with_name("pred.json").exists()
        if (
            file.suffix in {".json", ".jsonl"}
            and file.is_file()
            and not extracted
            and not _NEVER_ANSWERS.fullmatch(file.name)
        ):
            yield file


def _newest_logs(files: Sequence[_File], notes: list[str]) -> list[_File]:
    """Leave out the older logs of a task; their names begin with a date that sorts as text."""
    newest: dict[str, _File] = {}
    for file in files:
        if file.task is None:
            continue
        known = newest.setdefault(file.task, file)
        if known.path.resolve().parent != file.path.resolve().parent:
            raise AnswersUnusable(
                f"Two folders have answers to `{file.task}`: "
                f"{known.path.parent} and {file.path.parent}.",
                hint="point `path` at one of them",
            )
        newest[file.task] = max(known, file, key=lambda each: each.path.name)
    older = [file for file in files if file.task and file is not newest[file.task]]
    for file in older:
        newer = newest[file.task or ""].path.name
        notes.append(f"{file.path} was left out: {newer} is a newer run of the task")
    return [file for file in files if file not in older]


def _read(file: _File, notes: list[str]) -> list[SavedAnswer]:
    contents = read_file(file.path)
    notes += contents.notes
    records = _records(contents, file)
    reader = next((found for entry in records if (found := reader_of(entry.value))), None)
    if reader is None:
        if not contents.entries:
            notes.append(f"{file.path} is empty")
        if file.named:
            held = "nothing" if not contents.entries else "no answers in a form that is known"
            raise AnswersUnusable(f"{file.path} holds {held}.", hint=UNDERSTOOD)
        return []
    if reader is read_plain and not file.named and _is_ambiguous(records):
        notes.append(f"{file.path} was left out: which of its fields is the answer is not said")
        return []
    sources = (Source(file.path, entry.place, file.task) for entry in records)
    answers = (
        reader(checked(entry.value, reader, source), source)
        for entry, source in zip(records, sources, strict=True)
    )
    return _without_shared_names([answer for answer in answers if answer is not None])


def _records(contents: Contents, file: _File) -> Sequence[Entry]:
    """The records; those of an object ``{id: answer}`` are made of its items."""
    if contents.kind != "single" or reader_of(contents.entries[0].value):
        return contents.entries
    fields = contents.entries[0].value
    if not isinstance(fields, Mapping) or not _maps_ids_to_answers(fields, strict=not file.named):
        return ()
    return [
        Entry({"id": key, "answer": value}, f"key {key!r}") for key, value in fields.items() if key
    ]


def _maps_ids_to_answers(fields: Mapping[str, object], *, strict: bool) -> bool:
    """Whether this is ``{id: answer}``, and not ``{id: score}``, an annotation or a configuration.

    In a folder, only where every value can be an answer; a file the user named needs one text.
    """
    if "meta_data" in fields:
        return False
    texts = [value is None or isinstance(value, (str, list)) for value in fields.values()]
    return any(isinstance(value, (str, list)) for value in fields.values()) and (
        not strict or all(texts)
    )


def _is_ambiguous(records: Sequence[Entry]) -> bool:
    return any(
        isinstance(entry.value, Mapping) and sum(name in entry.value for name in ANSWER_FIELDS) > 1
        for entry in records
    )


def _without_shared_names(answers: list[SavedAnswer]) -> list[SavedAnswer]:
    """A file name that two URLs of a file end in identifies neither; the URLs do."""
    holders = Counter(each for answer in answers for each in answer.ids)
    return [
        replace(answer, ids=(answer.ids[0], *(i for i in answer.ids[1:] if holders[i] == 1)))
        if len(answer.ids) > 1
        else answer
        for answer in answers
    ]


def _one_a_place(answers: Sequence[SavedAnswer]) -> list[SavedAnswer]:
    """Merge cache logs: each rank has one, the whole cache another, a sample log the same again.

    An answer beats a failure that was logged for the same request.
    """
    kept: dict[tuple[str | None, int | None], SavedAnswer] = {}
    others = [answer for answer in answers if answer.format != "lmms-eval cache log"]
    logged: dict[tuple[str | None, int | None], SavedAnswer] = {
        (answer.task, answer.doc_id): answer for answer in others if answer.task
    }
    for answer in answers:
        if answer.format != "lmms-eval cache log":
            continue
        key = (answer.task, answer.doc_id)
        known = logged.get(key) or kept.get(key)
        if known is None or (failure_of(known.answer) and key not in logged):
            kept[key] = answer
        elif known.answer != answer.answer and not failure_of(answer.answer):
            raise AnswersUnusable(
                f"Two answers to sample {answer.doc_id} of `{answer.task}`: "
                f"{known.where}, and {answer.where}.",
                hint="point `path` at one run: its sample log, or its folder below `runs/`",
            )
    return [*others, *kept.values()]
