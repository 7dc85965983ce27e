"""Runs of a made-up benchmark with a scale of 0 to 4, built by hand, without a log."""

from dataclasses import replace
from pathlib import Path

from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.metrics import Metric, Scale
from mmie_tasks.results.run import Run, TaskRun
from mmie_tasks.results.saved_results import SavedResults
from support.records import record_of
from support.signatures import signature_from
from support.unloaded_benchmark import UnloadedBenchmark, metric_of

SIGNATURE = "judge:made_up|model:made-up|task:sketch@1-A"
SCALE = Scale(
    full_marks=4, unit="points, 0 to 4", whole=True, percent=lambda points: round(25 * points, 2)
)


METRICS = (
    Metric(name="", title="Total", kind="headline"),
    *(metric_of(name, "category") for name in ("c", "a", "b")),
    *(
        replace(metric_of(name, "component"), title=name, component=name)
        for name in ("look", "tell", "spell")
    ),
)


class Sketch(UnloadedBenchmark):
    name, title = "sketch", "Sketch"
    scale, metrics = SCALE, METRICS


SKETCH = Sketch()


def verdict(points):
    return Unscored("unparsed", "no number") if points is None else Scored(points, str(points))


def sample(id, points=2, robust="same", category="a", signature=SIGNATURE, **fields):  # noqa: A002
    """A sample; without `robust`, both scores have the same points."""
    other = points if isinstance(robust, str) else robust
    return record_of(
        id,
        verdict(points),
        verdict(other),
        signature=signature_from(signature),
        **{"groups": {"category": (category,)}, **fields},
    )


def run(name, samples, task="sketch", benchmark=SKETCH, stored=None, **fields):
    of_task = TaskRun(
        task=task,
        benchmark=benchmark,
        logs=(Path(f"{name}.jsonl"),),
        records=tuple(samples),
        saved=SavedResults(results={task: stored or {}}),
        **fields,
    )
    return Run(name=name, folder=Path("out") / name, started="2026-11-21", tasks={task: of_task})
