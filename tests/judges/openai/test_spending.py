import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from support.judge_asking import ask, judge_at, open_openai, requests
from support.judge_server import completion
from support.virtual_time import simulate

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.http.budget import Budget
from mmie_tasks.http.sender import Undelivered
from mmie_tasks.judges.base import JudgeRefused, JudgeRequest, OutOfBudget
from mmie_tasks.record.reply import JudgeReply

# The server says 100 tokens in and 10 out: at this price, one dollar a reply.
DOLLAR = {"price_in": 10_000.0, "price_out": 0.0}


def kinds(outcomes):
    return [type(outcome) for outcome in outcomes]


def test_sending_stops_before_the_limit_is_exceeded(server):
    server.delay_s = 0.02
    judge = judge_at(server.url, **DOLLAR, max_cost=10.5)
    outcomes = ask(judge, 50)
    assert (kinds(outcomes).count(JudgeReply), kinds(outcomes).count(OutOfBudget)) == (10, 40)
    assert len(server) == 10


def test_a_reply_without_text_is_paid_for(server):
    server.says(completion(""))
    judge = judge_at(server.url, **DOLLAR, max_cost=2.0)
    assert Counter(kinds(ask(judge, 3))) == {JudgeRefused: 2, OutOfBudget: 1}


@pytest.mark.parametrize(
    "usage",
    [
        pytest.param({}, id="none"),
        pytest.param({"usage": {"prompt_tokens": 10**30, "completion_tokens": 1}}, id="absurd"),
    ],
)
def test_the_cost_is_overestimated_if_the_server_reports_no_tokens(server, tmp_path, usage):
    server.says({"choices": [{"message": {"content": "5"}}], **usage})
    image = tmp_path / "a.png"
    image.write_bytes(b"x")
    sent = [JudgeRequest(parts=("abc", image), max_tokens=1000)] * 3
    judge = judge_at(server.url, price_in=0.0, price_out=1000.0, max_cost=2.0)
    assert kinds(ask(judge, sent)).count(JudgeReply) == 2


@pytest.mark.parametrize(
    ("prices", "words"),
    [
        pytest.param({}, "`price_in` and `price_out`", id="none"),
        pytest.param({"price_out": 10.0}, "`price_in`", id="one"),
    ],
)
def test_a_limit_without_prices_is_rejected_and_names_the_options(prices, words):
    with pytest.raises(SettingWrong, match=f"`max_cost` needs {words}\\.") as raised:
        open_openai({}, model="gpt-4o", max_cost=1.0, **prices)
    assert "price_in=2.5,price_out=10" in str(raised.value)


def test_without_prices_the_cost_of_a_reply_is_unknown(server):
    (reply,) = ask(judge_at(server.url, model="gpt-4o"))
    assert reply.usage.cost_usd is None


@pytest.mark.parametrize(("processes", "share"), [("4", 2.5), ("", 10.0)])
def test_the_processes_of_a_run_share_the_limit(processes, share):
    environment = {"WORLD_SIZE": processes}
    judge = open_openai(environment, model="gpt-4o", **DOLLAR, max_cost=10.0)
    assert judge.settings.max_cost_usd == share


@pytest.mark.parametrize(
    ("paid", "estimate", "expected"),
    [
        pytest.param([], 0.0, 1, id="one-until-a-cost-is-known"),
        pytest.param([], 9.0, 1, id="one-although-the-estimate-is-too-much"),
        pytest.param([0.25] * 2, 0.0, 3, id="at-most-one-more-than-were-paid"),
        pytest.param([0.25] * 20, 0.0, 20, id="as-many-as-fit"),
        pytest.param([0.25] * 20, 1.0, 5, id="as-many-as-fit-by-the-estimate"),
        pytest.param([0.25] * 36, 1.5, 1, id="alone-where-the-estimate-does-not-fit"),
        pytest.param([0.25] * 40, 1.0, 0, id="all-is-spent"),
        pytest.param([2**-7] * 256 + [0.5], 0.1, 15, id="the-largest-cost-counts"),
        pytest.param([2**-7] * 256 + [5.0], 0.1, 0, id="one-like-the-largest-does-not-fit"),
    ],
)
def test_requests_in_flight_count_with_the_largest_cost_and_at_least_with_the_estimate(
    paid, estimate, expected
):
    budget = Budget(max_cost_usd=10.0)
    budget.expect(estimate)
    for cost in paid:
        budget.pay(cost)
    allowed = 0
    while budget.allows(allowed):
        allowed += 1
    assert allowed == expected


def test_a_price_that_is_known_and_too_much_allows_no_request():
    assert not Budget(max_cost_usd=0.5, price_usd=1.0).allows(0)
    assert Budget(max_cost_usd=0.5, price_usd=0.5).allows(0)


@pytest.mark.parametrize("is_estimated", [True, False], ids=["estimated", "estimated-too-low"])
def test_with_costs_that_vary_a_limit_is_used_up_and_kept(is_estimated):
    """Lognormal costs; the limit is 300 of their means. Costs end at ten means: `max_tokens`."""
    shares, sigma = [], 1.0
    for seed in range(5):
        mean = math.exp(sigma**2 / 2)
        costs = [
            min(cost, 10 * mean)
            for cost in np.random.default_rng(seed).lognormal(0, sigma, 600).tolist()
        ]
        budget = Budget(max_cost_usd=300 * mean)
        budget.expect(10 * mean if is_estimated else mean / 10)
        _, results = simulate(len(costs), budget=budget, cost_usd=costs.__getitem__)
        assert {type(result) for result in results} == {str, Undelivered}
        shares.append(budget.spent_usd / budget.max_cost_usd)
    assert min(shares) > 0.95
    assert max(shares) <= 1.01


@pytest.mark.parametrize(
    ("max_cost_usd", "most_usd"),
    [
        pytest.param(1.45, 1.45, id="those-in-flight-fit"),
        pytest.param(0.8, 0.4 + 20 * 0.05, id="those-in-flight-are-too-much"),
    ],
)
def test_when_replies_suddenly_cost_50_times_more_only_what_is_in_flight_exceeds_the_limit(
    max_cost_usd, most_usd
):
    costs = [0.001] * 400 + [0.05] * 3000
    budget = Budget(max_cost_usd=max_cost_usd)
    server, _ = simulate(len(costs), budget=budget, cost_usd=costs.__getitem__, max_concurrency=20)
    assert server.most_at_once == 20
    assert 0.9 * max_cost_usd < budget.spent_usd <= most_usd + 1e-9


@pytest.mark.parametrize(("price_out", "replies"), [(10.0, 11), (0.0, 16)])
def test_a_small_limit_is_used_up_by_replies_much_shorter_than_allowed(server, price_out, replies):
    """A reply of 2,000 tokens would cost more than the limit; the server's cost 0.00035 or 0.00025
    US dollars.
    """
    judge = judge_at(server.url, price_in=2.5, price_out=price_out, max_cost=0.0041)
    outcomes = ask(judge, [replace(request, max_tokens=2000) for request in requests(50)])
    assert kinds(outcomes).count(JudgeReply) == replies
