"""The results of ``mmie-tasks rescore`` as tables or JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from mmie_tasks.core import __version__
from mmie_tasks.core.tables import percent_cell, signed_cell
from mmie_tasks.core.verdict import Scored, Verdict
from mmie_tasks.results.render import Table, columns, json_text, markdown
from mmie_tasks.results.rescore.attempt import printable
from mmie_tasks.results.rescore.rescored_task import RescoredTask, metric_changes
from mmie_tasks.runs.run import Run

_MAX_TEXT = 60  # characters of a reading or detail in a table
_MAX_NAMES = 5  # samples to name for each reason why they cannot be rescored


def rescored_json(runs: Sequence[tuple[Run, Sequence[RescoredTask]]]) -> str:
    """The results as JSON, one object for each task."""
    return json_text([_as_json(opened, task) for opened, rescored in runs for task in rescored])


def _as_json(run: Run, rescored: RescoredTask) -> dict[str, object]:
    return {
        "run": run,
        "task": rescored.task_run,
        "pkg": __version__,
        "samples": len(rescored.samples),
        "changed": rescored.change_counts,
        "metrics": metric_changes(rescored),
        "changes": rescored.changes,
        "not_rescored": rescored.not_rescored,
    }


def rescored_text(runs: Sequence[tuple[Run, Sequence[RescoredTask]]], top: int) -> str:
    """The results as tables, with up to `top` changed verdicts of each task."""
    blocks = [f"Rescored with the readers of mmie-tasks {__version__}; no judge was called."]
    for run_, tasks in runs:
        blocks += [printable(f"{run_.name}: {note}") for note in run_.notes]
        for rescored in tasks:
            blocks += _blocks(run_, rescored, top)
    return "\n\n".join(blocks)


def _blocks(run: Run, rescored: RescoredTask, top: int) -> Iterator[str]:
    task_run, changes = rescored.task_run, rescored.changes
    yield printable(f"## {run.name}: {task_run.task}\n{task_run.log}")
    yield from (printable(f"note: {note}") for note in task_run.notes)
    total, skipped = len(rescored.samples), len(rescored.not_rescored)
    by_kind = ", ".join(f"{count} {kind}" for kind, count in rescored.change_counts.items())
    changed = f"Changed verdicts: {by_kind}." if changes else "Nothing changed."
    yield f"{total} samples, {total - skipped} rescored. {changed}"
    if skipped:
        lines = [f"{skipped} samples cannot be rescored and keep their verdicts:"]
        for reason, count in Counter(rescored.not_rescored.values()).items():
            ids = [id_ for id_, why in rescored.not_rescored.items() if why == reason]
            more = ", ..." if count > _MAX_NAMES else ""
            lines.append(f"- {count}: {reason} ({', '.join(ids[:_MAX_NAMES])}{more})")
        yield printable("\n".join(lines))
    yield _metric_table(rescored)
    if changes and top:
        rows = [
            [printable(c.id), c.score_kind, _verdict_text(c.before), _verdict_text(c.after)]
            for c in changes[:top]
        ]
        hidden = len(changes) - len(rows)
        notes = [f"{hidden} more; `--top` shows them."] if hidden else []
        header = columns("sample", "score", "before", "after", text=4)
        yield markdown(Table(columns=header, rows=rows, notes=notes))


def _metric_table(rescored: RescoredTask) -> str:
    rows = []
    for change in metric_changes(rescored):
        before, after = change.before, change.after
        percents = [value.percent for value in (before, after) if value.percent is not None]
        difference = percents[1] - percents[0] if len(percents) == 2 else None
        scored = f"{before.scored} -> {after.scored} of {after.total}"
        cells = [percent_cell(before.percent), percent_cell(after.percent), signed_cell(difference)]
        rows.append([change.metric.title, change.score_kind, *cells, scored])
    header = columns("metric, percent", "score", "before", "after", "difference", "scored", text=2)
    return markdown(Table(columns=header, rows=rows))


def _verdict_text(verdict: Verdict) -> str:
    """Points and the part of the reply they were read from, or the reason for no points."""
    if isinstance(verdict, Scored):
        reading = verdict.reading.strip() and f" ({printable(verdict.reading)[:_MAX_TEXT]})"
        return f"{verdict.points:g}{reading}"
    detail = f": {printable(verdict.detail)[:_MAX_TEXT]}" if verdict.detail else ""
    return f"unscored, {verdict.reason}{detail}"
