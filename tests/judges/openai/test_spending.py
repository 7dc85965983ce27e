from collections import Counter

import pytest
from support.judge_asking import ask, judge_at
from support.judge_server import Sent, completion

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.http.rate_limit import Budget
from mmie_tasks.judges.base import JudgeRefused, JudgeReply, JudgeRequest, OutOfBudget
from mmie_tasks.judges.openai import open_judge

# The server says 100 tokens in and 10 out: at this price, one dollar a reply.
DOLLAR = {"price": "10000/0"}


def kinds(outcomes):
    return [type(outcome) for outcome in outcomes]


def test_sending_stops_before_the_limit_is_exceeded(server):
    server.delay_s = 0.02
    judge = judge_at(server.url, **DOLLAR, max_cost=10.5)
    outcomes = ask(judge, 50)
    assert (kinds(outcomes).count(JudgeReply), kinds(outcomes).count(OutOfBudget)) == (10, 40)
    assert len(server) == 10
    assert judge.spent_usd == pytest.approx(10.0)


def test_spending_counts_over_several_calls(server):
    judge = judge_at(server.url, **DOLLAR, max_cost=3.0)
    assert kinds(ask(judge, 2)) == [JudgeReply] * 2
    assert sorted(map(str, kinds(ask(judge, 2)))) == sorted(map(str, [JudgeReply, OutOfBudget]))


def test_a_failed_attempt_costs_nothing(server):
    server.fails(503, times=3)
    judge = judge_at(server.url, **DOLLAR, max_cost=2.0)
    assert kinds(ask(judge, 2)) == [JudgeReply] * 2


def test_a_reply_without_text_is_paid_for(server):
    server.says(completion(""))
    judge = judge_at(server.url, **DOLLAR, max_cost=2.0)
    assert Counter(kinds(ask(judge, 3))) == {JudgeRefused: 2, OutOfBudget: 1}


def test_the_cost_is_overestimated_if_the_server_reports_no_tokens(server, tmp_path):
    server.says({"choices": [{"message": {"content": "5"}}]})
    image = tmp_path / "a.png"
    image.write_bytes(b"x")
    requests = [JudgeRequest(parts=("abc", image), max_tokens=1000)] * 3
    judge = judge_at(server.url, price="0/1000", max_cost=2.0)
    assert kinds(ask(judge, requests)).count(JudgeReply) == 2


def test_without_a_limit_everything_is_sent(server):
    assert kinds(ask(judge_at(server.url, **DOLLAR), 20)) == [JudgeReply] * 20


def test_a_limit_without_a_price_is_rejected_and_the_hint_names_the_option():
    with pytest.raises(SettingWrong, match="`price=IN/OUT`"):
        open_judge(environment={}, base_url="http://127.0.0.1:1", model="mine", max_cost=1.0)


@pytest.mark.parametrize(("processes", "share"), [("4", 2.5), ("", 10.0), ("x", 10.0), ("0", 10.0)])
def test_the_processes_of_a_run_share_the_limit(processes, share):
    environment = {"WORLD_SIZE": processes}
    judge = open_judge(environment=environment, model="gpt-4o", max_cost=10.0)
    assert f"max_cost_usd={share}" in repr(judge)


def test_requests_are_sent_one_at_a_time_until_a_cost_is_known():
    budget = Budget(max_cost_usd=1.0)
    assert (budget.allows(0), budget.allows(1)) == (True, False)
    budget.pay(0.25)
    assert [budget.allows(in_flight) for in_flight in (0, 2, 3)] == [True, True, False]


def test_a_filtered_request_costs_nothing(server):
    server.says(Sent(content=b'{"error": {"code": "content_filter"}}', status=400))
    judge = judge_at(server.url, **DOLLAR, max_cost=1.0)
    assert kinds(ask(judge, 5)) == [JudgeRefused] * 5
