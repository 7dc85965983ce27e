"""What belongs to the judging session of one evaluation, and the session outside of any."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from support.judges import FunctionJudge, reply, text_of
from support.recordings import cached_reply, jsonl

import mmie_tasks
from mmie_tasks.core.verdict import Scored, Verdicts
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import JudgeMisconfigured, JudgeOptions, JudgeRequest
from mmie_tasks.judges.batch import GradedRequest, PendingSample
from mmie_tasks.judges.choice import parse_judges
from mmie_tasks.judges.content import content_key
from mmie_tasks.judges.session import BenchmarkJudge, JudgingSession, judging_in

POINT = Verdicts(official=Scored(1.0), robust=Scored(1.0))


class Made:
    """The judges that were opened: their keys, their checks and their requests, in order."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.checks: list[str] = []
        self.texts: list[str] = []


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    """Every judge is one of another package, which replies with its key."""
    made = Made()

    class KeyJudge(FunctionJudge):
        class Options(JudgeOptions):
            model: str = "right"

        def __init__(self, options: Options, environment: Mapping[str, str]) -> None:
            key = environment.get("THEIR_KEY", "none")
            made.keys.append(key)
            super().__init__(lambda _: reply(key))
            self.model = options.model
            self.signature = {"judge": "openai", "model": options.model}

        def check(self, max_images: int = 0) -> None:
            made.checks.append(self.model)
            if self.model == "wrong":
                raise JudgeMisconfigured("There is no model `wrong`.", hint="take another")

        def ask(self, requests):  # type: ignore[no-untyped-def]
            made.texts += map(text_of, requests)
            return super().ask(requests)

    monkeypatch.setattr(registry, "judge_class", lambda _: KeyJudge)
    return made


def submit(judge: BenchmarkJudge, text: str = "x") -> Mapping[str, object]:
    """The row of a sample with this request."""
    request = JudgeRequest(parts=(text,), max_tokens=9)
    pending = PendingSample(
        request=GradedRequest(request=request, grade=lambda _: POINT),
        make_rows=lambda judged: {"row": {"judge": str(judged.judgements[0].judge)}},
        metrics=("row",),
    )
    return judge.submit(pending)["row"]


def test_benchmarks_share_a_judge_and_its_check_unless_it_fails(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = BenchmarkJudge("first", "theirs"), BenchmarkJudge("second", "theirs")
    with judging_in(JudgingSession(), [first, second]):
        first.check()
        second.check()
        before = first.judge()
        monkeypatch.setenv("THEIR_KEY", "other")  # in a run, a judge has one key and budget
        assert first.judge() is second.judge() is before
    for _ in range(2):
        with pytest.raises(JudgeMisconfigured):
            BenchmarkJudge("first", "theirs:wrong").check()
    assert made.checks == ["right", "wrong", "wrong"]


@pytest.mark.usefixtures("made")
def test_the_choice_of_a_session_counts_until_the_session_ends() -> None:
    judge = BenchmarkJudge("first", "openai:right")
    with judging_in(JudgingSession(parse_judges(["openai:launched"], "here")), [judge]):
        assert str(judge.signature()) == "judge:openai|model:launched|paper_judge:no"
    assert str(judge.signature()) == "judge:openai|model:right|paper_judge:yes"


def test_each_benchmark_replays_the_judge_that_has_its_requests(tmp_path: Path) -> None:
    def recorded(judge: str, text: str) -> object:
        key = content_key(JudgeRequest(parts=(text,), max_tokens=9))
        cached = cached_reply(1, signature=f"judge:{judge}")
        return type(cached)(cached.signature, key, cached.reply, cached.time_s)

    path = jsonl(tmp_path / "r.jsonl", recorded("a", "of first"), recorded("b", "of second"))
    session = JudgingSession(parse_judges([f"replay:path={path}"], "here"))
    benchmarks = {name: BenchmarkJudge(name, "replay") for name in ("first", "second")}
    with judging_in(session, benchmarks.values()):
        rows = {name: dict(submit(judge, f"of {name}")) for name, judge in benchmarks.items()}
        signatures = [str(judge.signature()) for judge in benchmarks.values()]
    assert [str(row["judge"])[:8] for row in rows.values()] == ["judge:a|", "judge:b|"]
    assert [signature[:8] for signature in signatures] == ["judge:a|", "judge:b|"]


def test_another_model_that_replies_is_warned_of_at_its_first_reply(
    made: Made, logs: list[str]
) -> None:
    judge = BenchmarkJudge("first", "theirs:gpt-4o,cache=off")
    for _ in range(3):  # a batch for each sample
        assert dict(submit(judge))
    (warning,) = [line for line in logs if "`gpt-4o`" in line]
    assert "`m`" in warning
    assert len(made.texts) == 3


def test_rows_that_are_read_late_are_judged_in_the_session_that_they_are_of(made: Made) -> None:
    benchmark = BenchmarkJudge("first", "theirs")
    sessions = {"their own": list[object](), "another": list[object]()}
    running = {name: JudgingSession(on_outcome=seen.append) for name, seen in sessions.items()}
    with judging_in(running["their own"], [benchmark]):
        row = submit(benchmark)
    with judging_in(running["another"], [benchmark]):
        assert dict(row)
    assert {name: len(seen) for name, seen in sessions.items()} == {"their own": 1, "another": 0}
    with judging_in(JudgingSession(), [benchmark]):
        submit(benchmark, "of an evaluation that died")
    with judging_in(JudgingSession(), [benchmark]):
        assert dict(submit(benchmark, "of the next"))
    assert made.texts == ["x", "of the next"]


def test_without_a_run_a_judge_has_the_key_that_is_set_when_it_is_asked(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask() -> str:
        (result,) = mmie_tasks.judge("theirs", "x", cache="off")
        return result.last_text

    replies = [ask()]
    for key in ("first", "second"):
        monkeypatch.setenv("THEIR_KEY", key)
        replies += [ask(), ask()]
    assert replies == ["none", "first", "first", "second", "second"]
    assert made.keys == ["none", "first", "second"]


@pytest.mark.usefixtures("made")
def test_without_a_run_a_benchmark_uses_the_judge_that_is_set_when_it_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    benchmark = BenchmarkJudge("first", "theirs:a")
    signatures = [benchmark.signature()]
    for choice in ("theirs:b", "theirs:a"):
        monkeypatch.setenv("MMIE_TASKS_JUDGE", choice)
        signatures.append(benchmark.signature())
    assert [signature.name for signature in signatures] == ["a", "b", "a"]
