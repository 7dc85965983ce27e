"""The functions for MileBench's task files.

A task selects its samples by ``dataset_name``: ``DocVQA``, ``DocVQA@adv``, ``DocVQA@combined1``,
or ``all`` in place of a dataset.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mmie_tasks.benchmarks.milebench import metrics
from mmie_tasks.benchmarks.milebench.benchmark import BENCHMARK
from mmie_tasks.benchmarks.milebench.sample import TASK_OF
from mmie_tasks.record.rows import Row, aggregation, group_of

process_docs = BENCHMARK.process_docs
doc_to_messages = BENCHMARK.doc_to_messages
doc_to_text = BENCHMARK.doc_to_text
doc_to_visual = BENCHMARK.doc_to_visual
doc_to_target = BENCHMARK.doc_to_target
process_results = BENCHMARK.process_results
process_results_all = BENCHMARK.process_results_all


def task_percent(rows: Sequence[Row]) -> float:
    """The mean over the datasets of the rows' task, in percent; NaN if the run lacks a dataset."""
    datasets = (group_of(row) for row in rows if row)
    task = next((TASK_OF[dataset] for dataset in datasets), None)
    return (
        math.nan
        if task is None
        else aggregation(BENCHMARK.scale, metrics.METRIC_OF[task].weights)(rows)
    )


percent = aggregation(BENCHMARK.scale)
real = aggregation(BENCHMARK.scale, metrics.METRIC_OF["real"].weights)
diag = aggregation(BENCHMARK.scale, metrics.METRIC_OF["diag"].weights)
