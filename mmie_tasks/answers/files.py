"""Read the files of saved answers below a path.

JSON and JSONL files of any origin, also damaged ones; the newest log of a task; one answer where
several logs hold the same.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from pathlib import Path

from mmie_tasks.answers.parsing import failure_of, parse_answer
from mmie_tasks.answers.saved import (
    AnswerFormat,
    SavedAnswer,
    Source,
    is_opening_output,
    read_opening,
    reader_of,
    require_reader,
)
from mmie_tasks.core.errors import AnswersUnusable, DataBroken
from mmie_tasks.core.files import json_problem
from mmie_tasks.hub.images import inside

SUPPORTED_FILES = (
    "supported are lmms-eval sample logs (`*_samples_<task>.jsonl`), the answers that a run saves "
    "before judging (`*_answers_<task>.jsonl`) and lmms-eval cache logs "
    "(`*.audit.jsonl`), MileBench `<DATASET>/pred.json`, MMIE `data.json` with `answer`, "
    "MIA-Bench jsonl, OpenING `<MODEL>_output/`, JSON or JSONL records of `id` and `answer`, an "
    "object `{id: answer}`, and folders of these"
)

_BOM = b"\xef\xbb\xbf"
# Of one run: its log of samples, and what it saved before judging, a file for each process.
_RUN_FILE = re.compile(r"(?P<date>.*?)(?:_samples|(?P<rank>_rank\d+)_answers)_(?P<task>.+)\.jsonl")
_WHOLE_FILE = "the whole file"
_NEVER_ANSWERS = re.compile(r".*_results\.json|eval\.json|eval_score\.json")


@dataclass(frozen=True, slots=True)
class _FileEntry:
    """One JSON value and its position in the file."""

    value: object
    position: str


@dataclass(frozen=True, slots=True)
class SavedAnswers:
    """The saved answers below a path, and notes on what was left out."""

    answers: tuple[SavedAnswer, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _File:
    """A file that may have answers, and what its name says about them.

    Attributes:
        path: The file.
        is_named: Whether the user named it, and not a folder above it.
        task: Of a log of samples, or of what a run saved before judging.
        date: Of the run, as text that sorts by time.
        is_of_ended_run: Whether a run saved it before judging; it is removed when the log of
            samples is written.
    """

    path: Path
    is_named: bool
    task: str | None = None
    date: str = ""
    is_of_ended_run: bool = False


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
    answers = _merge_partial_logs(answers)
    if not answers:
        raise AnswersUnusable(f"No saved answers in `{path}`.", hint=SUPPORTED_FILES)
    return SavedAnswers(tuple(answers), tuple(notes))


def _load_entries(path: Path, notes: list[str]) -> list[_FileEntry]:
    """The lines of a JSONL; of any other file, the entries of its list or the only value.

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
    if not content.strip():
        return []
    if path.suffix == ".jsonl":
        return _parse_lines(content, path, notes)
    try:
        value: object = json.loads(
            content.decode(), object_pairs_hook=partial(_without_repeats, path)
        )
    except (ValueError, RecursionError) as error:
        raise _not_json(path, error) from error
    if isinstance(value, list):
        return [_FileEntry(entry, f"entry {number}") for number, entry in enumerate(value, 1)]
    return [_FileEntry(value, _WHOLE_FILE)]


def _without_repeats(path: Path, pairs: list[tuple[str, object]]) -> dict[str, object]:
    """The fields of a JSON object, of whose equal keys JSON readers silently keep the last.

    Raises:
        AnswersUnusable: A key occurs twice.
    """
    key, count = max(Counter(key for key, _ in pairs).items(), key=itemgetter(1), default=("", 0))
    if count > 1:
        raise AnswersUnusable(
            f"{path}: the key {key!r} occurs twice.", hint="keep one of the two answers"
        )
    return dict(pairs)


def _parse_lines(content: bytes, path: Path, notes: list[str]) -> list[_FileEntry]:
    entries: list[_FileEntry] = []
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entries.append(_FileEntry(json.loads(line.decode()), f"line {number}"))
        except (ValueError, RecursionError) as error:
            if number < len(lines):
                if not entries and (whole := _pretty_printed(content)):
                    return whole
                raise _not_json(f"{path}, line {number}", error) from error
            notes.append(f"{path}: line {number}, the last, is cut off and was left out")
    return entries


def _pretty_printed(content: bytes) -> list[_FileEntry]:
    """The only value of a JSONL that has it on many lines, as in OpenING's published answers."""
    try:
        return [_FileEntry(json.loads(content.decode()), _WHOLE_FILE)]
    except (ValueError, RecursionError):
        return []


def _not_json(location: object, error: ValueError | RecursionError) -> AnswersUnusable:
    message = f"{location}: not JSON in UTF-8 ({json_problem(error)})."
    return AnswersUnusable(message, hint="repair the file, or point `path` at another one")


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
        for file in sorted(root.rglob("*.json*")) if root.is_dir() else [root]:
            if file is root or _may_have_answers(file):
                files.setdefault(file.resolve(), _file(file, is_named=file is root))
    return list(files.values())


def _may_have_answers(file: Path) -> bool:
    """Whether a file of a folder may have answers: not scores, nor a copy of MileBench's."""
    if file.suffix not in {".json", ".jsonl"} or not file.is_file():
        return False
    is_extracted = file.name == "pred_with_extracted.json"
    is_copy = is_extracted and file.with_name("pred.json").exists()
    return not is_copy and not _NEVER_ANSWERS.fullmatch(file.name)


