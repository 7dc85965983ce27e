"""Finds the sample logs of runs, and reads their lines.

lmms-eval writes ``<output_path>/<model>/<date>_samples_<task>.jsonl`` and, next to it,
``<date>_results.json``. A log of 20,000 samples has about 100 MB, so lines are read one by one.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.files import files_below
from mmie_tasks.record.model_name import model_of_results, run_name
from mmie_tasks.record.record import RECORD_KEY, Line

HINT = "pass the folder given as `--output_path`, of a run with `--log_samples`"

_LOG_NAME = re.compile(r"(?P<date>.*?)_?samples_(?P<task>.+)\.jsonl")
_RESULTS_NAME = re.compile(r"(?P<date>.*?)_?results\.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleLog:
    """A sample log, identified by its file name.

    Attributes:
        path: The file.
        date: The date as the runner wrote it; later dates sort later.
        task: The task's name in lmms-eval.
    """

    path: Path
    date: str
    task: str

    @property
    def results(self) -> Path:
        """The results file of the same evaluation."""
        return self.path.with_name(f"{self.date}_results.json" if self.date else "results.json")

    def read_results(self) -> Mapping[str, object]:
        """The contents of the results file; empty if that fails."""
        try:
            content = json.loads(self.results.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}

    @property
    def tested_model(self) -> str:
        """The tested model by the results file, or else by the name of the folder."""
        return model_of_results(self.read_results()) or self.path.resolve().parent.name


@dataclass(frozen=True, slots=True)
class RunLogs:
    """The logs of one run: of each task, the newest log and further parts of it; see `_parts`.

    Attributes:
        name: The name on the command line, or else that of the newest log's tested model.
        folder: The folder of the logs.
        logs: The logs, sorted by task, and of a task by their first sample.
        older: Number of older logs of the same tasks, which are ignored.
    """

    name: str
    folder: Path
    logs: tuple[SampleLog, ...]
    older: int = 0


def find_runs(word: str) -> list[RunLogs]:
    """The runs of a command-line word: ``PATH`` or ``NAME=PATH``.

    A path is a folder that contains runs at any depth, a results file, or one sample log.

    Raises:
        AnswersUnusable: The path does not exist, or contains no sample log.
        SettingWrong: The path of a name contains several runs.
    """
    try:
        named = split_name(word)
        name, path = named.name, named.path
        if not path.exists():
            raise AnswersUnusable(f"`{path}` does not exist.", hint=HINT)
        runs = []
        for folder, logs in sorted(_by_folder(path).items()):
            by_task: defaultdict[str, list[SampleLog]] = defaultdict(list)
            for log in sorted(logs, key=lambda log: log.task):
                by_task[log.task].append(log)
            kept = tuple(log for of_task in by_task.values() for log in _parts(of_task))
            last = max(logs, key=lambda log: log.date)
            of_model = name or run_name(last.tested_model)
            runs.append(RunLogs(of_model, folder, kept, len(logs) - len(kept)))
    except (OSError, RuntimeError) as error:  # no permission, name too long, unknown `~user`
        reason = error.strerror if isinstance(error, OSError) else error
        raise AnswersUnusable(f"`{word[:200]}` cannot be opened: {reason}.", hint=HINT) from error
    if not runs:
        raise AnswersUnusable(f"`{path}` contains no log of samples.", hint=HINT)
    if name and len(runs) > 1:
        folders = ", ".join(f"`{run.folder}`" for run in runs)
        raise SettingWrong(f"`{name}` names {len(runs)} runs: {folders}.", hint="name one of them")
    return runs


@dataclass(frozen=True, slots=True)
class NamedPath:
    """A path with its name on the command line; empty if it has none."""

    name: str
    path: Path


def split_name(word: str) -> NamedPath:
    """Splits a command-line word: ``PATH`` or ``NAME=PATH``.

    Raises:
        AnswersUnusable: The path is empty.
    """
    name, equals, path = word.partition("=")
    if not equals or Path(word).expanduser().exists():
        return NamedPath("", Path(word).expanduser())
    if not path:
        raise AnswersUnusable(f"`{word}` has no path after `=`.", hint=HINT)
    return NamedPath(name.strip(), Path(path).expanduser())


def _by_folder(path: Path) -> dict[Path, list[SampleLog]]:
    match = _RESULTS_NAME.fullmatch(path.name) if path.is_file() else None
    if match:
        files = [f for f in sorted(path.parent.glob("*samples_*.jsonl")) if f.name[0] != "."]
    else:
        files = files_below(path, "*samples_*.jsonl") if path.is_dir() else [path]
    by_folder: dict[Path, list[SampleLog]] = defaultdict(list)
    for file in files:
        log = parse_log_name(file)
        if log is not None and (match is None or log.date == match["date"]):
            by_folder[file.parent].append(log)
    return dict(by_folder)


def _parts(logs: Sequence[SampleLog]) -> list[SampleLog]:
    """The logs of a task in one folder that are one run, by their first sample.

    Jobs with ``--offset`` evaluate a task in parts. From the newest log to the oldest, a log of the
    same tested model, judge and settings belongs to the run unless it shares a sample with those
    taken.
    """
    newest, *older = sorted(logs, key=lambda log: log.date, reverse=True)
    if not older:
        return [newest]
    whole = _contents(newest)
    parts = [(whole.first, newest)]
    for log in older:
        if log.tested_model != newest.tested_model:
            continue
        try:
            part = _contents(log, whole)
        except AnswersUnusable:  # one that is broken does not stop the newest
            continue
        if part.ids:
            whole.ids.update(part.ids)
            parts.append((part.first, log))
    return [log for _, log in sorted(parts, key=lambda part: part[0])]


@dataclass(slots=True)
class _Contents:
    """The samples of a log, how they were scored, and the number of its first sample."""

    ids: set[str]
    signatures: set[str]
    first: int


def _contents(log: SampleLog, whole: _Contents | None = None) -> _Contents:
    """The contents of a log; empty if it is not a further part of `whole`."""
    contents = _Contents(set(), set(), 0)
    doc_ids = []
    for line in (numbered.line or {} for numbered in read_lines(log.path)):
        record, sample = (line.get(key) for key in (RECORD_KEY, "sample"))
        fields = record if isinstance(record, Mapping) else sample
        if not isinstance(fields, Mapping):
            continue
        id_, signature = str(fields.get("id")), _settings(fields.get("signature"))
        if whole and (id_ in whole.ids or signature not in whole.signatures):
            return _Contents(set(), set(), 0)
        contents.ids.add(id_)
        contents.signatures.add(signature)
        if isinstance(doc_id := line.get("doc_id"), int):
            doc_ids.append(doc_id)
    contents.first = min(doc_ids, default=0)
    return contents


def _settings(signature: object) -> str:
    """What a logged signature says of judges and benchmark; a replayed reply is the judge's."""
    if not isinstance(signature, Mapping):
        return ""
    judges = signature.get("judges")
    kept = [
        {key: value for key, value in judge.items() if key != "replayed"}
        for judge in (judges if isinstance(judges, list) else ())
        if isinstance(judge, Mapping)
    ]
    return json.dumps([kept, signature.get("benchmark")], sort_keys=True)


