"""What belongs to the judging session of one evaluation, and the session outside of any."""

import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from types import SimpleNamespace

import pytest
from support.judge_server import JudgeServer
from support.judged_samples import submit
from support.judges import FunctionJudge, echo, reply, text_of
from support.loopback import HANG

import mmie_tasks
from mmie_tasks.judges import registry, session
from mmie_tasks.judges.base import JudgeMisconfigured, JudgeOptions
from mmie_tasks.judges.choice import parse_flags, parse_judges
from mmie_tasks.judges.session import BenchmarkJudge, JudgingSession, judging_in


@pytest.fixture
def made(monkeypatch):
    """Every judge is one of another package, which replies with its key; the keys of the judges
    that were opened, their checks and their requests, in order.
    """
    made = SimpleNamespace(keys=[], checks=[], texts=[])

    class KeyJudge(FunctionJudge):
        class Options(JudgeOptions):
            model: str = "right"

        def __init__(self, options, environment):
            key = environment.get("THEIR_KEY", "none")
            made.keys.append(key)
            super().__init__(lambda _: reply(key))
            self.model = options.model
            self.signature = {"judge": "openai", "model": options.model}

        def check(self, max_images=0):
            made.checks.append(self.model)
            if self.model == "wrong":
                raise JudgeMisconfigured("There is no model `wrong`.", hint="take another")

        def ask(self, requests):
            made.texts += map(text_of, requests)
            return super().ask(requests)

    monkeypatch.setattr(registry, "judge_class", lambda _: KeyJudge)
    return made


def test_benchmarks_share_a_judge_and_its_check_unless_it_fails(made, monkeypatch):
    first, second = BenchmarkJudge("first", "theirs"), BenchmarkJudge("second", "theirs")
    with judging_in(JudgingSession(), [first, second]):
        first.check()
        second.check()
        before = first.judge()
        monkeypatch.setenv("THEIR_KEY", "other")  # in a run, a judge has one key and budget
        assert first.judge() is second.judge() is before
    monkeypatch.setattr(type(before), "is_cached", False)  # a recording may have one for each
    with judging_in(JudgingSession(), [first, second]):
        assert first.judge() is first.judge() is not second.judge()
    for _ in range(2):
        with pytest.raises(JudgeMisconfigured):
            BenchmarkJudge("first", "theirs:wrong").check()
    assert made.checks == ["right", "wrong", "wrong"]


@pytest.mark.usefixtures("made")
def test_the_choice_of_a_session_counts_until_the_session_ends():
    judge = BenchmarkJudge("first", "openai:right")
    with judging_in(JudgingSession(parse_judges(["openai:launched"], "here")), [judge]):
        assert str(judge.signature()) == "judge:openai|model:launched|paper_judge:no"
    assert str(judge.signature()) == "judge:openai|model:right|paper_judge:yes"


def test_rows_that_are_read_late_are_judged_in_the_session_that_they_are_of(made):
    benchmark = BenchmarkJudge("first", "theirs")
    sessions = {"their own": list[object](), "another": list[object]()}
    running = {name: JudgingSession(on_outcome=seen.append) for name, seen in sessions.items()}
    with judging_in(running["their own"], [benchmark]):
        row = submit(benchmark, "x")
    with judging_in(running["another"], [benchmark]):
        assert dict(row)
    assert {name: len(seen) for name, seen in sessions.items()} == {"their own": 1, "another": 0}
    with judging_in(JudgingSession(), [benchmark]):
        submit(benchmark, "of an evaluation that died")
    with judging_in(JudgingSession(), [benchmark]):
        assert dict(submit(benchmark, "of the next"))
    assert made.texts == ["x", "of the next"]


def test_without_a_run_a_judge_has_the_key_that_is_set_when_it_is_asked(made, monkeypatch):
    def ask():
        (result,) = mmie_tasks.judge("theirs", "x", cache="off")
        return result.last_text

    replies = [ask()]
    for key in ("first", "second"):
        monkeypatch.setenv("THEIR_KEY", key)
        replies += [ask(), ask()]
    assert replies == ["none", "first", "first", "second", "second"]
    assert made.keys == ["none", "first", "second"]


# Judging that is stopped, and judges whose memory cannot be freed

SILENT_S = 60.0  # a judge's timeout; each test ends long before


@pytest.mark.parametrize("judges", [1, 2])
def test_stopping_ends_judges_that_wait_for_a_silent_server(judges):
    benchmark, told = BenchmarkJudge("mmie", "openai:m", title="MMIE"), []
    with JudgeServer() as server:
        text = f"base_url={server.url},timeout={SILENT_S},max_concurrency=1"
        chosen = parse_flags([f"openai:m{number},{text}" for number in range(judges)], ())
        benchmark.session = running = JudgingSession(chosen)
        rows = [submit(benchmark, str(n)) for n in range(5)]

        def says(_body):
            if len(server) == 3:
                threading.Timer(0.1, lambda: told.append(running.stop())).start()
            return "3" if len(server) <= 2 else HANG

        def read():
            with suppress(KeyboardInterrupt):
                dict(rows[0])

        server.says(says)
        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        thread.join(SILENT_S / 2)
    assert not thread.is_alive()
    assert told == [f"2 of {5 * judges} replies are stored"]


def interrupted(*_):
    """In the place of waiting: Ctrl-C."""
    raise KeyboardInterrupt


def test_an_interrupt_does_not_wait_for_a_judge_that_cannot_be_stopped(monkeypatch):
    released = threading.Event()

    class Deaf(FunctionJudge):
        def ask(self, requests):
            assert released.wait(SILENT_S)
            return super().ask(requests)

    monkeypatch.setattr(session, "STOP_S", 0.1)
    monkeypatch.setattr(session, "open_judge", lambda *_: Deaf(echo))
    monkeypatch.setattr(Future, "result", interrupted)
    row = submit(BenchmarkJudge("mmie", "openai:m", title="MMIE"), "2")
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        dict(row)
    assert time.monotonic() - began < SILENT_S / 2
    released.set()
