"""Reads files of saved answers: JSON and JSONL, also damaged ones.

Only the newest log of a task is read, and an answer that several logs hold is read once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmie_tasks.answers.saved import (
    AnswerFormat,
    RecordReader,
    SavedAnswer,
    Source,
    is_opening_output,
    read_opening,
    reader_of,
)
from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.core.files import json_problem
from mmie_tasks.record.log_files import SampleLog

SUPPORTED_FILES = """\
answers are read from JSON or JSONL with a record for each sample, without or with images:

{"id": "ID", "answer": "Fold the paper."}
{"id": "ID", "answer": "Fold it. <image> Cut it. <image>", "images": ["1.png", "2.png"]}

also read are an object `{id: answer}`, lmms-eval sample logs (`*_samples_<task>.jsonl`) and the \
answers that a run saves before judging (`*_answers_<task>.jsonl`), both with the ids of samples, \
MileBench `<DATASET>/pred.json`, MMIE `data.json` with `answer`, MIA-Bench jsonl, OpenING \
`<MODEL>_output/`, and folders of these"""

# A run's log of samples, or the answers that it saved before judging.
_RUN_FILE = re.compile(
    r"(?P<date>.*?)(?:_samples|(?<=\d{6})(?P<early>_answers))_(?P<task>.+)\.jsonl"
)
_NEVER_ANSWERS = re.compile(r".*_results\.json|eval\.json|eval_score\.json")
_WHOLE_FILE = "the whole file"
_ENDED_RUN: AnswerFormat = "answers of an ended run"
_SHOWN_FIELDS = 20


@dataclass(frozen=True, slots=True)
class SavedAnswers:
    """Saved answers, and notes on what was left out.

    `model` is the tested model: by the results of the runs that saved the answers, if all of them
    name one model, else the name of the only path; empty for several paths.
    """

    answers: tuple[SavedAnswer, ...]
    notes: tuple[str, ...] = ()
    model: str = ""


def read_answers(path: str, datasets: Collection[str] = ()) -> SavedAnswers:
    """Read every saved answer below a path.

    In a folder, only the newest sample log of each task is read, and JSON files without answers
    are skipped.

    Args:
        path: A file or folder, or several joined by ``;``.
        datasets: Names of datasets whose sample ids are ``<dataset>/<id>``. A bare id in a folder
            of such a name, as in MileBench's ``<DATASET>/pred.json``, is an id of that dataset.

    Raises:
        AnswersUnusable: The path does not exist, has no readable answers, or has two sources that
            contradict each other.
    """
    roots = [Path(root.strip()).expanduser() for root in path.split(";") if root.strip()]
    if not roots:
        hint = f"name the saved answers with `--model_args path=...`; {SUPPORTED_FILES}"
        raise AnswersUnusable("`--model predictions` got no `path=`.", hint=hint)
    if absent := next((root for root in roots if not root.exists()), None):
        raise AnswersUnusable(
            f"`{absent}` does not exist.", hint=f"check the path; {SUPPORTED_FILES}"
        )
    notes: list[str] = []
    answers: list[SavedAnswer] = []
    models: set[str] = set()
    for file in _newest_logs(_files(roots, datasets), notes):
        if of_file := _read(file, notes, is_named=file.path in roots):
            answers += of_file
            models.add(_logged_model(file))
    if not answers:
        reasons = "".join(f" {note}." for note in notes)
        raise AnswersUnusable(f"`path={path}` has no saved answers.{reasons}", hint=SUPPORTED_FILES)
    model = models.pop() if len(models) == 1 else ""
    if not model and len(roots) == 1:
        model = roots[0].stem if roots[0].is_file() else roots[0].resolve().name
    return SavedAnswers(tuple(_without_repeats(answers)), tuple(notes), model)


def _logged_model(file: Source) -> str:
    """The tested model of the run that saved a file; empty if no run did."""
    if file.task is None:
        return ""
    return SampleLog(path=file.path, date=file.date, task=file.task).tested_model


# The files


def _files(roots: Sequence[Path], datasets: Collection[str]) -> list[Source]:
    files: dict[Path, Source] = {}
    for root in roots:
        below = sorted(filter(_may_have_answers, root.rglob("*.json*")))
        for path in below if root.is_dir() else [root]:
            file = Source(path=path, datasets=datasets)
            if name := _RUN_FILE.fullmatch(path.name):
                file = replace(
                    file, task=name["task"], date=name["date"], is_of_ended_run=bool(name["early"])
                )
            files.setdefault(path.resolve(), file)
    return list(files.values())


def _may_have_answers(file: Path) -> bool:
    """Whether a file may have answers; scores and copies of MileBench's answers have none."""
    if file.suffix not in {".json", ".jsonl"} or not file.is_file():
        return False
    is_extracted = file.name == "pred_with_extracted.json"
    is_copy = is_extracted and file.with_name("pred.json").exists()
    return not is_copy and not _NEVER_ANSWERS.fullmatch(file.name)


