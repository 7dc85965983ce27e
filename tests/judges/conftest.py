import pytest
from loguru import logger


@pytest.fixture
def warnings():
    """The warnings that are logged, as a list of texts."""
    lines: list[str] = []
    sink = logger.add(lines.append, level="WARNING", format="{message}")
    yield lines
    logger.remove(sink)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """An empty cache folder."""
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))
