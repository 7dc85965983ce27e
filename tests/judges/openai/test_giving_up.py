"""When a request, a server or a whole run is given up, and not before."""

import anyio
import pytest
from support.judge_asking import ask, judge_at
from support.loopback import error

from mmie_tasks.http.endpoint import FAILURES_BEFORE_PAUSE
from mmie_tasks.judges.base import JudgeMisconfigured, JudgeUnavailable
from mmie_tasks.record.reply import JudgeReply


def test_a_missing_server_is_given_up_with_the_reason(server):
    server.stop()
    (unavailable,) = ask(judge_at(server.url, patience=0.2))
    assert isinstance(unavailable, JudgeUnavailable)
    assert "no connection" in str(unavailable)
    assert server.url in str(unavailable)


def test_a_slow_reply_is_waited_for_although_another_request_has_failed(server):
    server.fails(503)
    server.delay_s = 0.4
    replies = ask(judge_at(server.url, patience=0.2), 4)
    assert [type(reply) for reply in replies] == [JudgeReply] * 4


def test_the_retry_after_of_a_429_wins_over_the_reset_of_the_quota(server):
    quota = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "24h0m0s"}
    server.fails(429, headers={**quota, "Retry-After": "0.05"})
    assert [type(reply) for reply in ask(judge_at(server.url), 3)] == [JudgeReply] * 3


def test_a_server_that_fails_often_in_a_row_costs_two_lines_and_no_reply(server, log):
    server.fails(500, times=FAILURES_BEFORE_PAUSE + 2)
    assert {type(reply) for reply in ask(judge_at(server.url), 40)} == {JudgeReply}
    trouble, end = [line for line in log if f"{server.url} " in line and "DEBUG" not in line]
    assert "does not answer: HTTP 500" in trouble
    assert "answers again" in end


def test_a_revoked_key_keeps_the_replies_so_far(server):
    server.says(lambda _: "5" if len(server) <= 25 else error(401))
    outcomes = ask(judge_at(server.url, max_concurrency=1, patience=0.5), 40)
    kinds = [type(outcome) for outcome in outcomes]
    assert kinds == [JudgeReply] * 25 + [JudgeMisconfigured] * 15


def test_nothing_is_sent_without_a_required_key():
    (refused,) = ask(judge_at("https://api.openai.com/v1", key=None))
    assert isinstance(refused, JudgeMisconfigured)
    assert "OPENAI_API_KEY" in str(refused)


def test_an_error_of_our_own_costs_no_other_request_its_reply_and_is_not_tried_again(
    server, monkeypatch, logs
):
    from mmie_tasks.judges.openai import chat_server

    whole, raised, key = chat_server.chat_body, [], "sk-of-nobody"

    def odd(request, *how):
        if request.parts == ("question 1",):
            raised.append(key)
            raise LookupError("odd" if key else "")
        return whole(request, *how)

    monkeypatch.setattr(chat_server, "chat_body", odd)
    outcomes = ask(judge_at(server.url, patience=0.2), 5)
    assert [type(outcome) for outcome in outcomes].count(JudgeReply) == 4
    assert isinstance(outcomes[1], JudgeUnavailable)
    assert "LookupError: odd" in str(outcomes[1])
    assert len(raised) == 1
    assert "LookupError: odd" in "".join(logs)
    assert key not in "".join(logs)  # loguru's own traceback has the values of variables


@pytest.mark.parametrize("foreign", [anyio.EndOfStream(), RuntimeError("the handler is closed")])
def test_an_error_that_the_sdk_lets_through_is_tried_again(server, monkeypatch, foreign):
    from openai import AsyncAPIResponse

    whole, raised = AsyncAPIResponse.iter_bytes, []

    async def odd(response, *how):
        if not raised:
            raised.append(foreign)
            raise foreign
        async for chunk in whole(response, *how):
            yield chunk

    monkeypatch.setattr(AsyncAPIResponse, "iter_bytes", odd)
    outcomes = ask(judge_at(server.url), 3)
    assert {type(outcome) for outcome in outcomes} == {JudgeReply}
    assert raised == [foreign]
