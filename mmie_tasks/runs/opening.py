"""From words of the command line to runs that can be looked at."""

from __future__ import annotations

import gc
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from mmie_tasks.errors import AnswersUnusable, SettingWrong
from mmie_tasks.logged import number
from mmie_tasks.review import BadRecord, Line, Reviewed, Reviewer, Scale
from mmie_tasks.rooms import Room, names_of, room_of, rooms
from mmie_tasks.runs.finding import HINT, Found, Log, find
from mmie_tasks.runs.lines import lines
from mmie_tasks.runs.run import Run, TaskRun
from mmie_tasks.verdict import Scored, Unscored, Verdict


def open_runs(words: Iterable[str], tasks: Sequence[str] = ()) -> list[Run]:
    """Every run that the words name, with names that differ.

    Args:
        words: ``PATH`` or ``NAME=PATH`` each; a path may hold several runs.
        tasks: Those to read; all of ours where none is named.

    Raises:
        AnswersUnusable: A run cannot be read, or has none of the tasks.
        SettingWrong: A task is none of ours.
    """
    for task in tasks:
        if room_of(task) is None:
            hint = f"ours begin with {names_of(rooms())}"
            raise SettingWrong(f"`{task}` is no task of mmie-tasks.", hint=hint)
    with _nothing_collected():
        runs = [_opened(found, tasks) for word in words for found in find(word)]
    times, seen = Counter(run.name for run in runs), Counter[str]()
    unique = []
    for run in runs:
        seen[run.name] += 1
        again = times[run.name] > 1
        unique.append(replace(run, name=f"{run.name} ({seen[run.name]})") if again else run)
    return unique


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Without the collector of cycles, which would look again and again at all that was read."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def open_run(word: str, tasks: Sequence[str] = ()) -> Run:
    """The one run that a word names.

    Raises:
        AnswersUnusable: It cannot be read, or has none of the tasks.
        SettingWrong: The word names several runs, or a task is none of ours.
    """
    runs = open_runs([word], tasks)
    if len(runs) > 1:
        listed = ", ".join(f"`{run.folder}`" for run in runs)
        raise SettingWrong(f"`{word}` holds {len(runs)} runs: {listed}.", hint="name one of them")
    return runs[0]


def _opened(found: Found, tasks: Sequence[str]) -> Run:
    notes = [f"older logs of the same tasks, left alone: {found.older}"] if found.older else []
    opened: dict[str, TaskRun] = {}
    for log in found.logs:
        room = room_of(log.task)
        if tasks and log.task not in tasks:
            continue
        review = None if room is None else _review(room)
        if room is None or review is None:
            notes.append(f"`{log.task}` is no task of ours and was left out")
        elif task := read_task(log, room, review):
            opened[log.task] = task
        else:
            notes.append(f"`{log.path.name}` has no scored samples (`--predict_only`?)")
    if not opened:
        asked = [f"none of {', '.join(tasks)}"] if tasks else []
        why = "; ".join(asked + notes) or "no log of a task"
        raise AnswersUnusable(f"`{found.folder}` has nothing to look at: {why}.", hint=HINT)
    date = max(log.date for log in found.logs)
    return Run(name=found.name, folder=found.folder, date=date, tasks=opened, notes=tuple(notes))


def _review(room: Room) -> Reviewer | None:
    review: Reviewer | None = getattr(room.part("review"), "REVIEW", None)
    return review


def read_task(log: Log, room: Room, review: Reviewer) -> TaskRun | None:
    """The samples of one log; None where no line of it was scored.

    Raises:
        AnswersUnusable: A line cannot be read, or two lines of one id say different things.
    """
    samples: dict[str, Reviewed] = {}
    notes: list[str] = []
    twice = impossible = unscored = 0
    for numbered in lines(log.path):
        if numbered.line is None:
            notes.append(f"line {numbered.number}, the last, is cut off and was left out")
        elif "bypass" in numbered.line and "coverage" not in numbered.line:
            unscored += 1
        else:
            sample = _read(review, numbered.line, f"`{log.path}`, line {numbered.number}")
            kept = _possible(sample, review.scale)
            impossible += kept is not sample
            twice += _is_known(samples, kept, log.path)
    if not samples:
        return None
    for count, found in (
        (twice, "standing there twice, word for word: counted once"),
        (impossible, "with points that are not on the scale: counted as unscored"),
        (unscored, "never scored (`--predict_only`): left out"),
    ):
        notes += [f"{count} {'sample' if count == 1 else 'samples'} {found}"] if count else []
    return TaskRun(
        task=log.task,
        room=room,
        review=review,
        log=log.path,
        samples=tuple(samples.values()),
        notes=tuple(notes),
        stored=_stored(log),
    )


def _read(review: Reviewer, line: Line, place: str) -> Reviewed:
    try:
        return review.read(line)
    except BadRecord as error:
        raise AnswersUnusable(f"{place}: {error}.", hint=HINT) from error


def _is_known(samples: dict[str, Reviewed], sample: Reviewed, log: Path) -> bool:
    """Whether a sample with this id, saying the same, was read before; enters it if not.

    Raises:
        AnswersUnusable: One was, and says something else.
    """
    known = samples.setdefault(sample.id, sample)
    if known is sample:
        return False
    if known != sample:
        raise AnswersUnusable(
            f"`{log}` holds two different results of the sample {sample.id}.",
            hint="the runner appends to a log that is there: keep one run to a file",
        )
    return True


def _possible(sample: Reviewed, scale: Scale) -> Reviewed:
    """The sample; with no points where they are not finite, or none that the scale has.

    Where points are not counted one by one, what lies on the scale is for the room to say: there
    are official scripts that clamp nothing.
    """

    def checked(verdict: Verdict) -> Verdict:
        if not isinstance(verdict, Scored):
            return verdict
        off = scale.whole and not 0 <= verdict.points <= scale.full_marks
        if off or not math.isfinite(verdict.points):
            return Unscored("off_scale", "the log has points that are not on the scale")
        return verdict

    official, robust = checked(sample.official), checked(sample.robust)
    if official is sample.official and robust is sample.robust:
        return sample
    return replace(sample, official=official, robust=robust)


def _stored(log: Log) -> Mapping[str, float]:
    """The numbers that the runner saved for the task; empty where they cannot be had."""
    try:
        saved: object = json.loads(log.results.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    results = saved.get("results") if isinstance(saved, dict) else None
    metrics = results.get(log.task) if isinstance(results, dict) else None
    return {
        name.removesuffix(",none"): known
        for name, value in (metrics.items() if isinstance(metrics, dict) else ())
        if "_stderr" not in name and (known := number(value)) is not None
    }
