"""Judging that is stopped, and judges whose memory cannot be freed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future

import pytest
from support.judge_server import Body, JudgeServer
from support.judges import FunctionJudge, echo
from support.loopback import HANG, Sent

from mmie_tasks.core.choice import Choice
from mmie_tasks.core.verdict import Scored, Verdicts
from mmie_tasks.judges import session
from mmie_tasks.judges.base import JudgeRequest, Outcome
from mmie_tasks.judges.batch import GradedRequest, PendingSample
from mmie_tasks.judges.choice import parse_flags
from mmie_tasks.judges.judge import judge
from mmie_tasks.judges.session import BenchmarkJudge, JudgingSession
from mmie_tasks.record.reply import JudgeResult

SILENT_S = 60.0  # a judge's timeout; each test ends long before


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer("3") as server:
        yield server


def grade(result: JudgeResult) -> Verdicts:
    verdict = result.verdict(lambda text: Scored(float(text)))
    return Verdicts(official=verdict, robust=verdict)


def submit(benchmark: BenchmarkJudge, count: int) -> Callable[[], object]:
    """Let samples wait for their judge; the function reads a row, and so judges all of them."""
    rows: list[object] = []
    for number in range(count):
        request = GradedRequest(
            request=JudgeRequest(parts=(str(number),), max_tokens=9), grade=grade
        )
        sample = PendingSample(request=request, make_rows=lambda _: {}, metrics=("points",))
        rows.append(benchmark.submit(sample)["points"])
    return lambda: bool(rows[0])


def ends_within(seconds: float, work: Callable[[], object]) -> list[BaseException]:
    """What some work in another thread raises; it ends in time, or the test fails."""
    raised: list[BaseException] = []

    def collect() -> None:
        try:
            work()
        except KeyboardInterrupt as error:
            raised.append(error)

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive()
    return raised


@pytest.mark.parametrize("judges", [1, 2])
def test_stopping_ends_judges_that_wait_for_a_silent_server(
    server: JudgeServer, judges: int
) -> None:
    text = f"base_url={server.url},timeout={SILENT_S},max_concurrency=1"
    chosen = parse_flags([f"openai:m{number},{text}" for number in range(judges)], ())
    benchmark = BenchmarkJudge("mmie", "openai:m", title="MMIE")
    benchmark.session = running = JudgingSession(chosen)
    judge = submit(benchmark, 5)
    told: list[str] = []

    def says(_body: Body) -> str | Sent:
        if len(server) == 3:
            threading.Timer(0.1, lambda: told.append(running.stop())).start()
        return "3" if len(server) <= 2 else HANG

    server.says(says)
    ends_within(SILENT_S / 2, judge)
    assert told == [f"2 of {5 * judges} replies are stored"]


def test_an_interrupt_does_not_wait_for_a_judge_that_cannot_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released = threading.Event()

    class Deaf(FunctionJudge):
        def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
            assert released.wait(SILENT_S)
            return super().ask(requests)

    monkeypatch.setattr(session, "STOP_S", 0.1)
    monkeypatch.setattr(session, "open_judge", lambda *_: Deaf(echo))
    monkeypatch.setattr(Future, "result", interrupted)
    benchmark = BenchmarkJudge("mmie", "openai:m", title="MMIE")
    judge = submit(benchmark, 2)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        judge()
    assert time.monotonic() - began < SILENT_S / 2
    released.set()


def interrupted(*_: object) -> None:
    """In the place of waiting: Ctrl-C."""
    raise KeyboardInterrupt


class Stuck(FunctionJudge):
    """A judge in this process whose device is out of order."""

    in_process = True

    def close(self) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")


def test_a_judge_that_cannot_be_closed_costs_a_warning_and_no_reply(
    monkeypatch: pytest.MonkeyPatch, logs: list[str]
) -> None:
    closed: list[str] = []

    class Closable(Stuck):
        def close(self) -> None:
            closed.append("closed")

    judges = {"stuck": Stuck(echo), "closable": Closable(echo)}
    monkeypatch.setattr(session, "open_judge", lambda choice, _: judges[choice.name])
    running = JudgingSession()
    for name in judges:
        running.open(Choice(name=name))
    running.close()
    assert closed == ["closed"]
    assert any("illegal memory access" in line for line in logs)
    (result,) = judge("stuck", "3")
    assert result.last_text == "3"
