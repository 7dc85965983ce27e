"""One server's concurrency, pauses and waiting times, by events at given times."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.http.endpoint import FAILURES_BEFORE_PAUSE, START, Endpoint
from mmie_tasks.http.pace import Pace


def endpoint(ceiling=100):
    pace = Pace(base_s=1.0, cap_s=8.0, no_growth_s=5.0, fraction=lambda: 1.0)
    return Endpoint(send=None, ceiling=ceiling, pace=pace)


def send(server):
    """Send a request; returns what the server was doing then."""
    server.in_flight += 1
    return {"others": server.in_flight - 1, "served": server.served}


def throttle(server, sent, wait_s=None):
    server.in_flight -= 1
    server.throttle(0.0, wait_s, **sent)


def fill(server, capacity, now=0.0):
    """Send as many as allowed to a server that turns away what is beyond its capacity."""
    sent = []
    while server.free_at() <= now:
        sent.append(send(server))
    for one in sent[capacity:]:
        throttle(server, one)


def answer_all(server, now=0.0):
    while server.in_flight:
        server.in_flight -= 1
        server.grow(now)


def test_the_limit_starts_low_and_doubles_up_to_the_ceiling():
    server, seen = endpoint(ceiling=60), []
    for _ in range(4):
        seen.append(server.limit)
        fill(server, capacity=1000)
        answer_all(server)
    assert seen == [START, 2 * START, 60, 60]


@pytest.mark.parametrize("capacity", [1, 20, 63])
def test_the_limit_settles_at_the_servers_capacity(capacity):
    server = endpoint()
    for _ in range(5):
        fill(server, capacity)
        answer_all(server)
    assert server.limit == capacity


def test_after_a_429_the_limit_grows_by_one_per_round_after_a_pause():
    server = endpoint()
    for now, limit in ((0.0, 4), (4.9, 4), (5.0, 4), (5.0, 5)):
        fill(server, capacity=4 if now == 0 else 100, now=now)
        answer_all(server, now)
        assert server.limit == limit


def test_a_wave_of_replies_before_a_429_does_not_lower_the_limit():
    server = endpoint()
    sent = [send(server) for _ in range(START)]
    for _ in range(START - 1):
        server.in_flight -= 1
        server.grow(0.0)
    throttle(server, sent[-1])
    assert server.limit == START - 1


def test_another_error_only_cancels_the_growth_of_one_reply():
    server = endpoint()
    fill(server, capacity=100)
    answer_all(server)
    server.fail(0.0, 0.0)
    server.fail(0.0, 0.0)
    assert server.limit == 2 * START
    fill(server, capacity=100)
    answer_all(server)
    assert server.limit == 4 * START - 2


@pytest.mark.parametrize("period", [2, 3, 4])  # 50, 67 and 75 % of the requests fail
def test_a_server_that_fails_as_often_before_the_limit_grows_gets_more_requests_at_once(period):
    server = endpoint(ceiling=1000)
    for number in range(period * 100):
        if number % period:
            server.fail(0.0, 0.0)
        else:
            server.reply(0.0)
            server.grow(0.0)
    assert server.limit >= START + 70


@pytest.mark.parametrize("failures", [1, 10], ids=["half", "many-in-a-row"])
def test_a_server_that_begins_to_fail_gets_no_more_requests_at_once(failures):
    server = endpoint()
    fill(server, capacity=100)
    answer_all(server)
    for _ in range(100):
        for _ in range(failures):
            server.fail(0.0, 0.0)
        server.reply(0.0)
        server.grow(0.0)
    assert server.limit == 2 * START


def test_a_server_without_any_capacity_pauses_everything():
    server = endpoint()
    throttle(server, send(server), wait_s=7.0)
    assert server.free_at() == 7.0


@given(st.lists(st.sampled_from(["sent", "grow", "throttle", "fail"])), st.integers(1, 50))
def test_the_limit_stays_between_one_and_the_ceiling(events, ceiling):
    server, sent = endpoint(ceiling), []
    for now, event in enumerate(events):
        if event == "sent":
            if server.free_at() <= now:
                sent.append(send(server))
        elif server.in_flight:
            if event == "throttle":
                throttle(server, sent.pop())
            else:
                server.in_flight -= 1
                _ = server.grow(now) if event == "grow" else server.fail(now, now)
        assert 1 <= server.limit <= ceiling


def fail(server, now, times=1, denial=None):
    return [server.fail(now, now, denial) for _ in range(times)]


@pytest.mark.parametrize("denial", [None, "HTTP 401"])
def test_fewer_failures_or_denials_never_begin_a_cooldown(denial):
    server = endpoint()
    for _ in range(20):
        assert not any(fail(server, 1.0, FAILURES_BEFORE_PAUSE - 1, denial))
        server.reply(1.0)
    assert (server.on_probation, server.free_at()) == (False, -inf)


@pytest.mark.parametrize("denial", [None, "HTTP 401"])
def test_more_failures_in_a_row_begin_pauses_that_grow_up_to_the_cap(denial):
    server, now, rests = endpoint(), 1.0, []
    assert fail(server, now, FAILURES_BEFORE_PAUSE, denial)[-1]
    assert (server.on_probation, server.limit) == (True, 1)
    for _ in range(5):
        rests.append(server.free_at() - now)
        now = server.free_at()
        assert fail(server, now, 1, denial) == [False]  # only the first is reported
    assert rests == [1.0, 2.0, 4.0, 8.0, 8.0]


def test_requests_sent_before_a_cooldown_do_not_extend_it():
    server = endpoint()
    fail(server, 5.0, FAILURES_BEFORE_PAUSE)
    assert not server.fail(5.5, 4.0)
    assert not server.fail(5.5, 4.0, "HTTP 401")
    assert (server.free_at(), server.denial) == (6.0, None)


def test_the_last_failure_says_whether_access_is_denied():
    server = endpoint()
    for events, expected in (("dd", "HTTP 401"), ("f", None), ("dr", None)):
        for event in events:
            if event == "r":
                server.reply(1.0)
            else:
                fail(server, 1.0, 1, "HTTP 401" if event == "d" else None)
        assert server.denial == expected


def test_a_reply_ends_the_probation():
    server = endpoint()
    fail(server, 1.0, FAILURES_BEFORE_PAUSE)
    server.reply(2.0)
    assert (server.on_probation, server.limit, server.replied_at) == (False, START, 2.0)


@given(st.integers(1, 10_000), st.floats(0, 1), st.floats(0, 30))
def test_a_wait_is_never_longer_than_the_cap(tries, fraction, cap_s):
    pace = Pace(fraction=lambda: fraction)
    assert 0 <= pace.wait_s(tries) <= 30
    assert 0 <= pace.wait_s(tries, cap_s) <= cap_s
