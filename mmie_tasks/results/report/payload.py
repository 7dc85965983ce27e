"""Everything that the page shows, as one object that JSON can hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from mmie_tasks import __version__
from mmie_tasks.core.files import readable_size
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.results.alignment import mixed_keys, scored_signatures
from mmie_tasks.results.report import tables
from mmie_tasks.results.report.charts import charts
from mmie_tasks.results.report.command import (
    Joined,
    Row,
    any_of,
    disputed,
    join,
    spend,
    worth_a_look,
)
from mmie_tasks.results.report.details import (
    BUDGET_BYTES,
    SAMPLES_WITH_THUMBNAILS,
    SIGNATURE,
    Album,
    album,
    detail,
    images_of,
)
from mmie_tasks.results.report.page import Json, counted, cut, finite, pack, plain
from mmie_tasks.runs.benchmark import SCORE_KINDS, LoggedSample, ScoreKind
from mmie_tasks.runs.log_files import Run

# What the page must know of every sample at once, to filter and sort: columns, not details.

FIRST = 100
"""Characters of a question that are shown in a list."""


def columns(task: Joined) -> Json:
    """The columns of a task's samples, as the page reads them."""
    full = task.benchmark.scale.full_marks
    return {
        "ids": [plain(any_of(row).id) for row in task.rows],
        "first": [_first(row) for row in task.rows],
        "points": {reading: _points(task, reading) for reading in SCORE_KINDS},
        "reasons": {reading: _reasons(task, reading) for reading in SCORE_KINDS},
        "missing": [[row[run] is None for row in task.rows] for run in _runs(task)],
        "groups": _groups(task),
        "disputed": [finite(disputed(row, full)) for row in task.rows],
    }


def _runs(task: Joined) -> range:
    return range(len(task.runs))


def _first(row: Row) -> str:
    """The beginning of the question in one line."""
    question = next((s.question for s in row if s is not None and s.question), ())
    words: list[str] = []
    for segment in question:
        words += segment.text[: 4 * FIRST].split()
        if sum(map(len, words)) >= FIRST:
            break
    line = " ".join(words)
    return plain(line if len(line) <= FIRST else f"{line[: FIRST - 1]}…")


def _points(task: Joined, reading: ScoreKind) -> list[list[float | None]]:
    return [[_given(row[run], reading) for row in task.rows] for run in _runs(task)]


def _given(sample: LoggedSample | None, reading: ScoreKind) -> float | None:
    verdict = None if sample is None else sample.verdict(reading)
    return finite(verdict.points) if isinstance(verdict, Scored) else None


def _reasons(task: Joined, reading: ScoreKind) -> list[list[str]]:
    return [[_why_not(row[run], reading) for row in task.rows] for run in _runs(task)]


def _why_not(sample: LoggedSample | None, reading: ScoreKind) -> str:
    verdict = None if sample is None else sample.verdict(reading)
    return plain(verdict.reason) if isinstance(verdict, Unscored) else ""


def _groups(task: Joined) -> Json:
    first = [any_of(row) for row in task.rows]
    kinds = dict.fromkeys(kind for sample in first for kind in sample.groups)
    return {plain(kind): _group(task, kind, first) for kind in kinds}


def _group(task: Joined, kind: str, samples: Sequence[LoggedSample]) -> Json:
    found = {name for sample in samples for name in sample.names(kind)}
    known = [name for name in _in_order(task, kind) if name in found]
    names = [*known, *sorted(found.difference(known))]
    place = {name: index for index, name in enumerate(names)}
    return {
        "names": [plain(name) for name in names],
        "of": [[place[name] for name in sample.names(kind)] for sample in samples],
    }


