"""The raters that ``mmie-tasks agreement`` compares: judges of logged runs, people of CSV files."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import pandas as pd

from mmie_tasks.answers.matcher import padded_ids
from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.registry import benchmark_of_task, entries, entry_names
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.verdict import Scored, ScoreKind
from mmie_tasks.core.wording import numbered_names
from mmie_tasks.record.log_files import split_name
from mmie_tasks.record.metrics import Scale
from mmie_tasks.record.segment import digest_of
from mmie_tasks.results.panels import judge_runs
from mmie_tasks.results.run import Run, TaskRun, load_run

DIGITS = 9
"""Decimals of points, so that equal fractions compare as equal."""

_CSV_HINT = (
    "the columns are `id` and `score`; `rater` where several people rated, and `answer_digest`"
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)

VerdictRow: TypeAlias = tuple[str, str, float]
"""A sample's id, the digest of its answer (empty if not known), and its points, NaN without."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rater:
    """A judge, or a person.

    Attributes:
        name: Unique among the compared raters.
        verdicts: A row for each answer: its ``id``, the digest of the ``answer`` (empty if not
            known), and the ``points`` on the benchmark's own scale, NaN without.
        run: A judge's run; None for people.
        notes: Remarks on a judge's logs.
    """

    name: str
    verdicts: pd.DataFrame
    run: TaskRun | None = None
    notes: Sequence[str] = ()

    @classmethod
    def of(cls, name: str, rows: Iterable[VerdictRow], run: TaskRun | None = None) -> Rater:
        """A rater of these rows."""
        verdicts = pd.DataFrame(list(rows), columns=["id", "answer", "points"])
        verdicts = verdicts.astype({"id": object, "answer": object, "points": float})
        return cls(name=name, verdicts=verdicts.round({"points": DIGITS}), run=run)


def read_raters(
    sources: Sequence[str], task: str | None, kind: ScoreKind
) -> tuple[str, Benchmark, list[Rater]]:
    """The task, its benchmark, and every rater of the command line: ``PATH`` or ``NAME=PATH``.

    If the run of a panel is the only source, the raters are its judges. `task` may be None if the
    runs have one in common.

    Raises:
        AnswersUnusable: A run or CSV cannot be read.
        SettingWrong: There are fewer than two raters, the task is not clear, or a CSV does not say
            which of the runs' answers were scored.
    """
    named = list(map(split_name, sources))
    is_csv = [source.path.suffix.lower() in (".csv", ".tsv") for source in named]
    words = [word for word, is_file in zip(sources, is_csv, strict=True) if not is_file]
    runs = [load_run(word, [task] if task else []) for word in words]
    task_runs = _task_runs(runs, task)
    benchmark = task_runs[0].benchmark if task_runs else _benchmark_of(task)
    judges: list[Rater] = []
    for opened, task_run in zip(runs, task_runs, strict=True):
        of_panel = judge_runs(task_run) if len(sources) == 1 else {}
        judges += [
            _judge(name, judged, kind, opened.notes)
            for name, judged in (of_panel or {opened.name: task_run}).items()
        ]
    answers = _answers(judges)
    unread = iter(judges)
    raters: list[Rater] = []
    for source, is_file in zip(named, is_csv, strict=True):
        if is_file:
            raters += read_people(source.path, benchmark.scale, source.name, answers)
        else:
            raters.append(next(unread))
    raters += unread  # the judges of a panel
    if len(raters) < 2:
        message = f"Agreement needs two raters or more, and `{raters[0].name}` is the only one."
        raise SettingWrong(message, hint="name a second run, or a CSV with `id, score`")
    raters = [replace(rater, name=name) for rater, name in zip(raters, _names(raters), strict=True)]
    return task_runs[0].task if task_runs else task or "", benchmark, raters


