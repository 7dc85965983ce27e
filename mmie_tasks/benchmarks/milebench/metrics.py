"""MileBench's metrics: means over datasets and tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mmie_tasks.benchmarks.milebench.sample import (
    DATASETS,
    DATASETS_OF,
    DIAGNOSTIC,
    REALISTIC,
    TASK_OF,
    TASKS,
)
from mmie_tasks.record.metrics import Metric, Scale
from mmie_tasks.record.rows import RunnerTable

MEANS_OF_TASKS: Mapping[str, tuple[str, ...]] = {
    "real": REALISTIC,  # the paper's Realistic
    "diag": DIAGNOSTIC,  # the paper's Diagnostic; its GPT-4V and GPT-4o rows leave out I-1
    "temporal": tuple(task for task in REALISTIC if task[0] == "T"),  # T of LongLLaVA and V2PE
    "semantic": tuple(task for task in REALISTIC if task[0] == "S"),  # S of LongLLaVA and V2PE
    "needles": ("N-1", "N-2"),  # NH of LOOK-M and MEDA, NI of V2PE
    "retrieval": ("I-1",),  # IR of LongLLaVA and LOOK-M
    "tasks12": TASKS,  # LongLLaVA's Total
    **{task: (task,) for task in TASKS},
}
"""Means of task means; a task is the mean of its datasets. The paper's averages were reconstructed
from its table and agree with all 22 rows."""

MEANS_OF_DATASETS: Mapping[str, tuple[str, ...]] = {
    "datasets26": tuple(d for d in DATASETS if TASK_OF[d] in REALISTIC)  # LongLLaVA's Real
}
"""Means of dataset means, as in LongLLaVA's evaluator and the paper's Random row."""


def _weights(name: str) -> dict[str, float]:
    """The weight of each dataset in a mean of means, or of a level in itself."""
    if name in MEANS_OF_TASKS:
        members = [DATASETS_OF[task] for task in MEANS_OF_TASKS[name]]
        return {d: 1 / len(members) / len(datasets) for datasets in members for d in datasets}
    names = MEANS_OF_DATASETS.get(name, (name,))
    return dict.fromkeys(names, 1 / len(names))


def _metrics() -> Iterator[Metric]:
    titles_by_kind = {
        "headline": {"real": "Realistic", "diag": "Diagnostic"},
        "mean": {
            "temporal": "Temporal",
            "semantic": "Semantic",
            "needles": "Needles",
            "retrieval": "Retrieval",
            "tasks12": "Mean of 12 tasks",
            "datasets26": "Mean of 26 datasets",
        },
        "task": {name: name for name in TASKS},
        "dataset": {name: name for name in DATASETS},
        "level": {
            "few": "Few images (up to 5)",
            "medium": "Medium (6 to 31 images)",
            "many": "Many images (32 and more)",
        },
    }
    for kind, titles in titles_by_kind.items():
        by = "level" if kind == "level" else "dataset"
        for name, title in titles.items():
            in_table = kind in ("headline", "task")
            yield Metric(
                name=name, title=title, kind=kind, by=by, weights=_weights(name), in_table=in_table
            )


SCALE = Scale(full_marks=1, unit="points, 0 to 1", percent=lambda mean: 100 * mean)
METRICS = tuple(_metrics())
METRIC_OF = {metric.name: metric for metric in METRICS}

TABLE = RunnerTable(metrics=(METRIC_OF["real"], METRIC_OF["diag"]), scale=SCALE)
DATASET_TABLE = RunnerTable(metrics=(Metric(name="", title="Mean", kind="headline"),), scale=SCALE)
"""The runner's table of a task with a single dataset."""
