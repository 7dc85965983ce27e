"""The `benchmark.py` of a benchmark that exists only in tests, for a copy of our package."""

from __future__ import annotations

from mmie_tasks.runs.benchmark import Benchmark, Metric, Scale


def _unused(_line):
    raise NotImplementedError


def _check_data(docs):
    from mmie_tasks.benchmarks.sketch import task

    task.check_data(docs)


BENCHMARK = Benchmark(
    name="sketch",
    title="Sketch",
    scale=Scale(full_marks=1, unit="points, 0 or 1", percent=lambda mean: 100 * mean),
    metrics=(Metric(name="", title="All", kind="headline"),),
    read_line=_unused,
    reread=_unused,
    check_data=_check_data,
    provenance=lambda _doc: "task:sketch",
)
