"""When a request, a server or a whole run is given up, and not before."""

import json
import math
import signal
import time
from collections import Counter
from contextlib import contextmanager
from itertools import chain, repeat

import pytest
from support.judge_asking import ask, judge_at
from support.judge_server import HANG, Sent, completion, error, judge_server

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.http.endpoint import FAILURES_BEFORE_PAUSE, Pace
from mmie_tasks.judges.base import JudgeMisconfigured, JudgeUnavailable
from mmie_tasks.record.reply import JudgeReply


@contextmanager
def seconds_at_most(seconds):
    """Fail instead of waiting: these runs once had no end."""

    def ring(*_):
        raise TimeoutError(f"still running after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


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


def exhausted(reset):
    return {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": reset}


def with_headers(headers):
    return Sent(content=json.dumps(completion("5")).encode(), headers=headers)


def replying(times, *, then):
    """So many replies, another response, and replies again."""
    says = chain(["5"] * times, [then], repeat("5"))
    return lambda _: next(says)


TOO_LONG = [
    pytest.param(error(429, headers={"Retry-After": "86400"}), id="retry-after"),
    pytest.param(
        error(503, headers={"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"}), id="503-date"
    ),
    pytest.param(error(429, headers=exhausted("24h0m0s")), id="quota-of-a-429"),
    pytest.param(with_headers(exhausted(f"{time.time() + 86400:.0f}")), id="unix-time"),
]


@pytest.mark.parametrize("sent", TOO_LONG)
def test_another_server_goes_on_after_too_long_a_wait(log, sent):
    with judge_server("5", delay_s=0.01) as one, judge_server("5", delay_s=0.01) as two:
        two.says(replying(5, then=sent))
        one.ready = lambda: len(two) >= min(len(one), 5)
        with seconds_at_most(20):
            replies = ask(judge_at(one.url, two.url, max_concurrency=2), 40)
        assert {type(reply) for reply in replies} == {JudgeReply}
        assert len(two) <= 7  # one may have been in flight
        (line,) = [line for line in log if "gets no more requests" in line]
        assert two.url in line


def test_a_request_that_shall_wait_goes_to_another_server():
    with judge_server("a") as one, judge_server("b") as two:
        one.fails(429, headers={"Retry-After": "600"})
        with seconds_at_most(20):
            (reply,) = ask(judge_at(one.url, two.url))
        assert (reply.text, len(one), len(two)) == ("b", 1, 1)


def test_the_retry_after_of_a_429_wins_over_the_reset_of_the_quota(server):
    server.fails(429, headers={**exhausted("24h0m0s"), "Retry-After": "0.05"})
    assert [type(reply) for reply in ask(judge_at(server.url), 3)] == [JudgeReply] * 3


@pytest.mark.parametrize("unit_s", [1.0, 0.001], ids=["seconds", "milliseconds"])
def test_a_gateway_that_writes_unix_times_costs_no_reply(server, unit_s):
    """30 requests in 0.1 s; beyond, a 429 with a right `Retry-After`. The reset is written as a
    time.
    """
    windows = Counter()

    def reply(_):
        window = int(time.time() * 10)
        windows[window] += 1
        left = max(0, 30 - windows[window])
        headers = {
            "x-ratelimit-remaining-requests": str(left),
            "x-ratelimit-reset-requests": reset_of(window),
        }
        if windows[window] > 30:
            return error(429, headers={**headers, "Retry-After": "0.1"})
        return with_headers(headers)

    def reset_of(window):
        return str(math.ceil((window + 1) / 10 / unit_s))

    server.says(reply)
    with seconds_at_most(30):
        assert {type(reply) for reply in ask(judge_at(server.url, patience=8), 80)} == {JudgeReply}


def test_a_server_that_denies_everything_is_paused_and_given_up_after_the_patience(server, log):
    server.says(error(429, code="insufficient_quota"))
    outcomes = ask(judge_at(server.url, max_concurrency=1, patience=1.0), 50)
    assert {type(outcome) for outcome in outcomes} == {JudgeMisconfigured}
    assert isinstance(outcomes[0], MmieTasksError)
    assert "hint:" in str(outcomes[0])
    assert server.times[-1] - server.times[0] < 1.5
    assert sum("denies access" in line for line in log) == 2  # when it is paused, and at the end


@pytest.mark.parametrize("status", [401, 500])
def test_what_is_wrong_is_logged_before_the_server_answers_again(server, log, status):
    server.fails(status, times=FAILURES_BEFORE_PAUSE + 2)
    assert {type(reply) for reply in ask(judge_at(server.url), 60)} == {JudgeReply}
    trouble, recovery = [line for line in log if f"{server.url} " in line and "DEBUG" not in line]
    assert f"HTTP {status}" in trouble
    assert "answers again" in recovery


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
        one.ready = lambda: len(two) >= min(len(one), 25)
        two.ready = lambda: len(one) >= min(len(two), 25)
        replies = ask(judge_at(one.url, two.url), 100)
        assert {reply.text for reply in replies} == {"a", "b"}
        assert len(one) + len(two) == 100
        assert min(len(one), len(two)) >= 25


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(error(503), id="503"),
        pytest.param(error(401), id="401"),
        pytest.param(HANG, id="hangs"),
    ],
)
def test_one_dying_server_of_two_costs_no_sample(fault):
    with judge_server("a", delay_s=0.01) as one, judge_server("b", delay_s=0.01) as two:
        two.says(lambda _: fault if len(two) > 10 else "b")
        one.ready = lambda: len(two) >= min(len(one), 11)
        replies = ask(judge_at(one.url, two.url, timeout=0.5, max_concurrency=4), 60)
        assert all(isinstance(reply, JudgeReply) for reply in replies)
        assert len(two) > 10
        assert {reply.text for reply in replies} == {"a", "b"}


def test_everything_ends_when_all_servers_deny_access_and_all_are_named(server):
    with judge_server(error(401)) as other:
        server.says(error(403))
        outcomes = ask(judge_at(server.url, other.url, patience=0.4), 50)
        assert {type(outcome) for outcome in outcomes} == {JudgeMisconfigured}
        assert server.url in str(outcomes[0])
        assert other.url in str(outcomes[0])


def test_an_unexpected_error_costs_no_other_request_its_reply(server, monkeypatch):
    from mmie_tasks.judges.openai import wire

    whole = wire.chat_body

    def odd(request, *how):
        if request.parts == ("question 1",):
            raise LookupError("odd")
        return whole(request, *how)

    monkeypatch.setattr(wire, "chat_body", odd)
    outcomes = ask(judge_at(server.url, patience=0.2), 5)
    assert [type(outcome) for outcome in outcomes].count(JudgeReply) == 4
    assert "LookupError: odd" in str(outcomes[1])


def test_a_server_that_fails_and_recovers_again_and_again_costs_one_warning(server, log):
    seen = []

    def reply(_):
        seen.append(None)
        return "5" if len(seen) % 50 >= 44 else error(503)

    server.says(reply)
    judge = judge_at(server.url, pace=Pace(base_s=0.002, cap_s=0.01, fraction=lambda: 0.1))
    assert {type(reply) for reply in ask(judge, 20)} == {JudgeReply}
    assert len(seen) > 100
    assert sum("does not answer" in line for line in log) == 1
    counts = judge.request_counts()
    assert (counts.in_flight, counts.retries) == (0, len(seen) - 20)
