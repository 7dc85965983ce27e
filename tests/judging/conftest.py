from pathlib import Path

import pytest

from mmie_tasks.judging import session


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache folder, and no judge that another test has opened."""
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(session, "_open_judges", {})
