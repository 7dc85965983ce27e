"""Settings of benchmarks, as a run has them."""


def change(monkeypatch, benchmark, **settings):
    """Change settings of a benchmark until the test ends."""
    changed = benchmark.settings.model_copy(update=settings)
    monkeypatch.setattr(benchmark, "settings", changed)