def read_people(
    path: Path, scale: Scale, name: str = "", answers: Mapping[str, set[str]] | None = None
) -> list[Rater]:
    """The people of a CSV, whose columns are separated by commas, semicolons or tabs.

    With semicolons or tabs, a score may have a decimal comma. An empty score means not rated.

    Args:
        path: The file, in UTF-8.
        scale: The scale of the scores.
        name: The rater if the file names none; the file's name without suffix if empty.
        answers: Sample id to the digests of the runs' answers.

    Raises:
        AnswersUnusable: The file cannot be read, a column is missing, a row has more filled cells
            than the header, a score is not a number on the scale, or a person scored an answer
            twice; names the line.
        SettingWrong: The file has no ``answer_digest``, and the runs have several answers.
    """
    lines = list(_csv_lines(path))
    if missing := [
        column for column in ("id", "score") for _, row in lines[:1] if column not in row
    ]:
        raise AnswersUnusable(f"`{path}` has no column `{missing[0]}`.", hint=_CSV_HINT)
    if not lines:
        raise AnswersUnusable(f"`{path}` has no scores.", hint=_CSV_HINT)
    filled = {column: any(row[column] for _, row in lines) for column in ("rater", "answer_digest")}
    answers = answers or {}
    padded = padded_ids([row["id"] for _, row in lines], answers)
    lost = {given: id_ for id_, given in padded.items()}
    for _, row in lines:
        row["id"] = lost.get(row["id"], row["id"])
    if not filled["answer_digest"] and any(len(answers.get(row["id"], ())) > 1 for _, row in lines):
        raise SettingWrong(
            f"`{path}` does not say which of the runs' answers were scored.",
            hint="add the column `answer_digest` of `load_run(RUN).samples()`, or name one run",
        )
    verdicts: defaultdict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    for line, row in lines:
        if not row["id"]:
            raise _csv_error(path, line, "its `id` is empty")
        for column, is_filled in filled.items():
            if is_filled and row["score"] and not row[column]:
                raise _csv_error(path, line, f"its `{column}` is empty")
        rater = row["rater"] or ("" if filled["rater"] else name or path.stem)
        answer = row["answer_digest"] or next(iter(answers.get(row["id"], ())), "")
        if (row["id"], answer) in verdicts[rater]:
            raise _csv_error(path, line, f"the sample {row['id']} has a second score by {rater}")
        verdicts[rater][row["id"], answer] = _points(path, line, row["score"], scale)
    return [
        Rater.of(rater, [(*key, points) for key, points in of_rater.items()])
        for rater, of_rater in verdicts.items()
        if rater
    ]


