"""What a run of judging shows while it runs and at its end."""

from dataclasses import replace

import pytest
from support.judges import FunctionJudge, echo, reply

from mmie_tasks.judges.base import JudgeUnavailable
from mmie_tasks.judges.progress import Progress
from mmie_tasks.record.reply import Usage

DOWN = JudgeUnavailable("the server is down\n\nhint: start it")


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
