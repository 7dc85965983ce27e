"""What belongs to the judging session of one evaluation, and the session outside of any."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from support.judges import FunctionJudge, class_of, echo, reply, text_of

import mmie_tasks
from mmie_tasks.core.verdict import Scored, Verdicts
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import Judge, JudgeOptions, JudgeRequest
from mmie_tasks.judges.batch import GradedRequest, PendingSample
from mmie_tasks.judges.session import BenchmarkJudge, JudgingSession, judging_in
from mmie_tasks.record.reply import JudgeResult

Register = Callable[[type[Judge]], None]


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Register:
    """Registers the class of every judge."""
    return lambda judge: monkeypatch.setattr(registry, "judge_class", lambda _: judge)


def grade(_: JudgeResult) -> Verdicts:
    return Verdicts(official=Scored(1.0), robust=Scored(1.0))


def submit(judge: BenchmarkJudge, text: str) -> Mapping[str, object]:
    request = GradedRequest(request=JudgeRequest(parts=(text,), max_tokens=9), grade=grade)
    return judge.submit(
        PendingSample(request=request, make_rows=lambda _: {"a": {"score": 1.0}}, metrics=("a",))
    )


def test_an_evaluation_does_not_send_the_samples_of_one_that_died(register: Register) -> None:
    asked = FunctionJudge(echo)
    register(class_of(asked))
    benchmark = BenchmarkJudge("first", "counting:cache=off")

    def die() -> None:
        with judging_in(JudgingSession(), [benchmark]):
            submit(benchmark, "of the first evaluation")
            raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError):
        die()
    with judging_in(JudgingSession(), [benchmark]):
        assert dict(submit(benchmark, "of the second").items()) == {"a": {"score": 1.0}}
    assert [[text_of(request) for request in call] for call in asked.calls] == [["of the second"]]


def test_rows_that_are_read_late_are_judged_in_the_session_that_they_are_of(
    register: Register,
) -> None:
    register(class_of(FunctionJudge(echo)))
    benchmark = BenchmarkJudge("first", "counting:cache=off")
    sessions = {"their own": list[object](), "another": list[object]()}
    running = {name: JudgingSession(on_outcome=seen.append) for name, seen in sessions.items()}
    with judging_in(running["their own"], [benchmark]):
        rows = submit(benchmark, "x")
    with judging_in(running["another"], [benchmark]):
        assert dict(rows.items()) == {"a": {"score": 1.0}}
    assert {name: len(seen) for name, seen in sessions.items()} == {"their own": 1, "another": 0}


@pytest.fixture
def opened(register: Register) -> list[str]:
    """The keys with which judges were opened; a judge replies with its own."""
    keys: list[str] = []

    class KeyJudge(FunctionJudge):
        class Options(JudgeOptions):
            model: str = "m"

        @classmethod
        def open(cls, options: Options, environment: Mapping[str, str]) -> Judge:
            key = environment.get("THEIR_KEY", "none")
            keys.append(key)
            judge = cls(lambda _: reply(key))
            judge.signature = {"judge": "theirs", "model": options.model}
            return judge

    register(KeyJudge)
    return keys


def ask() -> str:
    (result,) = mmie_tasks.judge("theirs", "x", cache="off")
    assert result.reply is not None
    return result.reply.text


def test_without_a_run_a_judge_is_used_again(opened: list[str]) -> None:
    ask()
    ask()
    assert opened == ["none"]


def test_without_a_run_a_judge_has_the_key_that_is_set_when_it_is_asked(
    opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = [ask()]
    for key in ("first", "second"):
        monkeypatch.setenv("THEIR_KEY", key)
        replies += [ask(), ask()]
    assert replies == ["none", "first", "first", "second", "second"]
    assert opened == ["none", "first", "second"]


def test_without_a_run_a_benchmark_uses_the_judge_that_is_set_when_it_is_asked(
    opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del opened
    benchmark = BenchmarkJudge("first", "theirs:a,cache=off")
    signatures = [benchmark.signature()]
    for choice in ("theirs:b,cache=off", "theirs:a,cache=off"):
        monkeypatch.setenv("MMIE_TASKS_JUDGE", choice)
        signatures.append(benchmark.signature())
    assert [signature.name for signature in signatures] == ["a", "b", "a"]


def test_in_a_run_a_judge_stays_the_same_whatever_is_set(
    opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has one budget."""
    session = JudgingSession()
    benchmark = BenchmarkJudge("first", "theirs:cache=off")
    with judging_in(session, [benchmark]):
        before = benchmark.judge()
        monkeypatch.setenv("THEIR_KEY", "other")
        assert benchmark.judge() is before
    assert opened == ["none"]
