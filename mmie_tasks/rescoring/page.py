"""What was read again, in words and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mmie_tasks import __version__
from mmie_tasks.figures import Figure, figure, numbers_of
from mmie_tasks.rescoring.rereading import Change, Rescored
from mmie_tasks.review import READINGS, Number, ReadingName, Reviewed
from mmie_tasks.runs.run import Run
from mmie_tasks.tables import table
from mmie_tasks.verdict import Scored, Verdict

_SHOWN = 60  # characters of what was read
_NAMED = 5  # samples that are named where all are of one kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A number, before and after."""

    number: Number
    reading: ReadingName
    before: Figure
    after: Figure


def page(runs: Sequence[tuple[Run, Sequence[Rescored]]], top: int) -> str:
    """The whole text.

    Args:
        runs: With their tasks, read again.
        top: How many changed verdicts of a task are named.
    """
    blocks = [f"Read again with the readers of mmie-tasks {__version__}; no judge was asked."]
    for run, tasks in runs:
        blocks += [_plain(f"{run.name}: {note}") for note in run.notes]
        for rescored in tasks:
            blocks += _blocks(run, rescored, top)
    return "\n\n".join(blocks)


def _blocks(run: Run, rescored: Rescored, top: int) -> Iterator[str]:
    task, changed = rescored.task, rescored.changed
    yield f"## {_plain(run.name)}: {_plain(task.task)}\n{_plain(str(task.log))}"
    yield from (_plain(f"note: {note}") for note in task.notes)
    total, unread = len(rescored.samples), len(rescored.unread)
    counts = ", ".join(f"{changed[name]} {name}" for name in READINGS)
    found = f"Verdicts that changed: {counts}." if rescored.changes else "Nothing changed."
    yield f"{total} samples, {total - unread} read again. {found}"
    if rescored.unread:
        yield _unread(rescored)
    yield _numbers(rescored)
    if rescored.changes and top:
        yield _changes(rescored.changes, top)


def _unread(rescored: Rescored) -> str:
    found: dict[str, list[str]] = {}
    for name, why in rescored.unread.items():
        found.setdefault(why, []).append(name)
    lines = [f"{len(rescored.unread)} samples cannot be read again; their verdicts stand:"]
    for why, names in found.items():
        more = ", ..." if len(names) > _NAMED else ""
        lines.append(f"- {len(names)}: {why} ({', '.join(names[:_NAMED])}{more})")
    return "\n".join(map(_plain, lines))


def moved(rescored: Rescored) -> list[Moved]:
    """The headline numbers, before and after; where a run has none of them, the first it has."""
    numbers = numbers_of([rescored.task])
    found = [each for number in numbers for each in _moved(rescored, number)]
    known = [each for each in found if {each.before.percent, each.after.percent} != {None}]
    headlines = [each for each in known if each.number.kind == numbers[0].kind]
    return headlines or [each for each in known if each.number is known[0].number] or found[:2]


def _moved(rescored: Rescored, number: Number) -> Iterator[Moved]:
    if number.part:
        return  # a component's share is not read again, only the sample's points
    for reading in READINGS:
        before = _figure(rescored, rescored.task.samples, number, reading)
        after = _figure(rescored, rescored.samples, number, reading)
        if before is not None and after is not None:
            yield Moved(number=number, reading=reading, before=before, after=after)


def _figure(
    rescored: Rescored, samples: Sequence[Reviewed], number: Number, reading: ReadingName
) -> Figure | None:
    return figure(samples, number, reading, rescored.task.review.scale, resamples=0)


def _numbers(rescored: Rescored) -> str:
    rows = []
    for each in moved(rescored):
        before, after = each.before, each.after
        scored = f"{before.scored} -> {after.scored} of {after.total}"
        cells = [_percent(before), _percent(after), _difference(before, after), scored]
        rows.append([each.number.title, each.reading, *cells])
    header = ["number, percent", "reading", "before", "after", "difference", "scored"]
    return table(header, rows, words=2)


def _percent(found: Figure) -> str:
    return "n/a" if found.percent is None else f"{found.percent:.2f}"


def _difference(before: Figure, after: Figure) -> str:
    if before.percent is None or after.percent is None:
        return "n/a"
    return f"{after.percent - before.percent:+.2f}"


def _changes(changes: Sequence[Change], top: int) -> str:
    header = ["sample", "reading", "before", "after"]
    rows = [
        [_plain(each.id), each.reading, _words(each.before), _words(each.after)]
        for each in changes[:top]
    ]
    left = len(changes) - len(rows)
    more = f"\n\n{left} more; `--top` shows them." if left else ""
    return table(header, rows, words=len(header)) + more


def _words(verdict: Verdict) -> str:
    """Points and what was read, or why there are none; a stranger's words among them."""
    match verdict:
        case Scored(points=points, reading=read):
            return f"{points:g} ({_plain(read)[:_SHOWN]})" if read.strip() else f"{points:g}"
    why = f": {_plain(verdict.detail)[:_SHOWN]}" if verdict.detail else ""
    return f"unscored, {verdict.reason}{why}"


def _plain(words: str) -> str:
    """In one line, and nothing that a terminal obeys."""
    return "".join(each if each.isprintable() or each == "\n" else " " for each in words)


def as_json(run: Run, rescored: Rescored) -> dict[str, object]:
    """A task for programs; every changed verdict is there."""
    task = rescored.task
    return {
        "run": run.name,
        "task": task.task,
        "log": str(task.log),
        "pkg": __version__,
        "notes": [*run.notes, *task.notes],
        "samples": len(rescored.samples),
        "changed": {name: rescored.changed[name] for name in READINGS},
        "numbers": [
            {
                "name": each.number.name,
                "title": each.number.title,
                "reading": each.reading,
                "before": each.before.percent,
                "after": each.after.percent,
            }
            for each in moved(rescored)
        ],
        "changes": [
            {
                "id": each.id,
                "reading": each.reading,
                "before": _as_row(each.before),
                "after": _as_row(each.after),
            }
            for each in rescored.changes
        ],
        "unread": dict(rescored.unread),
    }


def _as_row(verdict: Verdict) -> dict[str, object]:
    match verdict:
        case Scored(points=points, reading=read):
            return {"points": points, "reading": read}
    return {"unscored": verdict.reason, "detail": verdict.detail}
