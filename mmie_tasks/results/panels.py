"""The verdicts of each judge of a panel, and how far they differ."""

from __future__ import annotations

from dataclasses import replace

from mmie_tasks.core.verdict import Scored, Verdict
from mmie_tasks.core.wording import numbered_names
from mmie_tasks.record.judgement import disagreement
from mmie_tasks.record.record import Record
from mmie_tasks.results.run import TaskRun


def judge_runs(task_run: TaskRun) -> dict[str, TaskRun]:
    """Name of each judge of a panel to the samples that it was asked about, with its own verdicts.

    It is empty for a single judge.
    """
    names = max((signature.judge_names for signature in task_run.signatures), key=len, default=[])
    by_judge = {}
    for index, name in enumerate(names):
        judged = (
            record.scored(record.members[index].verdicts)
            for record in task_run.records
            if len(record.members) > index
        )
        by_judge[name] = replace(task_run, records=tuple(judged))
    return by_judge


def judge_points(sample: Record) -> dict[str, str]:
    """For display: the points of each judge of a panel, or why there are none, and how they differ.

    ``{"judge gpt-4o": "4", "judge qwen": "3", "judges differ by": "1"}``
    """
    points = {}
    names = numbered_names([member.judge.name or "without a name" for member in sample.members])
    for name, member in zip(names, sample.members, strict=True):
        official, robust = member.verdicts.official, member.verdicts.robust
        also = f" (robust: {_points(robust)})" if member.verdicts.differ else ""
        points[f"judge {name}"] = f"{_points(official)}{also}"
    if spread := disagreement(sample.members):
        points["judges differ by"] = f"{spread.range:g}"
    return points


def _points(verdict: Verdict) -> str:
    return f"{verdict.points:g}" if isinstance(verdict, Scored) else f"no points: {verdict.reason}"