def _csv_lines(path: Path) -> Iterator[tuple[int, defaultdict[str, str]]]:
    """Line number (the last, if a row spans several) and cells by column of each row with text."""
    text = _read(path)
    first_line = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max((",", ";", "\t"), key=first_line.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    names: list[str] = []
    try:
        for cells in (list(map(str.strip, cells)) for cells in reader):
            if not names:
                names = [cell.lower() for cell in cells] if any(cells) else []
                continue
            if not any(cells):
                continue
            if len(cells) < len(names) or any(cells[len(names) :]):
                problem = f"it has {len(cells)} cells, and the header {len(names)} columns"
                raise _csv_error(path, reader.line_num, f"{problem}; a cell may need quotes")
            row = defaultdict(str, zip(names, cells, strict=False))
            if delimiter != ",":
                row["score"] = row["score"].replace(",", ".")
            yield reader.line_num, row
    except csv.Error as error:
        raise _csv_error(path, reader.line_num, str(error)) from error


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        message = f"Cannot read `{path}`: {error.strerror}."
        raise AnswersUnusable(message, hint="check the path and its permissions") from error
    except UnicodeDecodeError as error:
        message = f"`{path}` is not UTF-8 at byte {error.start}."
        raise AnswersUnusable(message, hint=f"save it in UTF-8; {_CSV_HINT}") from error


def _points(path: Path, line: int, score: str, scale: Scale) -> float:
    """The points of a cell; NaN if it is empty."""
    if not score:
        return math.nan
    if not _NUMBER.fullmatch(score):
        problem = f"the score {score[:40]!r} is not a number; leave it empty for not rated"
        raise _csv_error(path, line, problem)
    if not 0 <= float(score) <= scale.full_marks:
        problem = f"the score {score} is not on the scale, 0 to {scale.full_marks:g}"
        raise _csv_error(path, line, problem)
    return float(score)


def _csv_error(path: Path, line: int, problem: str) -> AnswersUnusable:
    return AnswersUnusable(f"`{path}`, line {line}: {problem}.", hint=_CSV_HINT)


def _task_runs(runs: Sequence[Run], task: str | None) -> list[TaskRun]:
    """The task to compare in each run: parts of one benchmark if each run has one task."""
    common = set.intersection(*(set(run.tasks) for run in runs)) if runs else set()
    if task in common or len(common) == 1:
        name = task if task in common else common.pop()
        return [run.tasks[name or ""] for run in runs]
    single = [next(iter(run.tasks.values())) for run in runs if len(run.tasks) == 1]
    if len(single) == len(runs) and len({task_run.benchmark.name for task_run in single}) <= 1:
        return single
    tasks = "; ".join(f"`{run.name}` has {', '.join(run.tasks)}" for run in runs)
    problem = f"{len(common) or 'no'} tasks in common"
    hint = f"choose one with `--task {min(common)}`" if common else "name runs of one task"
    raise SettingWrong(f"The runs have {problem}: {tasks}.", hint=hint)


def _benchmark_of(task: str | None) -> Benchmark:
    benchmark = benchmark_of_task(task) if task else None
    if benchmark is None:
        problem = (
            f"`{task}` is not a task of a registered benchmark" if task else "no task is named"
        )
        raise SettingWrong(
            f"The scale of the scores is not known: {problem}.",
            hint=f"add `--task`; task names begin with {entry_names(entries())}",
        )
    return benchmark


def _judge(name: str, task_run: TaskRun, kind: ScoreKind, notes: Sequence[str]) -> Rater:
    rows: list[VerdictRow] = []
    for sample in task_run.records:
        verdict = sample.verdict(kind)
        points = verdict.points if isinstance(verdict, Scored) else math.nan
        rows.append((sample.id, digest_of(sample.answer), points))
    return replace(Rater.of(name, rows, task_run), notes=(*notes, *task_run.notes))


def _answers(judges: Iterable[Rater]) -> dict[str, set[str]]:
    """Sample id to the digests of its answers, as far as the logs hold them."""
    answers: defaultdict[str, set[str]] = defaultdict(set)
    for judge in judges:
        for id_, answer in zip(judge.verdicts["id"], judge.verdicts["answer"], strict=True):
            answers[id_].update([answer] if answer else [])
    return dict(answers)


def _names(raters: Sequence[Rater]) -> list[str]:
    """Raters with the same name are distinguished by the judge's model, else by a number."""
    models = [rater.run.judge_name if rater.run else "" for rater in raters]
    names = []
    for rater, model in zip(raters, models, strict=True):
        alike = [m for m, other in zip(models, raters, strict=True) if other.name == rater.name]
        is_told = len(alike) > 1 and all(alike) and len(set(alike)) == len(alike)
        names.append(f"{rater.name} by {model}" if is_told else rater.name)
    return numbered_names(names)


def reference_of(raters: Sequence[Rater], name: str | None) -> tuple[Rater, list[Rater]]:
    """The named rater, or the mean of the people, or the first run; and the raters to compare.

    Raises `SettingWrong` if no rater has this name.
    """
    people = [rater for rater in raters if rater.run is None]
    if name is not None:
        chosen = [rater for rater in raters if rater.name == name]
        if not chosen:
            listed = ", ".join(f"`{rater.name}`" for rater in raters)
            raise SettingWrong(f"`{name}` is none of the raters.", hint=f"name one of {listed}")
    elif 1 < len(people) < len(raters):
        rows = pd.concat([rater.verdicts for rater in people])
        rows = rows.groupby(["id", "answer"], sort=False, as_index=False)["points"].mean()
        name = f"mean of {', '.join(rater.name for rater in people)}"
        mean = Rater.of(name, rows.itertuples(index=False, name=None))
        return mean, [rater for rater in raters if rater.run]
    else:
        chosen = people or list(raters)
    return chosen[0], [rater for rater in raters if rater is not chosen[0]]
