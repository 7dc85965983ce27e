"""The functions for MIA-Bench's task file."""

from __future__ import annotations

from mmie_tasks.benchmarks.mia_bench.benchmark import BENCHMARK

process_docs = BENCHMARK.process_docs
doc_to_messages = BENCHMARK.doc_to_messages
doc_to_text = BENCHMARK.doc_to_text
doc_to_visual = BENCHMARK.doc_to_visual
doc_to_target = BENCHMARK.doc_to_target
process_results = BENCHMARK.process_results
percent = BENCHMARK.percent
