"""What the runner's results file says of a benchmark: provenance, signature, judges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.runner.loaded_tasks import Task, is_predict_only
from mmie_tasks.runs.saved_results import judge_metadata


def add_provenance(task: Task, benchmark: Benchmark) -> None:
    """Put the benchmark's provenance into the results file, as ``metadata.provenance``.

    The runner saves the task's configuration, and derives the key of its cache of answers from it.
    """
    provenance = benchmark.provenance(task.eval_docs_no_media[0])
    task.config.metadata = {**(task.config.metadata or {}), "provenance": provenance}


def add_signatures(
    configs: dict[str, dict[str, Any]],
    tasks: Mapping[str, Task],
    benchmarks: Mapping[Task, Benchmark],
) -> None:
    """Put the benchmarks' signatures into the results, as ``metadata.signature``, after judging.

    With them the judges as they were chosen and what computed their replies: see `judge_metadata`.
    Not earlier: a judge in this process fixes its signature when it starts. The task's own
    configuration stays as it is: the runner derives the key of its cache of answers from it, which
    must not change with the judge.

    Args:
        configs: Name of a task to its configuration in the results.
        tasks: Name to task.
        benchmarks: The tasks of these that are ours, to their benchmarks.
    """
    for name, task in tasks.items():
        benchmark = benchmarks.get(task)
        if benchmark is None or benchmark.signature is None or is_predict_only(task):
            continue
        metadata = configs[name].setdefault("metadata", {})
        metadata["signature"] = benchmark.signature(task.eval_docs_no_media[0])
        if benchmark.judge is not None:
            texts = [choice.text for choice in benchmark.judge.choices().judges]
            metadata |= judge_metadata(texts, benchmark.judge.machine())
