"""Settings of benchmarks, as a run has them."""

import pytest

from mmie_tasks.benchmarks.benchmark import Benchmark


def change(monkeypatch: pytest.MonkeyPatch, benchmark: Benchmark, **settings: object) -> None:
    """Change settings of a benchmark until the test ends."""
    changed = benchmark.settings.model_copy(update=settings)
    monkeypatch.setattr(benchmark, "settings", changed)
