"""Read the files of saved answers below a path.

JSON and JSONL files of any origin, also damaged ones; the newest log of a task; one answer where
several logs hold the same.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mmie_tasks.answers.drawn import read_drawn_answer, write_undrawn_answer
from mmie_tasks.answers.parsing import NOT_TEXT, failure_of, parse_answer
from mmie_tasks.answers.saved import (
    ANSWER_FIELDS,
    Answer,
    AnswerFormat,
    SavedAnswer,
    Source,
    is_opening_output,
    read_opening,
    read_plain,
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
    "MIA-Bench jsonl, OpenING `<MODEL>_output/`, JSON or JSONL records of `id` and `answer`, and "
    "folders of these"
)

_BOM = b"\xef\xbb\xbf"
# Of one run: its log of samples, and what it saved before judging, a file for each process.
_RUN_FILE = re.compile(r"(?P<date>.*?)(?:_samples|(?P<rank>_rank\d+)_answers)_(?P<task>.+)\.jsonl")
# In JSON and what Python prints, in HTML, in markdown.
_BEFORE_IMAGE = r"""(?:[\[(,:]\s*["']|src\s*=\s*["']|\]\(\s*<)"""
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
    path: Path
    explicit: bool  # named by the user, not by a folder above it

    @property
    def task(self) -> str | None:
        match = _RUN_FILE.fullmatch(self.path.name)
        return match["task"] if match else None

    @property
    def date(self) -> str:
        """Of the run, as text that sorts by time; empty if the name does not have it."""
        match = _RUN_FILE.fullmatch(self.path.name)
        return match["date"] if match else ""

    @property
    def is_of_ended_run(self) -> bool:
        """Whether a run saved it before judging; it is removed when the log of samples is
        written.
        """
        match = _RUN_FILE.fullmatch(self.path.name)
        return bool(match and match["rank"])


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
        value: object = json.loads(content.decode(), object_pairs_hook=_without_repeats)
    except _RepeatedKey as error:
        raise AnswersUnusable(
            f"{path}: the key {error} occurs twice.", hint="keep one of the two answers"
        ) from error
    except (ValueError, RecursionError) as error:
        raise _not_json(path, error) from error
    if isinstance(value, list):
        return [_FileEntry(entry, f"entry {number}") for number, entry in enumerate(value, 1)]
    return [_FileEntry(value, _WHOLE_FILE)]


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise _RepeatedKey(repr(next(key for key in counts if counts[key] > 1)))
    return fields


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
            is_extracted = file.name == "pred_with_extracted.json"
            is_copy = is_extracted and file.with_name("pred.json").exists()
            is_json = file.suffix in {".json", ".jsonl"} and file.is_file()
            never = is_copy or _NEVER_ANSWERS.fullmatch(file.name)
            if file is root or (is_json and not never):
                files.setdefault(file.resolve(), _File(file, explicit=file is root))
    return list(files.values())


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
    records = _records(entries, strict=not file.explicit)
    readers = (reader_of(entry.value) for entry in records)
    reader = next((reader for reader in readers if reader), None)
    if reader is None:
        if not entries:
            notes.append(f"{file.path} is empty")
        if file.explicit:
            problem = "answers in no supported format" if entries else "nothing"
            raise AnswersUnusable(f"{file.path} holds {problem}.", hint=SUPPORTED_FILES)
        return []
    mappings = [entry.value for entry in records if isinstance(entry.value, Mapping)]
    is_ambiguous = any(len(mapping.keys() & set(ANSWER_FIELDS)) > 1 for mapping in mappings)
    if reader is read_plain and not file.explicit and is_ambiguous:
        notes.append(f"{file.path} was left out: several of its fields may be the answer")
        return []
    answers = []
    for entry in records:
        source = Source(path=file.path, position=entry.position, task=file.task, datasets=datasets)
        if answer := reader(require_reader(entry.value, reader, source), source):
            if file.is_of_ended_run:
                answer = replace(answer, format="answers of an ended run")
            if answer.format == "id and answer":
                absolute = _with_absolute_images(answer.answer, file.path.absolute().parent)
                answer = replace(answer, answer=absolute)
            answers.append(answer)
    return _without_shared_names(answers)


def _without_shared_names(answers: Sequence[SavedAnswer]) -> list[SavedAnswer]:
    """The answers of a file: a name that two of its URLs end in identifies neither; the URLs do."""
    counts = Counter(sample_id for answer in answers for sample_id in answer.ids)
    return [
        replace(answer, ids=(*answer.ids[:1], *(i for i in answer.ids[1:] if counts[i] == 1)))
        for answer in answers
    ]


def _with_absolute_images(answer: Answer, folder: Path) -> Answer:
    """The answer with relative image paths made absolute where they name files below `folder`.

    A file of answers is moved together with its images, and a run that reads it has another
    working directory.
    """
    if (
        isinstance(answer, str)
        and (drawn := read_drawn_answer(answer))
        and isinstance(drawn.answer, str)
    ):
        absolute = str(_with_absolute_images(drawn.answer, folder))
        return answer if absolute == drawn.answer else write_undrawn_answer(absolute, drawn.facts)
    if isinstance(answer, tuple):
        rounds = (_with_absolute_images(text, folder) for text in answer)
        return tuple(text for text in rounds if isinstance(text, str))
    for segment in parse_answer([answer.removeprefix(NOT_TEXT)], lambda _: False).segments:
        reference = segment.image
        if not reference or reference.startswith("data:"):
            continue
        try:
            path = inside(folder, reference)
            if not path.is_file():
                continue
        except (DataBroken, OSError, ValueError):  # it leaves the folder, or can be no path
            continue
        forms = [(rf"\]\(\s*({re.escape(reference)})(?=[\s)])", f"<{path}>")]  # markdown
        forms.append((rf"(?:\A|to:)\s*({re.escape(reference)})\s*\Z", str(path)))
        for write in (json.dumps, partial(json.dumps, ensure_ascii=False), repr):
            written = re.escape(write(reference)[1:-1])
            forms.append((rf"""{_BEFORE_IMAGE}({written})(?=["'>])""", write(str(path))[1:-1]))
        for pattern, absolute in forms:
            for match in reversed(list(re.finditer(pattern, answer))):
                answer = answer[: match.start(1)] + absolute + answer[match.end(1) :]
    return answer


def _records(entries: Sequence[_FileEntry], *, strict: bool) -> Sequence[_FileEntry]:
    """The records of a file; those of an object ``{id: answer}`` are made of its pairs.

    That is distinguished from ``{id: score}``, an annotation or a configuration: with `strict`,
    every value must be a possible answer; otherwise one text or list is enough.
    """
    if [entry.position for entry in entries] != [_WHOLE_FILE] or reader_of(entries[0].value):
        return entries
    fields = entries[0].value
    if not isinstance(fields, Mapping) or "meta_data" in fields:
        return ()
    is_answer = [isinstance(value, (str, list)) for value in fields.values() if value is not None]
    if not any(is_answer) or (strict and not all(is_answer)):
        return ()
    return [
        _FileEntry({"id": k, "answer": value}, f"key {k!r}") for k, value in fields.items() if k
    ]


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
