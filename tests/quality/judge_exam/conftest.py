"""A judge on a loopback server, and pairs of answers in OpenING's layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.judge_server import JudgeServer
from support.mmie_judge import words
from support.opening_folder import write_opening
from support.settings import change

from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK
from mmie_tasks.quality.judge_exam.command import run


@pytest.fixture(scope="module")
def judge_words(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(words(tmp_path_factory.mktemp("words") / "words.json"))


@pytest.fixture(autouse=True)
def made_up_words(monkeypatch: pytest.MonkeyPatch, judge_words: str) -> None:
    """Made-up words for MMIE's judge."""
    change(monkeypatch, BENCHMARK, prompts=Path(judge_words))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_opening(tmp_path_factory.mktemp("opening"))


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer("") as running:
        yield running


@pytest.fixture
def exam_of(
    folder: Path, server: JudgeServer, environment: dict[str, str], judge_words: str
) -> Callable[..., str]:
    """The output for the judge on the server, with more words of the command line."""

    def output(
        *words: str,
        opening: Path = folder,
        method: str = "compare",
        judge_args: str = "price_in=2.5,price_out=10",
    ) -> str:
        if method == "mmie" and "prompts=" not in judge_args:
            judge_args += f",prompts={judge_words}"
        judge = ["openai:judge-model", "--judge_args", f"base_url={server.url},{judge_args}"]
        pairs = ["--folder", str(opening), "--method", method]
        printed = run([*judge, *pairs, *words], environment)
        assert isinstance(printed, str)
        return printed

    return output


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"MMIE_TASKS_CACHE": str(tmp_path / "cache"), "OPENAI_API_KEY": "sk-secret-of-this-test"}
