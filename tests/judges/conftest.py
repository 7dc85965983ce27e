import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """An empty cache folder."""
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))
