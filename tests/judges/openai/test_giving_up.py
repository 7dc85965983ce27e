"""When a request, a server or a whole run is given up, and not before."""

from itertools import chain, repeat

import anyio
import pytest
from support.judge_asking import ask, judge_at
from support.judge_server import HANG, error, judge_server

from mmie_tasks.core.errors import MmieTasksError
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


def test_another_server_goes_on_after_too_long_a_wait(log):
    with judge_server("5") as one, judge_server("5") as two:
        says = chain(["5"] * 5, [error(429, headers={"Retry-After": "86400"})], repeat("5"))
        two.says(lambda _: next(says))
        one.ready = lambda: len(two) >= min(len(one), 6)
        replies = ask(judge_at(one.url, two.url, max_concurrency=2), 20)
        assert {type(reply) for reply in replies} == {JudgeReply}
        assert len(two) <= 7  # one may have been in flight
        (line,) = [line for line in log if "a wait until" in line]
        assert two.url in line


def test_the_reason_for_giving_up_names_every_server_that_demands_too_long_a_wait():
    with judge_server() as one, judge_server() as two:
        one.says(error(429, headers={"Retry-After": "3600"}))
        two.says(error(503, headers={"Retry-After": "86400"}))
        (unavailable,) = ask(judge_at(one.url, two.url))
        reason = str(unavailable)
        assert f"{one.url}: HTTP 429" in reason
        assert f"{two.url}: HTTP 503" in reason
        assert reason.count("a wait until") == 2


def test_a_request_that_shall_wait_goes_to_another_server():
    with judge_server("a") as one, judge_server("b") as two:
        one.fails(429, headers={"Retry-After": "600"})
        (reply,) = ask(judge_at(one.url, two.url))
        assert (reply.text, len(one), len(two)) == ("b", 1, 1)


def test_the_retry_after_of_a_429_wins_over_the_reset_of_the_quota(server):
    quota = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "24h0m0s"}
    server.fails(429, headers={**quota, "Retry-After": "0.05"})
    assert [type(reply) for reply in ask(judge_at(server.url), 3)] == [JudgeReply] * 3


def test_a_server_that_denies_everything_is_paused_and_given_up_after_the_patience(server, log):
    server.says(error(429, code="insufficient_quota"))
    outcomes = ask(judge_at(server.url, max_concurrency=1, patience=0.5), 50)
    assert {type(outcome) for outcome in outcomes} == {JudgeMisconfigured}
    assert isinstance(outcomes[0], MmieTasksError)
    assert sum("denies access" in line for line in log) == 2  # when it is paused, and at the end


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


def test_several_servers_share_the_work():
    with judge_server("a") as one, judge_server("b") as two:
        # Neither answers while it is ahead of the other: on a busy machine one might do it all.
        one.ready = lambda: len(two) >= min(len(one), 10)
        two.ready = lambda: len(one) >= min(len(two), 10)
        ask(judge_at(one.url, two.url), 40)
        assert len(one) + len(two) == 40
        assert min(len(one), len(two)) >= 10


@pytest.mark.parametrize(
    "fault", [pytest.param(error(401), id="401"), pytest.param(HANG, id="hangs")]
)
def test_one_dying_server_of_two_costs_no_sample(fault):
    with judge_server("a") as one, judge_server("b") as two:
        two.says(lambda _: fault if len(two) > 5 else "b")
        one.ready = lambda: len(two) >= min(len(one), 6)
        replies = ask(judge_at(one.url, two.url, timeout=0.5, max_concurrency=4), 30)
        assert all(isinstance(reply, JudgeReply) for reply in replies)
        assert {reply.text for reply in replies} == {"a", "b"}


def test_everything_ends_when_all_servers_deny_access_and_all_are_named(server):
    with judge_server(error(401)) as other:
        server.says(error(403))
        outcomes = ask(judge_at(server.url, other.url, patience=0.4), 50)
        assert {type(outcome) for outcome in outcomes} == {JudgeMisconfigured}
        assert server.url in str(outcomes[0])
        assert other.url in str(outcomes[0])


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
