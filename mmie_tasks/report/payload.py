"""Everything that the page shows, as one object that JSON can hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from mmie_tasks import __version__
from mmie_tasks.comparison.signatures import mixed, of_scored
from mmie_tasks.report import tables
from mmie_tasks.report.charts import charts
from mmie_tasks.report.chunks import pack
from mmie_tasks.report.details import SIGNATURE, detail, images_of
from mmie_tasks.report.joined import Joined, join, worth_a_look
from mmie_tasks.report.plain import Json, counted, cut, plain
from mmie_tasks.report.samples import columns
from mmie_tasks.report.spend import spend
from mmie_tasks.report.thumbnails import BUDGET_BYTES, SAMPLES_WITH_THUMBNAILS, Album, album
from mmie_tasks.runs.run import Run
from mmie_tasks.sources.archives import in_words


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
    full = task.review.scale.full_marks
    places = range(len(task.rows))
    order = sorted(places, key=lambda place: -worth_a_look(task.rows[place], full))
    wanted = ((place, images_of(task.rows[place])) for place in order)
    return album(wanted, most, budget_bytes)


def _task(task: Joined, pictures: Album, settings: Settings) -> Json:
    scale = task.review.scale
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
        if keys := ", ".join(mixed(of_scored(run))):
            yield [index, f"its samples were not all scored alike: they differ in {plain(keys)}"]
        if absent := len(task.rows) - len(run.samples):
            yield [index, f"it lacks {counted(absent, 'sample')} that other runs have"]


def _notes_on(pictures: Album, settings: Settings) -> Iterator[list[object]]:
    """That images are missing; who asked for none is not told."""
    if pictures.left_out and settings.samples_with_thumbnails:
        most = counted(settings.samples_with_thumbnails, "sample")
        room = f"{most} of a task, and for {in_words(settings.budget_bytes)} of thumbnails"
        found = f"images of {counted(pictures.left_out, 'sample')} are not shown"
        yield [None, f"{found}: the report has room for those of {room} in all"]
