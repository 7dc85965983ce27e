"""A benchmark whose samples are made in a test, not loaded: for tests of runs and results."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.record.record import Record

BenchmarkT = TypeVar("BenchmarkT", bound=Benchmark[Any])


class UnloadedBenchmark(Benchmark[Record]):
    record = Record

    def documents(self, selection, environment):
        raise NotImplementedError

    def question(self, doc, options):
        raise NotImplementedError

    def score(self, record, answer):
        raise NotImplementedError


def varied(benchmark: BenchmarkT, **attributes: object) -> BenchmarkT:
    """The benchmark with other attributes."""
    other = copy.copy(benchmark)
    for name, value in attributes.items():
        setattr(other, name, value)
    return other
