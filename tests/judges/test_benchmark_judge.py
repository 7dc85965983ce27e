from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from support.judges import FunctionJudge, echo

from mmie_tasks.core.choice import Choice
from mmie_tasks.core.verdict import Scored, Verdicts
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import JudgeMisconfigured, JudgeOptions, JudgeRequest, Outcome
from mmie_tasks.judges.batch import GradedRequest, PendingSample
from mmie_tasks.judges.choice import ALL_OTHERS, ChosenJudges
from mmie_tasks.judges.session import BenchmarkJudge, JudgingSession, judging_in
from mmie_tasks.record.reply import JudgeResult


class CheckCountingJudge(FunctionJudge):
    """Counts its checks; misconfigured if its model is ``wrong``."""

    checks: ClassVar[list[str]] = []
    kind = "counting"

    class Options(JudgeOptions):
        model: str = "right"

    def __init__(self, options: Options, _environment: object) -> None:
        super().__init__(echo)
        self.signature = {"judge": self.kind, "model": options.model}
        self._model = options.model

    def check(self, max_images: int = 0) -> None:
        self.checks.append(self._model)
        if self._model == "wrong":
            raise JudgeMisconfigured("There is no model `wrong`.", hint="take another")


@pytest.fixture(autouse=True)
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(registry, "judge_class", lambda _: CheckCountingJudge)
    monkeypatch.setenv("MMIE_TASKS_JUDGE", "counting:cache=off")
    monkeypatch.setattr(CheckCountingJudge, "checks", [])
    return CheckCountingJudge.checks


def test_benchmarks_share_a_judge_and_its_check(checks: list[str]) -> None:
    first, second = BenchmarkJudge("first", "counting"), BenchmarkJudge("second", "counting")
    first.check()
    second.check()
    assert first.judge() is second.judge()
    assert checks == ["right"]


def test_a_failed_check_is_repeated(checks: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMIE_TASKS_JUDGE", "counting:wrong,cache=off")
    for _ in range(2):
        with pytest.raises(JudgeMisconfigured):
            BenchmarkJudge("first", "counting").check()
    assert checks == ["wrong", "wrong"]


def test_the_choice_of_a_session_counts_until_the_session_ends() -> None:
    judge = BenchmarkJudge("first", "counting:right")
    options = {"model": "launched", "cache": "off"}
    choice = Choice(name="counting", options=options)
    session = JudgingSession({ALL_OTHERS: ChosenJudges(judges=(choice,))})
    with judging_in(session, [judge]):
        assert str(judge.signature()) == "judge:counting|model:launched|paper_judge:no"
    assert str(judge.signature()) == "judge:counting|model:right|paper_judge:yes"


def grade(_: JudgeResult) -> Verdicts:
    return Verdicts(official=Scored(1.0), robust=Scored(1.0))


def sample(*parts: str | Path) -> PendingSample:
    return PendingSample(
        request=GradedRequest(
            request=JudgeRequest(parts=parts or ("x",), max_tokens=9), grade=grade
        ),
        make_rows=lambda _: {"a": {"score": 1.0}},
        metrics=("a",),
    )


def test_rows_are_deferred_by_default_and_every_outcome_is_reported() -> None:
    judge, outcomes = BenchmarkJudge("", "counting"), list[Outcome]()
    judge.session = JudgingSession(on_outcome=outcomes.append)
    rows = judge.submit(sample())
    assert outcomes == []
    assert dict(rows.items()) == {"a": {"score": 1.0}}
    assert len(outcomes) == 1


def test_another_model_that_replies_is_warned_of_at_its_first_reply(
    logs: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CheckCountingJudge, "kind", "openai")
    monkeypatch.setenv("MMIE_TASKS_JUDGE", "counting:gpt-4o,cache=off")
    judge = BenchmarkJudge("", "counting")
    judge.session = JudgingSession()
    for _ in range(3):  # a batch for each sample
        assert judge.submit(sample())["a"] == {"score": 1.0}
    (warning,) = [line for line in logs if "`gpt-4o`" in line]
    assert "`m`" in warning
