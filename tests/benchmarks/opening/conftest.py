"""Surroundings of OpenING's tests: our own prompts, and an empty cache."""

import pytest
from support.opening_data import EXAMPLE, PROMPTS

from mmie_tasks.benchmarks import model_answers
from mmie_tasks.benchmarks.opening import benchmark
from mmie_tasks.benchmarks.opening.settings import OpeningSettings
from mmie_tasks.hub.run_images import ImageOpener


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MMIE_TASKS_JUDGE", f"replay:path={EXAMPLE / 'replies.jsonl'}")
    monkeypatch.setattr(benchmark.BENCHMARK, "settings", OpeningSettings(prompts=PROMPTS))
    monkeypatch.setenv("OPENING_DATA", str(EXAMPLE / "data"))
    monkeypatch.setattr(model_answers, "_answer_folders", {})
    monkeypatch.setattr(benchmark.BENCHMARK, "opener", ImageOpener())
