"""Asking an `openai` judge in tests: short waits, outcomes in the order of the requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mmie_tasks.http.rate_limit import Pace
from mmie_tasks.judges.base import JudgeRequest, Outcome
from mmie_tasks.judges.openai.judge import OpenAIJudge
from mmie_tasks.judges.openai.settings import Options, read_settings

KEY = "sk-thisisnotarealkey"
FAST = Pace(base_s=0.02, cap_s=0.1, no_growth_s=0.2, check_s=(0.01, 0.01))


def judge_at(*urls: str, key: str | None = KEY, pace: Pace = FAST, **options: Any) -> OpenAIJudge:
    # Longer than a busy machine takes for anything here: only what fails on purpose ends so.
    given = {"model": "judge-model", "timeout_s": 30.0, "patience_s": 30.0, **options}
    environment = {"MMIE_TASKS_CACHE": "/nowhere", **({"OPENAI_API_KEY": key} if key else {})}
    settings = read_settings(Options(base_url=";".join(urls), **given), environment)
    return OpenAIJudge(replace(settings, base_urls=tuple(urls)), pace=pace)


def requests(count: int, max_tokens: int = 50) -> list[JudgeRequest]:
    return [JudgeRequest(parts=(f"question {i}",), max_tokens=max_tokens) for i in range(count)]


def ask(judge: OpenAIJudge, asked: int | Sequence[JudgeRequest] = 1) -> list[Outcome]:
    """One outcome for each request, in their order; more or fewer are an error."""
    given = requests(asked) if isinstance(asked, int) else asked
    outcomes = list(judge.ask(given))
    assert sorted(index for index, _ in outcomes) == list(range(len(given)))
    return [outcome for _, outcome in sorted(outcomes, key=lambda pair: pair[0])]


def question_of(body: dict[str, Any]) -> str:
    return body["messages"][0]["content"][0]["text"]
