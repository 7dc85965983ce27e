"""The judged task that the runs of ``calibrate`` have in common, and notes on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.results.commands import common_tasks, open_run
from mmie_tasks.runs.run import TaskRun, with_unique_names


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRun:
    """The judged task of a run, with a name that is unique among the runs."""

    name: str
    task_run: TaskRun
    notes: tuple[str, ...]


def judged_runs(sources: Sequence[str], tasks: Sequence[str]) -> list[NamedRun]:
    """The one judged task that the runs have in common.

    Raises `AnswersUnusable` if a run cannot be read or no task is common, and `SettingWrong` unless
    exactly one common task is judged.
    """
    opened = with_unique_names([open_run(source, tasks) for source in sources])
    common = common_tasks({run_.name: run_ for run_ in opened})
    judged = [task for task in common if opened[0].tasks[task].benchmark.judge is not None]
    if not judged:
        rule = ", ".join(f"`{task}`" for task in common)
        hint = "`calibrate` corrects the scores of judges: choose a run with such a task"
        raise SettingWrong(f"No judge scored {rule}: it is scored by rule.", hint=hint)
    if len(judged) > 1:
        message = f"`calibrate` corrects one task, and there are {len(judged)}: "
        hint = f"choose one with `--task {judged[0]}`"
        raise SettingWrong(f"{message}{', '.join(judged)}.", hint=hint)
    task_runs = [run_.tasks[judged[0]] for run_ in opened]
    return [
        NamedRun(name=run_.name, task_run=task_run, notes=(*run_.notes, *task_run.notes))
        for run_, task_run in zip(opened, task_runs, strict=True)
    ]


def notes_on(runs: Sequence[NamedRun]) -> list[str]:
    """The notes of all runs, as sentences that begin with the run's name."""
    return [f"{run_.name}: {note}." for run_ in runs for note in run_.notes]
