from __future__ import annotations

from dataclasses import replace

import pytest
from support.judges import FunctionJudge, echo, reply

from mmie_tasks.judges.base import JudgeUnavailable, Outcome, RequestCounts
from mmie_tasks.judging.progress import Progress
from mmie_tasks.record.reply import JudgeReply, Usage


def priced(usd: float | None) -> JudgeReply:
    return replace(reply("5"), usage=Usage(input_tokens=100, output_tokens=10, cost_usd=usd))


def summary_of(*outcomes: Outcome, seconds: float = 0.0) -> str:
    """The summary of outcomes that arrived within `seconds`."""
    now = iter([0.0, 100.0])  # created at 0, entered at 100
    progress = Progress("", len(outcomes), clock=lambda: next(now, 100.0 + seconds))
    with progress:
        for outcome in outcomes:
            progress.update(outcome)
        return progress.summary()


def test_the_summary_counts_requests_failures_tokens_and_cost() -> None:
    down = JudgeUnavailable("the server is down\n\nhint: start it")
    summary = summary_of(priced(0.25), priced(0.5), replace(priced(9.0), cached=True), down, down)
    assert summary == (
        "5 requests, 1 from the cache, 2 failed, 200 tokens in, 20 tokens out, 0.7500 USD\n  2 x "
        "the server is down"
    )


def test_an_unknown_price_makes_the_total_unknown() -> None:
    assert "cost unknown" in summary_of(priced(0.25), priced(None), priced(0.5))


def test_the_rate_leaves_out_cached_replies() -> None:
    summary = summary_of(priced(0.25), priced(0.5), replace(priced(9.0), cached=True), seconds=8.0)
    assert "200 tokens in, 20 tokens out, 28 tokens/s, 0.7500 USD" in summary


@pytest.mark.parametrize(
    ("outcomes", "counts"),
    [
        pytest.param(
            [replace(priced(9.0), cached=True)],
            "1 requests, 1 from the cache",
            id="all-from-the-cache",
        ),
        pytest.param([JudgeUnavailable("down")], "1 requests, 1 failed", id="none-answered"),
    ],
)
def test_there_is_neither_a_rate_without_tokens_nor_a_zero(
    outcomes: list[Outcome], counts: str
) -> None:
    assert summary_of(*outcomes, seconds=8.0).partition("\n")[0] == counts


def test_a_free_judge_shows_no_cost() -> None:
    assert summary_of(priced(0.0), seconds=2.0).endswith(
        "100 tokens in, 10 tokens out, 55 tokens/s"
    )


def test_the_bar_shows_the_rate_and_the_time_left(capfd: pytest.CaptureFixture[str]) -> None:
    now = iter([0.0, 0.0])
    with Progress("MMIE", 4, clock=lambda: next(now, 10.0)) as progress:
        progress.update(JudgeUnavailable("down"))
        progress.update(priced(0.0))
    shown = capfd.readouterr().err
    assert "failed 1, cached 0, 11 tokens/s]" in shown
    assert "2/4 [" in shown


def test_the_bar_shows_the_forecast_of_the_cost(capfd: pytest.CaptureFixture[str]) -> None:
    cached = replace(priced(9.0), cached=True)
    with Progress("MMIE", 9) as progress:
        for outcome in (cached, cached, JudgeUnavailable("down"), priced(0.25), priced(0.75)):
            progress.update(outcome)
        summary = progress.summary()
    assert summary.endswith(", 1.0000 of about 3.0000 USD\n  1 x down")  # 4 are left, 0.50 each
    assert ", 1.0000 of about 3.0000 USD]" in capfd.readouterr().err


class BusyJudge(FunctionJudge):
    retries = 40

    def counts(self) -> RequestCounts:
        return RequestCounts(in_flight=7, retries=self.retries)


def test_the_bar_shows_the_requests_in_flight_and_those_sent_again(
    capfd: pytest.CaptureFixture[str],
) -> None:
    judge = BusyJudge(echo)
    with Progress("MMIE", 2, judge=judge) as progress:
        judge.retries += 3  # the 40 were sent again for another benchmark
        progress.update(priced(0.0))
        assert "100 tokens in, 10 tokens out, 3 sent again" in progress.summary()
    assert "failed 0, cached 0, in flight 7, 3 sent again" in capfd.readouterr().err


@pytest.mark.parametrize(("rank", "bars"), [("0", 1), ("1", 0)])
def test_rank_0_shows_the_bar_and_every_rank_logs_its_summary(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    logs: list[str],
    rank: str,
    bars: int,
) -> None:
    monkeypatch.setenv("RANK", rank)
    with Progress("MIA-Bench", 1) as progress:
        progress.update(priced(0.25))
    shown = capfd.readouterr().err
    assert min(1, shown.count("Judging MIA-Bench: 100%")) == bars
    assert logs[0].startswith("Judged MIA-Bench: 1 requests")


def test_two_bars_at_once_have_no_codes_outside_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Progress("MMIE, judge 1", 1), Progress("MMIE, judge 2", 1) as second:
        second.update(JudgeUnavailable("gone"))
    written = capsys.readouterr().err
    assert "Judging MMIE, judge 2: 100%" in written
    assert "\x1b" not in written
