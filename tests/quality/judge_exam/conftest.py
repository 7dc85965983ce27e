"""A judge on a loopback server, and pairs of answers in OpenING's layout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.judge_server import JudgeServer, judge_server
from support.mmie_judge import words
from support.opening_folder import write_opening


@pytest.fixture(scope="module")
def judge_words(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(words(tmp_path_factory.mktemp("words") / "words.json"))


@pytest.fixture(autouse=True)
def made_up_words(monkeypatch: pytest.MonkeyPatch, judge_words: str) -> None:
    """Made-up words for MMIE's judge."""
    for name in ("MMIE_ASSEMBLY", "MMIE_PROMPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MMIE_OTHER_PROMPTS", judge_words)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_opening(tmp_path_factory.mktemp("opening"))


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with judge_server("") as running:
        yield running


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"MMIE_TASKS_CACHE": str(tmp_path / "cache"), "OPENAI_API_KEY": "sk-secret-of-this-test"}
