"""What a run of judging shows while it runs and at its end."""

from dataclasses import replace

import pytest
from support.judges import FunctionJudge, echo, reply

from mmie_tasks.judges.base import JudgeUnavailable, RequestCounts
from mmie_tasks.judges.progress import Progress
from mmie_tasks.record.reply import Usage

DOWN = JudgeUnavailable("the server is down\n\nhint: start it")


class BusyJudge(FunctionJudge):
    retries = 40

    def counts(self):
        return RequestCounts(in_flight=7, retries=self.retries)


def priced(usd, *, cached=False):
    usage = Usage(input_tokens=100, output_tokens=10, cost_usd=usd)
    return replace(reply("5"), usage=usage, cached=cached)


ALL = "5 requests, 1 from the cache, 2 failed, 200 tokens in, 20 tokens out, 0.7500 USD"
FEW = [priced(0.25), priced(0.5), priced(9.0, cached=True), DOWN, DOWN]


@pytest.mark.parametrize(
    ("outcomes", "summary"),
    [
        (FEW, f"{ALL}\n  2 x the server is down"),
        ([priced(0.25), priced(None)], "2 requests, 200 tokens in, 20 tokens out, cost unknown"),
        ([priced(0.0)], "1 requests, 100 tokens in, 10 tokens out"),
        ([priced(9.0, cached=True)], "1 requests, 1 from the cache"),
    ],
)
def test_the_summary_has_the_counts_above_0_and_the_cost(outcomes, summary):
    with Progress("", len(outcomes), FunctionJudge(echo)) as progress:
        for outcome in outcomes:
            progress.update(outcome)
    assert progress.summary() == summary


@pytest.mark.parametrize("rank", ["0", "1"])
def test_rank_0_shows_the_bar_with_the_forecast_of_the_cost_and_every_rank_its_summary(
    monkeypatch, capfd, logs, rank
):
    monkeypatch.setenv("RANK", rank)
    judge, cached = BusyJudge(echo), priced(9.0, cached=True)
    with Progress("MMIE", 9, judge) as progress:
        judge.retries += 3  # the 40 were sent again for another benchmark
        for outcome in (cached, cached, DOWN, priced(0.25), priced(0.75)):
            progress.update(outcome)
    shown = capfd.readouterr().err  # 4 are left, 0.50 each
    numbers = "1 failed, 2 from the cache, 7 in flight, 3 sent again, 1.0000 of about 3.0000 USD]"
    assert (numbers in shown, "5/9 [" in shown) == (rank == "0", rank == "0")
    assert logs[0].startswith("Judged MMIE: 5 requests")
