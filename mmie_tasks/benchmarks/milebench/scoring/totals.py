"""From samples to the numbers of the paper, and of the papers after it.

The paper's averages, reconstructed from its table and tested on all 22 rows of it: a task is the
mean of its datasets, Real the mean of the nine T and S tasks, Diag the mean of N-1, N-2 and I-1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mmie_tasks.benchmarks.milebench.sample import DATASETS, DIAGNOSTIC, REALISTIC, TASK_OF, TASKS
from mmie_tasks.verdict import Mean, Tally, Verdict, mean_of, tally

TEMPORAL = tuple(task for task in REALISTIC if task.startswith("T"))
SEMANTIC = tuple(task for task in REALISTIC if task.startswith("S"))

MEANS_OF_TASKS: Mapping[str, tuple[str, ...]] = {
    "real": REALISTIC,  # the paper's Realistic
    "diag": DIAGNOSTIC,  # the paper's Diagnostic; its GPT-4V and GPT-4o rows leave out I-1
    "temporal": TEMPORAL,  # T of LongLLaVA and V2PE
    "semantic": SEMANTIC,  # S of LongLLaVA and V2PE
    "needles": ("N-1", "N-2"),  # NH of LOOK-M and MEDA, NI of V2PE
    "retrieval": ("I-1",),  # IR of LongLLaVA and LOOK-M
    "tasks12": TASKS,  # Total of LongLLaVA's evaluator
    **{task: (task,) for task in TASKS},
}
"""Means of task means, by name: the paper's two, and those of the papers that came after."""

MEANS_OF_DATASETS: Mapping[str, tuple[str, ...]] = {
    "datasets26": tuple(d for d in DATASETS if TASK_OF[d] in REALISTIC),  # LongLLaVA's Real
}
"""Means of dataset means: how LongLLaVA's evaluator, and the paper's Random row, average."""


def by_dataset(verdicts: Iterable[tuple[str, Verdict]]) -> dict[str, Tally]:
    """Tally per dataset, in the paper's order.

    >>> from mmie_tasks.verdict import Scored, Unscored
    >>> by_dataset([("TQA", Scored(1.0)), ("TQA", Unscored("no_answer"))])
    {'TQA': Tally(mean=1.0, scored=1, unscored=1)}
    """
    grouped: dict[str, list[Verdict]] = {}
    for dataset, verdict in verdicts:
        grouped.setdefault(dataset, []).append(verdict)
    return {dataset: tally(grouped[dataset]) for dataset in DATASETS if dataset in grouped}


def task_mean(task: str, datasets: Mapping[str, Tally]) -> Mean:
    """The mean of a task's datasets; none unless every one of them has a mean."""
    return _mean_of_means([d for d in DATASETS if TASK_OF[d] == task], datasets)


def total(name: str, datasets: Mapping[str, Tally]) -> Mean:
    """A mean of `MEANS_OF_TASKS` or `MEANS_OF_DATASETS`; none unless all its parts are there.

    >>> total("S-1", {"TQA": Tally(1.0, 9, 0)}).why_not
    'WebQA, MultiModalQA, WikiVQA not in this run'
    """
    if name in MEANS_OF_DATASETS:
        return _mean_of_means(MEANS_OF_DATASETS[name], datasets)
    means = [task_mean(task, datasets) for task in MEANS_OF_TASKS[name]]
    return _average(means)


def _mean_of_means(names: Sequence[str], datasets: Mapping[str, Tally]) -> Mean:
    if absent := [name for name in names if name not in datasets]:
        return Mean(None, f"{', '.join(absent)} not in this run")
    parts = {name: mean_of(datasets[name]) for name in names}
    return _average(
        [Mean(m.value, m.why_not and f"{name}: {m.why_not}") for name, m in parts.items()]
    )


def _average(means: Sequence[Mean]) -> Mean:
    values = [mean.value for mean in means if mean.value is not None]
    if len(values) < len(means):
        return Mean(None, "; ".join(mean.why_not for mean in means if mean.why_not))
    return Mean(sum(values) / len(values))
