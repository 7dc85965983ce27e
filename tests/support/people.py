"""People who score the answers of logged runs."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from mmie_tasks.core.verdict import Scored
from mmie_tasks.quality.calibrate.judged_samples import judged_samples
from mmie_tasks.quality.calibrate.plan import planned_answers
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.results.labels import COLUMNS, Label
from mmie_tasks.runs.run import TaskRun


def human_points(sample: LoggedSample, rater: str = "") -> float:
    """What people think of an answer: two points less than the judge, and whole points of noise."""
    judge = sample.official.points if isinstance(sample.official, Scored) else 3
    noise = random.Random(ascii((sample.id, sample.answer, rater))).choice((-1, 0, 0, 1))  # noqa: S311 - no secret
    return float(min(6, max(0, judge - 2 + noise)))


def labels_of(
    *task_runs: TaskRun, samples: int = 60, seed: int = 0, raters: Iterable[str] = ("ann",)
) -> list[Label]:
    """People's scores of a plan, in its order."""
    plan = planned_answers([judged_samples(run, "official") for run in task_runs], samples, seed)
    return [
        Label(
            id=answer.id,
            answer=answer.answer,
            seed=seed,
            rater=rater,
            points=human_points(answer.sample, rater),
            line=line,
        )
        for line, answer in enumerate(plan, 2)
        for rater in raters
    ]


def with_samples(task_run: TaskRun, changed: Mapping[str, LoggedSample]) -> TaskRun:
    """The run with other samples of these ids."""
    return replace(
        task_run, samples=tuple(changed.get(sample.id, sample) for sample in task_run.samples)
    )


def write_labels(path: Path, labels: Iterable[Label]) -> str:
    """The file of these scores, as the labelling page exports it."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(
            (label.id, label.answer, label.seed, label.rater, label.points) for label in labels
        )
    return str(path)