def _newest_logs(files: Sequence[Source], notes: list[str]) -> list[Source]:
    """Leave out older runs of a task in the same folder.

    Sample logs in two folders come from two models or settings. The answers of an ended run may be
    in another folder than the log of the run that scored them: they are compared one by one.
    """
    newest: dict[tuple[str, Path], Source] = {}
    folders: dict[str, Path] = {}
    for file in files:
        if file.task is None:
            continue
        folder = file.path.resolve().parent
        newer = newest.setdefault((file.task, folder), file)
        if file.date > newer.date:
            newest[file.task, folder] = file
        if not file.is_of_ended_run and folders.setdefault(file.task, folder) != folder:
            raise AnswersUnusable(
                f"Two folders have answers to `{file.task}`: {folders[file.task]} and {folder}.",
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


# The answers of a file


def _read(file: Source, notes: list[str], *, is_named: bool) -> list[SavedAnswer]:
    entries = _load_entries(file.path, notes)
    values = list(entries.values())
    if len(values) == 1 and is_opening_output(values[0]):
        return [read_opening(values[0], file)]
    if [*entries] == [_WHOLE_FILE] and reader_of(values[0]) is None:
        entries = _records_of_object(values[0])
    readers = {position: reader_of(value) for position, value in entries.items()}
    if not any(readers.values()):
        if not values:
            notes.append(f"{file.path} is empty")
        if is_named:
            raise _unsupported(file.path, values)
        return []
    answers = [_answer_at(replace(file, position=one), readers[one]) for one in readers]
    if without_id := answers.count(None):
        problem = "no `id` of the sample"
        notes.append(f"{file.path}: {without_id} answers were left out: {problem}")
    return [answer for answer in answers if answer]


def _unsupported(path: Path, values: Sequence[object]) -> AnswersUnusable:
    """The error for a file of another format; names the fields of its first record."""
    if not values:
        return AnswersUnusable(f"{path} holds nothing.", hint=SUPPORTED_FILES)
    record = next((value for value in values if isinstance(value, Mapping)), {})
    fields = ", ".join(f"`{name}`" for name in list(record)[:_SHOWN_FIELDS])
    named = f"; its first record has {fields}" if fields else ""
    message = f"{path} holds answers in no supported format{named}."
    return AnswersUnusable(message, hint=SUPPORTED_FILES)


def _answer_at(source: Source, reader: RecordReader | None) -> SavedAnswer | None:
    """The answer of a record; None if it has no id."""
    if reader is None:
        raise source.error("it lacks the fields that other records of the file have")
    return reader(source)


def _load_entries(path: Path, notes: list[str]) -> dict[str, object]:
    """The JSON values of a file by their position: lines of a JSONL, entries of a list, or the
    only value, which in OpenING's published JSONL is on many lines.

    A last line that was cut off, as by a killed run, is left out with a note.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise AnswersUnusable(
            f"Cannot read {path}: {error.strerror}.", hint="check the path and its permissions"
        ) from error
    if not content.strip():
        return {}
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        if path.suffix == ".jsonl":
            return _load_lines(content, path, notes)
        raise _not_json(path, error) from error
    if isinstance(value, list):
        return {f"entry {number}": entry for number, entry in enumerate(value, 1)}
    return {_WHOLE_FILE: value}


def _load_lines(content: bytes, path: Path, notes: list[str]) -> dict[str, object]:
    entries: dict[str, object] = {}
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            if line.strip():
                entries[f"line {number}"] = json.loads(line)
        except (ValueError, RecursionError) as error:  # noqa: PERF203 - concerns one line
            if number < len(lines):
                raise _not_json(f"{path}, line {number}", error) from error
            notes.append(f"{path}: line {number}, the last, is cut off and was left out")
    return entries


def _not_json(location: object, error: ValueError | RecursionError) -> AnswersUnusable:
    message = f"{location}: not JSON in UTF-8 ({json_problem(error)})."
    return AnswersUnusable(message, hint=f"repair the file; {SUPPORTED_FILES}")


def _records_of_object(fields: object) -> dict[str, object]:
    """The records of an object ``{id: answer}``; empty for other objects.

    All its values are texts, lists or null, and one has content; scores and configurations have
    others.
    """
    if not isinstance(fields, Mapping) or not any(fields.values()):
        return {}
    if not all(isinstance(value, str | list | None) for value in fields.values()):
        return {}
    return {f"key {name!r}": {"id": name, "answer": value} for name, value in fields.items()}


def _without_repeats(answers: Sequence[SavedAnswer]) -> list[SavedAnswer]:
    """The answers without an ended run's answers that a sample log has, too."""
    logged = {(a.task, a.id, a.answer) for a in answers if a.format != _ENDED_RUN}
    return [a for a in answers if a.format != _ENDED_RUN or (a.task, a.id, a.answer) not in logged]
