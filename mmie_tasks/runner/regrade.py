"""Reads the saved replies of a run by today's readers, and compares the scores before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mmie_tasks.core import __version__
from mmie_tasks.core.tables import NO_VALUE, percent_cell, short_name, signed_cell
from mmie_tasks.core.verdict import SCORE_KINDS, Scored, ScoreKind, Unscored, Verdict, differ
from mmie_tasks.core.wording import counted, listed
from mmie_tasks.record.record import BadRecord
from mmie_tasks.results.render import Table, rendered
from mmie_tasks.results.run import TaskRun, as_counted

_SHOWN = 20  # changed verdicts


@dataclass(frozen=True, slots=True, kw_only=True)
class RegradedTask:
    """A task of a run, and what today's readers say.

    Attributes:
        before: The task as it was logged.
        after: The task with today's verdicts; a sample that cannot be read again is as before.
        kept: Reason to number of samples that cannot be read again.
    """

    before: TaskRun
    after: TaskRun
    kept: Counter[str]

    @property
    def changes(self) -> Iterator[tuple[str, ScoreKind, Verdict, Verdict]]:
        """Id, kind of score, and verdict before and after, of each verdict that changed."""
        for old, new in zip(self.before.records, self.after.records, strict=True):
            for kind in SCORE_KINDS:
                verdicts = old.verdict(kind), new.verdict(kind)
                if _is_changed(*verdicts):
                    yield (old.id, kind, *verdicts)


def _is_changed(before: Verdict, after: Verdict) -> bool:
    """Whether the points differ, or the reason why there are none."""
    if isinstance(before, Unscored) and isinstance(after, Unscored):
        return before.reason != after.reason
    return differ(before, after)


def regraded(task_run: TaskRun) -> RegradedTask:
    """Read the replies of a task again, or the answers if it is scored by rule."""
    benchmark, kept = task_run.benchmark, Counter[str]()
    records = []
    for record in task_run.records:
        try:
            today = as_counted(benchmark.regraded(record), benchmark.scale)
        except BadRecord as error:
            kept[str(error)] += 1
        except Exception as error:  # noqa: BLE001 - a plugin's reader: the sample is as before
            kept[f"{type(error).__name__}: {error}"] += 1
        else:
            record = record.scored(today.verdicts)
        records.append(record)
    after = replace(task_run, records=tuple(records))
    return RegradedTask(before=task_run, after=after, kept=kept)


def regraded_text(tasks: Sequence[RegradedTask]) -> str:
    """The scores of the tasks before and after, and the verdicts that changed."""
    rows = [row for task in tasks for row in _score_rows(task)]
    header = ("task", "score", "before", "after", "difference", "scored")
    title = f"The saved replies, read by mmie-tasks {__version__}; no judge was asked."
    scores = rendered(Table(header=header, rows=rows, texts=2))
    return "\n\n".join([title, scores, *(block for task in tasks for block in _changes(task))])


def _score_rows(task: RegradedTask) -> Iterator[list[str]]:
    for kind in SCORE_KINDS:
        values = task.before.headline(kind), task.after.headline(kind)
        was, now = (None if value is None else value.percent for value in values)
        difference = None if was is None or now is None else now - was
        counts = [NO_VALUE if value is None else value.counts for value in values]
        cells = [percent_cell(was), percent_cell(now), signed_cell(difference)]
        yield [task.before.task, kind, *cells, " -> ".join(dict.fromkeys(counts))]


def _changes(task: RegradedTask) -> Iterator[str]:
    """The verdicts of a task that changed, and the samples that could not be read again."""
    changes, name = list(task.changes), task.before.task
    yield f"{name}: {counted(len(changes), 'verdict')} changed."
    rows = [[id_, kind, _text(old), _text(new)] for id_, kind, old, new in changes[:_SHOWN]]
    if rows:
        yield rendered(Table(header=("sample", "score", "before", "after"), rows=rows, texts=4))
    if len(changes) > _SHOWN:
        yield f"{len(changes) - _SHOWN} more."
    if task.kept:
        yield f"{name}: as before, since they cannot be read again: {listed(task.kept)}."


def _text(verdict: Verdict) -> str:
    if isinstance(verdict, Scored):
        reading = short_name(verdict.reading.strip())
        return f"{verdict.points:g}{f' ({reading})' if reading else ''}"
    return f"unscored: {verdict.reason}"