def parse_log_name(path: Path) -> SampleLog | None:
    """The log of a file name; None if the file is not named like a sample log.

    >>> parse_log_name(Path("out/m/20261121_101500_samples_mmie_sa.jsonl")).task
    'mmie_sa'
    """
    match = _LOG_NAME.fullmatch(path.name)
    return match and SampleLog(path=path, date=match["date"], task=match["task"])


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """A line of a log and its number, from 1; `line` is None for a last line that is cut off."""

    number: int
    line: Line | None


def read_lines(log: Path) -> Iterator[NumberedLine]:
    """Reads the lines of a log that are not blank.

    Raises:
        AnswersUnusable: The log cannot be opened, or a line is not a JSON object. A broken last
            line without a line break counts as cut off instead.
    """
    try:
        with log.open("rb") as file:
            for line_number, text in enumerate(file, 1):
                if text.strip():
                    yield NumberedLine(line_number, _parse_line(log, line_number, text))
    except OSError as error:
        message = f"`{log}` cannot be read: {error.strerror}."
        raise AnswersUnusable(message, hint="check the path and its permissions") from error


def _parse_line(log: Path, line_number: int, text: bytes) -> Line | None:
    cause: Exception | None = None
    try:
        value: object = json.loads(text.decode())
        if isinstance(value, dict):
            return value
        reason = f"it holds {type(value).__name__}, not an object"
    except (ValueError, RecursionError) as error:
        if not text.endswith(b"\n"):
            return None
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        cause = error
    message = f"`{log}`, line {line_number}, is not a logged sample: {reason}."
    raise AnswersUnusable(message, hint="remove the line, or run the evaluation again") from cause
