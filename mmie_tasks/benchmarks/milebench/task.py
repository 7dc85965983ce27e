"""The functions for MileBench's task files.

A task selects its samples by ``dataset_name``: ``DocVQA``, ``DocVQA@adv``, ``DocVQA@combined1``,
or ``all`` in place of a dataset.
"""

from __future__ import annotations

from mmie_tasks.benchmarks.milebench import metrics
from mmie_tasks.benchmarks.milebench.benchmark import BENCHMARK
from mmie_tasks.record.rows import aggregation

process_docs = BENCHMARK.process_docs
doc_to_messages = BENCHMARK.doc_to_messages
doc_to_text = BENCHMARK.doc_to_text
doc_to_visual = BENCHMARK.doc_to_visual
doc_to_target = BENCHMARK.doc_to_target
process_results = BENCHMARK.process_results
percent = BENCHMARK.percent
real = aggregation(BENCHMARK.scale, metrics.METRIC_OF["real"].weights)
diag = aggregation(BENCHMARK.scale, metrics.METRIC_OF["diag"].weights)
