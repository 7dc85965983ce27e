"""A benchmark whose samples are made in a test, not loaded: for tests of runs and results."""

import copy

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.record.metrics import Metric


class UnloadedBenchmark(Benchmark):
    def documents(self, selection, environment):
        raise NotImplementedError

    def question(self, doc, options):
        raise NotImplementedError

    def score(self, record, answer):
        raise NotImplementedError


def metric_of(group, by):
    """The mean of the samples of one group."""
    return Metric(name=group, title=group.upper(), kind=by, by=by, weights={group: 1.0})


def varied(benchmark, **attributes):
    other = copy.copy(benchmark)
    for name, value in attributes.items():
        setattr(other, name, value)
    return other
