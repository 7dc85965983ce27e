"""The functions that the MMIE YAMLs name.

A YAML selects samples with ``dataset_name``: ``all``, ``sa``, ``pbl``, ``msr`` or ``1k``.
"""

from __future__ import annotations

from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK

process_docs = BENCHMARK.process_docs
doc_to_messages = BENCHMARK.doc_to_messages
doc_to_text = BENCHMARK.doc_to_text
doc_to_visual = BENCHMARK.doc_to_visual
doc_to_target = BENCHMARK.doc_to_target  # the judge gets it for MSR only
process_results = BENCHMARK.process_results
percent = BENCHMARK.percent