def _file(path: Path, *, is_named: bool) -> _File:
    name = _RUN_FILE.fullmatch(path.name)
    if name is None:
        return _File(path, is_named)
    return _File(path, is_named, name["task"], name["date"], is_of_ended_run=bool(name["rank"]))


def _newest_logs(files: Sequence[_File], notes: list[str]) -> list[_File]:
    """Leave out the files of older runs of a task in the same folder.

    Logs of samples in two folders are two models or settings; what an ended run saved may lie in
    another folder than the log of the run that scored it, and is compared answer by answer.
    """
    newest: dict[tuple[str, Path], _File] = {}
    folders: dict[str, _File] = {}
    for file in files:
        if file.task is None:
            continue
        key = (file.task, file.path.resolve().parent)
        newest[key] = max(newest.get(key, file), file, key=lambda log: log.date)
        other = file if file.is_of_ended_run else folders.setdefault(file.task, file)
        if other.path.resolve().parent != file.path.resolve().parent:
            raise AnswersUnusable(
                f"Two folders have answers to `{file.task}`: {other.path.parent} and "
                f"{file.path.parent}.",
                hint="point `path` at one of them",
            )
    kept = []
    for file in files:
        newer = newest[file.task, file.path.resolve().parent] if file.task else file
        if newer.date == file.date:
            kept.append(file)
        else:
            notes.append(
                f"{file.path} was left out: {newer.path.name} is of a newer run of the task"
            )
    return kept


def _read(file: _File, datasets: Collection[str], notes: list[str]) -> list[SavedAnswer]:
    entries = _load_entries(file.path, notes)
    if len(entries) == 1 and is_opening_output(entries[0].value):
        source = Source(path=file.path, position=entries[0].position)
        return [read_opening(entries[0].value, source)]  # type: ignore[arg-type]  # checked
    records = _records(entries)
    readers = (reader_of(entry.value) for entry in records)
    reader = next((reader for reader in readers if reader), None)
    if reader is None:
        if not entries:
            notes.append(f"{file.path} is empty")
        if file.is_named:
            problem = "answers in no supported format" if entries else "nothing"
            raise AnswersUnusable(f"{file.path} holds {problem}.", hint=SUPPORTED_FILES)
        return []
    answers = []
    for entry in records:
        source = Source(path=file.path, position=entry.position, task=file.task, datasets=datasets)
        if answer := reader(require_reader(entry.value, reader, source), source):
            if file.is_of_ended_run:
                answer = replace(answer, format="answers of an ended run")
            if answer.format == "id and answer" and isinstance(answer.answer, str):
                absolute = _with_absolute_images(answer.answer, file.path.absolute().parent)
                answer = replace(answer, answer=absolute)
            answers.append(answer)
    return answers


def _with_absolute_images(answer: str, folder: Path) -> str:
    """The answer, if it is JSON, with the relative paths in it that name files below `folder` made
    absolute.

    A file of answers is moved together with its images, and a run that reads it has another
    working directory.
    """
    if not answer.startswith(("{", "[")):
        return answer
    for reference in {segment.image for segment in parse_answer([answer]).segments}:
        if not reference or reference.startswith("data:"):
            continue
        with suppress(DataBroken, OSError, ValueError):  # it leaves the folder, or can be no path
            path = inside(folder, reference)
            if path.is_file():
                absolute = json.dumps(str(path), ensure_ascii=False)
                for is_ascii in (True, False):
                    answer = answer.replace(json.dumps(reference, ensure_ascii=is_ascii), absolute)
    return answer


def _records(entries: Sequence[_FileEntry]) -> Sequence[_FileEntry]:
    """The records of a file; those of an object ``{id: answer}`` are made of its pairs.

    Every value of such an object is a text, a list or null, and one has content: others are scores
    or a configuration.
    """
    if [entry.position for entry in entries] != [_WHOLE_FILE] or reader_of(entries[0].value):
        return entries
    fields = entries[0].value
    if not isinstance(fields, Mapping) or not any(fields.values()):
        return ()
    if not all(isinstance(value, str | list | None) for value in fields.values()):
        return ()
    return [_FileEntry({"id": k, "answer": value}, f"key {k!r}") for k, value in fields.items()]


_PARTIAL: Collection[AnswerFormat] = ("lmms-eval cache log", "answers of an ended run")


def _merge_partial_logs(answers: Sequence[SavedAnswer]) -> list[SavedAnswer]:
    """Merge files of one run: each rank has one, the whole cache another, a sample log repeats
    them.

    An answer replaces a failure that was logged for the same request.
    """
    merged: dict[tuple[str | None, int | None], SavedAnswer] = {}
    whole = [answer for answer in answers if answer.format not in _PARTIAL]
    in_sample_logs = {(one.task, one.doc_id): one for one in whole}
    for answer in answers:
        if answer.format not in _PARTIAL:
            continue
        key = (answer.task, answer.doc_id)
        other = in_sample_logs.get(key) or merged.get(key)
        if other is None or (failure_of(other.answer) and key not in in_sample_logs):
            merged[key] = answer
        elif other.answer != answer.answer and not failure_of(answer.answer):
            raise AnswersUnusable(
                f"Two answers to sample {answer.doc_id} of `{answer.task}`: {other.location}, and "
                f"{answer.location}.",
                hint="point `path` at one run: its sample log, or its folder below `runs/`",
            )
    return [*whole, *merged.values()]
