"""What the runner's results file says of a benchmark: provenance, signature, judges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.runner.loaded_tasks import Task, is_predict_only


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

    With them the judges as they were chosen, as ``metadata.judges``, for `rejudge`, unless an
    address of theirs may hold a secret. Not earlier: a judge in this process fixes its signature
    when it starts, and then says what computed its replies, as ``metadata.judged_on``. The task's
    own configuration stays as it is: the runner derives the key of its cache of answers from it,
    which must not change with the judge.

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
            judges = [choice.text for choice in benchmark.judge.choices().judges]
            metadata |= {} if None in judges else {"judges": judges}
            machine = benchmark.judge.machine()
            metadata |= {"judged_on": machine} if machine else {}