def _in_order(task: Joined, kind: str) -> Iterator[str]:
    """The names of a kind's groups in the order in which the benchmark has its numbers."""
    by_kind = [number for number in task.benchmark.metrics if number.by == kind]
    singles = [number for number in by_kind if len(number.weights) == 1]
    yield from dict.fromkeys(name for number in singles for name in number.weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a user may choose.

    Attributes:
        title: Of the page.
        made: When, in words.
        samples_with_thumbnails: At most so many of each task.
        budget_bytes: Of all thumbnails.
    """

    title: str
    made: str
    samples_with_thumbnails: int = SAMPLES_WITH_THUMBNAILS
    budget_bytes: int = BUDGET_BYTES


def payload(runs: Sequence[Run], settings: Settings) -> Json:
    """The object that `page.render` takes."""
    return {
        "title": plain(settings.title),
        "made": settings.made,
        "package": __version__,
        "method": tables.METHOD,
        "runs": [_run(run) for run in runs],
        "tasks": list(_tasks(join(runs), settings)),
    }


def _run(run: Run) -> Json:
    return {
        "name": plain(run.name),
        "folder": plain(str(run.folder)),
        "date": plain(run.date),
        "notes": [plain(note) for note in run.notes],
    }


def _tasks(tasks: Sequence[Joined], settings: Settings) -> Iterator[Json]:
    """Each task; what one leaves of its share of the budget is there for the next."""
    left = settings.budget_bytes
    for place, task in enumerate(tasks):
        pictures = _album(task, settings.samples_with_thumbnails, left // (len(tasks) - place))
        left -= pictures.used_bytes
        yield _task(task, pictures, settings)


def _album(task: Joined, most: int, budget_bytes: int) -> Album:
    full = task.benchmark.scale.full_marks
    places = range(len(task.rows))
    order = sorted(places, key=lambda place: -worth_a_look(task.rows[place], full))
    wanted = ((place, images_of(task.rows[place])) for place in order)
    return album(wanted, most, budget_bytes)


def _task(task: Joined, pictures: Album, settings: Settings) -> Json:
    scale = task.benchmark.scale
    signatures = {signature: place for place, signature in enumerate(task.signatures)}
    found = tables.tables(task)
    chunks = pack(
        detail(row, signatures, partial(pictures.look_up, place))
        for place, row in enumerate(task.rows)
    )
    return {
        "task": plain(task.task),
        "title": plain(task.title),
        "unit": scale.unit,
        "full_marks": scale.full_marks,
        "whole": scale.whole,
        "judged": any(_is_judged(signature) for signature in signatures),
        "present": [index for index, _ in task.present],
        "signatures": [cut(signature, SIGNATURE) for signature in signatures],
        "notes": [*_notes(task), *_notes_on(pictures, settings)],
        "spend": spend(task),
        "tables": tables.as_json(found),
        "charts": charts(task, found),
        "samples": {**columns(task), "chunk_starts": list(chunks.starts)},
        "chunks": list(chunks.packed),
    }


def _is_judged(signature: str) -> bool:
    return any(part.startswith("judge:") for part in signature.split("|"))


def _notes(task: Joined) -> Iterator[list[object]]:
    """What a reader of the numbers should know, with the place of the run."""
    for index, run in task.present:
        yield from ([index, plain(note)] for note in run.notes)
        if keys := ", ".join(mixed_keys(scored_signatures(run))):
            yield [index, f"its samples were not all scored alike: they differ in {plain(keys)}"]
        if absent := len(task.rows) - len(run.samples):
            yield [index, f"it lacks {counted(absent, 'sample')} that other runs have"]


def _notes_on(pictures: Album, settings: Settings) -> Iterator[list[object]]:
    """That images are missing; who asked for none is not told."""
    if pictures.left_out and settings.samples_with_thumbnails:
        most = counted(settings.samples_with_thumbnails, "sample")
        room = f"{most} of a task, and for {readable_size(settings.budget_bytes)} of thumbnails"
        found = f"images of {counted(pictures.left_out, 'sample')} are not shown"
        yield [None, f"{found}: the report has room for those of {room} in all"]
