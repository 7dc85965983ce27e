"""A benchmark whose samples are made in a test, not loaded: for tests of runs and results."""

from __future__ import annotations

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.record.record import Record


class UnloadedBenchmark(Benchmark[Record]):
    record = Record

    def documents(self, selection, environment):
        raise NotImplementedError

    def question(self, doc, options):
        raise NotImplementedError
