"""Who rated: judges, each by the log of a run, and people, by a CSV."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from mmie_tasks.benchmarks.registry import benchmark_of_task, entries, entry_names
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.verdict import Scored
from mmie_tasks.results.agreement.resampling import Floats, Ints
from mmie_tasks.results.inputs import open_run
from mmie_tasks.runs.benchmark import Benchmark, LoggedSample, Scale, ScoreKind
from mmie_tasks.runs.log_files import Run, TaskRun

# Points that people gave, from a CSV: ``id, score``, and ``rater`` where they are several.

_HINT = "the columns are `id` and `score`, and `rater` where several people rated"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_DELIMITERS = (",", ";", "\t")
_SHOWN = 40  # characters of a cell, in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    line: int
    id: str
    score: str
    rater: str


def read_people(path: Path, scale: Scale) -> dict[str, dict[str, float | None]]:
    """What each person gave: name to id to points, None where the score is left empty.

    The name is empty where the file has no column ``rater``. Commas, semicolons or tabs stand
    between the columns; with semicolons or tabs, a score may have a decimal comma.

    Args:
        path: The file, in UTF-8.
        scale: That the scores are on.

    Raises:
        AnswersUnusable: The file cannot be read, a column is missing, or a score is no number on
            the scale; names the line.
    """
    found: defaultdict[str, dict[str, float | None]] = defaultdict(dict)
    for row in _rows(path):
        given = found[row.rater]
        if row.id in given:
            by = f" by {row.rater}" if row.rater else ""
            raise _wrong(path, row.line, f"the sample {row.id} has a second score{by}")
        given[row.id] = _points(path, row, scale)
    if not found:
        raise AnswersUnusable(f"`{path}` has a header and no scores.", hint=_HINT)
    return dict(found)


def _points(path: Path, row: _Row, scale: Scale) -> float | None:
    if not row.score:
        return None
    if not _NUMBER.fullmatch(row.score):
        found = f"the score {_shown(row.score)} is not a number; leave it empty for not rated"
        raise _wrong(path, row.line, found)
    points = float(row.score)
    if not 0 <= points <= scale.full_marks:
        found = f"the score {row.score} is not on the scale, 0 to {scale.full_marks:g}"
        raise _wrong(path, row.line, found)
    return points


def _rows(path: Path) -> Iterator[_Row]:
    text = _text(path)
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = max(_DELIMITERS, key=first.count)
    lines = _lines(path, text, delimiter)
    number, header = next(lines, (1, []))
    columns = _columns(path, number, header)
    for line, cells in lines:
        if len(cells) < len(columns):
            raise _wrong(path, line, f"it has {len(cells)} of the {len(columns)} columns")
        named = dict(zip(columns, cells, strict=False))
        for name in ("id", "rater"):
            if not named.get(name, "-"):
                raise _wrong(path, line, f"its `{name}` is empty")
        score = named["score"] if delimiter == "," else named["score"].replace(",", ".")
        yield _Row(line=line, id=named["id"], score=score, rater=named.get("rater", ""))


def _columns(path: Path, line: int, header: list[str]) -> list[str]:
    columns = [name.lower() for name in header]
    for name in ("id", "score", "rater"):
        times = columns.count(name)
        if times > 1 or (not times and name != "rater"):
            listed = ", ".join(_shown(column) for column in columns[:8]) or "nothing"
            raise _wrong(path, line, f"the header needs one column `{name}`, and has {listed}")
    return columns


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        message = f"Cannot read `{path}`: {error.strerror}."
        raise AnswersUnusable(message, hint="check the path and its permissions") from error
    except UnicodeDecodeError as error:
        message = f"`{path}` is not UTF-8 at byte {error.start}."
        raise AnswersUnusable(message, hint="save it as CSV in UTF-8") from error


def _lines(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Number and cells of each line that is not blank; the number of its last line, if several."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            stripped = [cell.strip() for cell in cells]
            if any(stripped):
                yield reader.line_num, stripped
    except csv.Error as error:
        raise _wrong(path, reader.line_num, str(error)) from error


def _wrong(path: Path, line: int, found: str) -> AnswersUnusable:
    return AnswersUnusable(f"`{path}`, line {line}: {found}.", hint=_HINT)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


_ENDINGS = (".csv", ".tsv")
_DIGITS = 9  # points are rounded to so many: two ways to one fraction are the same
_EMPTY = "left empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rater:
    """A judge, or a person.

    Attributes:
        name: Unique among those compared.
        kind: Which of the two.
        party: The CSV that a person is in; of a judge, its name.
        source: The log or CSV.
        points: Sample id to points on the benchmark's scale.
        unscored: Sample id to why it has none.
        samples: What was judged, by id; empty for people.
        signatures: Of a judge, every one in its log.
        notes: What was found in the log and left alone.
    """

    name: str
    kind: Literal["judge", "person"]
    party: str
    source: Path
    points: Mapping[str, float]
    unscored: Mapping[str, str]
    samples: Mapping[str, LoggedSample] = field(default_factory=dict)
    signatures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Everyone who rated.

    Attributes:
        task: What they rated.
        benchmark: What its benchmark knows of logs.
        raters: In the order they were named in; two at least.
    """

    task: str
    benchmark: Benchmark
    raters: tuple[Rater, ...]

    @property
    def scale(self) -> Scale:
        """That all points are on."""
        return self.benchmark.scale

    @property
    def groups(self) -> dict[str, tuple[Rater, ...]]:
        """The people of each CSV that has several, by the name of the CSV."""
        found: dict[str, tuple[Rater, ...]] = {}
        for rater in self.raters:
            if rater.kind == "person":
                found[rater.party] = (*found.get(rater.party, ()), rater)
        return {name: people for name, people in found.items() if len(people) > 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Csv:
    name: str
    path: Path


def gather(words: Sequence[str], task: str | None, reading: ScoreKind) -> Gathered:
    """Read everyone whom the words of the command line name.

    Args:
        words: ``PATH`` or ``NAME=PATH`` each, of a run or a CSV.
        task: The one to compare; may be None where the runs have one in common.
        reading: Whose verdicts are a judge's points.

    Raises:
        AnswersUnusable: A run or CSV cannot be read.
        SettingWrong: Fewer than two rated, or it is not clear what.
    """
    opened = [_csv(word) or open_run(word, [task] if task else []) for word in words]
    chosen = _chosen([each for each in opened if isinstance(each, Run)], task)
    name = next(iter(chosen.values())).task if chosen else task or ""
    benchmark = next(iter(chosen.values())).benchmark if chosen else _benchmark_of(task)
    raters: list[Rater] = []
    for each in opened:
        if isinstance(each, Run):
            raters.append(_judge(each, chosen[id(each)], reading))
        else:
            raters += _people(each, benchmark.scale)
    if len(raters) < 2:
        message = f"Agreement takes two raters or more, and `{raters[0].name}` is alone."
        raise SettingWrong(message, hint="name a second run, or a CSV with `id, score`")
    return Gathered(task=name, benchmark=benchmark, raters=_with_names_that_differ(raters))


def _csv(word: str) -> _Csv | None:
    name, equals, path = word.partition("=")
    if not equals or Path(word).expanduser().exists():
        name, path = "", word
    found = Path(path).expanduser()
    if found.suffix.lower() not in _ENDINGS:
        return None
    return _Csv(name=name.strip() or found.stem, path=found)


def _chosen(runs: Sequence[Run], task: str | None) -> dict[int, TaskRun]:
    """The task to compare in each run, by the run's identity.

    Runs with one task each may have different ones of one benchmark: ``mmie`` holds ``mmie_sa``.
    """
    common = set.intersection(*(set(run.tasks) for run in runs)) if runs else set()
    if task in common or len(common) == 1:
        name = task if task in common else common.pop()
        return {id(run): run.tasks[name or ""] for run in runs}
    only = [next(iter(run.tasks.values())) for run in runs if len(run.tasks) == 1]
    if len(only) == len(runs) and len({each.benchmark.name for each in only}) <= 1:
        return {id(run): each for run, each in zip(runs, only, strict=True)}
    if common:
        listed = ", ".join(sorted(common))
        message = f"The runs have {len(common)} tasks in common: {listed}."
        raise SettingWrong(message, hint=f"choose one with `--task {min(common)}`")
    listed = "; ".join(f"`{run.name}` has {', '.join(run.tasks)}" for run in runs)
    raise SettingWrong(f"The runs have no task in common: {listed}.", hint="name runs of one task")


def _benchmark_of(task: str | None) -> Benchmark:
    benchmark = benchmark_of_task(task) if task else None
    if benchmark is None:
        asked = f"`{task}` is no task of mmie-tasks" if task else "there is no run to tell the task"
        raise SettingWrong(
            f"The scale of the scores is not known: {asked}.",
            hint=f"add `--task` with one of ours; they begin with {entry_names(entries())}",
        )
    return benchmark


def _judge(run: Run, task: TaskRun, reading: ScoreKind) -> Rater:
    points: dict[str, float] = {}
    unscored: dict[str, str] = {}
    for sample in task.samples:
        verdict = sample.verdict(reading)
        if isinstance(verdict, Scored):
            points[sample.id] = round(float(verdict.points), _DIGITS)
        else:
            unscored[sample.id] = verdict.reason
    return Rater(
        name=run.name,
        kind="judge",
        party=run.name,
        source=task.log,
        points=points,
        unscored=unscored,
        samples=task.by_id,
        signatures=task.signatures,
        notes=(*run.notes, *task.notes),
    )


def _people(csv: _Csv, scale: Scale) -> list[Rater]:
    return [
        Rater(
            name=name or csv.name,
            kind="person",
            party=csv.name,
            source=csv.path,
            points={id_: round(p, _DIGITS) for id_, p in given.items() if p is not None},
            unscored={id_: _EMPTY for id_, points in given.items() if points is None},
        )
        for name, given in read_people(csv.path, scale).items()
    ]


def _with_names_that_differ(raters: Sequence[Rater]) -> tuple[Rater, ...]:
    """Raters of one name are told apart by the model that judged, else by a number."""
    told = [replace(r, name=_told_apart(r, raters)) for r in raters]
    times, seen = Counter(rater.name for rater in told), Counter[str]()
    named = []
    for rater in told:
        seen[rater.name] += 1
        again = times[rater.name] > 1
        named.append(replace(rater, name=f"{rater.name} ({seen[rater.name]})") if again else rater)
    return tuple(named)


def _told_apart(rater: Rater, raters: Sequence[Rater]) -> str:
    alike = [each for each in raters if each.name == rater.name]
    models = {_model(each) for each in alike}
    if len(alike) == 1 or len(models) < len(alike) or not _model(rater):
        return rater.name
    return f"{rater.name} by {_model(rater)}"


def _model(rater: Rater) -> str:
    """What judged, as the first signature of a log has it; empty where it does not say."""
    parts = dict(part.partition(":")[::2] for part in "".join(rater.signatures[:1]).split("|"))
    return parts.get("model", "")


# Two raters' points of the same samples: distinct pairs, and how often each occurs.


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """What two raters gave to the same samples.

    Attributes:
        judge: Points of one rater; shape ``(distinct pairs,)``, in ascending order.
        reference: Points of the other; the same shape.
        counts: How many samples have this pair.
    """

    judge: Floats
    reference: Floats
    counts: Ints

    @property
    def samples(self) -> int:
        """How many samples both rated."""
        return int(self.counts.sum())

    @property
    def one_by_one(self) -> tuple[Floats, Floats]:
        """Both raters' points, one entry a sample."""
        return np.repeat(self.judge, self.counts), np.repeat(self.reference, self.counts)

    @property
    def rounded(self) -> Pairs:
        """With points rounded to whole numbers, halves to the even one."""
        return Pairs(np.rint(self.judge), np.rint(self.reference), self.counts)

    @property
    def whole(self) -> bool:
        """Whether all points are whole numbers."""
        return bool(np.all(np.rint(self.judge) == self.judge)) and bool(
            np.all(np.rint(self.reference) == self.reference)
        )


def pairs_of(judge: Floats, reference: Floats) -> Pairs:
    """The pairs of the samples that both rated.

    Args:
        judge: Points of one rater, one entry a sample; NaN where there are none.
        reference: Of the other, in the same order.
    """
    both = np.isfinite(judge) & np.isfinite(reference)
    rows = np.column_stack((judge[both], reference[both]))
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    return Pairs(distinct[:, 0], distinct[:, 1], counts)
