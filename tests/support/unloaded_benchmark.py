"""A benchmark whose samples are made in a test, not loaded: for tests of runs and results."""

import copy
from typing import TypeVar

from mmie_tasks.benchmarks.benchmark import Benchmark

BenchmarkT = TypeVar("BenchmarkT", bound=Benchmark)


class UnloadedBenchmark(Benchmark):
    def documents(self, selection, environment):
        raise NotImplementedError

    def question(self, doc, options):
        raise NotImplementedError

    def score(self, record, answer):
        raise NotImplementedError


def varied(benchmark, **attributes):
    other = copy.copy(benchmark)
    for name, value in attributes.items():
        setattr(other, name, value)
    return other
