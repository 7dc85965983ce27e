"""The limiter, the health of a server and waiting times, on a virtual clock without sockets."""

from datetime import datetime, timezone
from email.utils import format_datetime
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.http.rate_limit import (
    FAILURES_BEFORE_PAUSE,
    START,
    Health,
    Limiter,
    Pace,
    duration_s,
    local_time,
    quota_reset_s,
    retry_after_s,
)

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
NOW_S = int(NOW.timestamp())


class Clock:
    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


def limiter(ceiling=100):
    clock = Clock(0.0)
    return Limiter(ceiling=ceiling, no_growth_s=5.0, clock=clock), clock


def fill(limits, capacity):
    """Send as many as allowed to a server that turns away what is beyond its capacity."""
    tickets = []
    while limits.free_at() == 0:
        tickets.append(limits.send())
    for ticket in tickets[capacity:]:
        limits.finish()
        limits.throttle(ticket, None)


def answer_all(limits):
    for _ in range(limits.in_flight):
        limits.finish()
        limits.succeed()


def test_the_limit_starts_low_and_doubles_up_to_the_ceiling():
    limits, _ = limiter(ceiling=60)
    seen = []
    for _ in range(4):
        seen.append(limits.limit)
        fill(limits, capacity=1000)
        answer_all(limits)
    assert seen == [START, 2 * START, 60, 60]


@pytest.mark.parametrize("capacity", [1, 5, 20, 63])
def test_the_limit_settles_at_the_servers_capacity(capacity):
    limits, _ = limiter()
    for _ in range(5):
        fill(limits, capacity)
        answer_all(limits)
    assert limits.limit == capacity


def test_after_a_429_the_limit_grows_by_one_per_round_after_a_pause():
    limits, clock = limiter()
    fill(limits, capacity=4)
    answer_all(limits)
    assert limits.limit == 4
    clock.now = 5.0
    fill(limits, capacity=100)
    answer_all(limits)
    assert 4.5 < limits._limit <= 5.0


def test_a_wave_of_replies_before_a_429_does_not_lower_the_limit():
    limits, _ = limiter()
    tickets = [limits.send() for _ in range(START)]
    for _ in range(START - 1):
        limits.finish()
        limits.succeed()
    limits.finish()
    limits.throttle(tickets[-1], None)
    assert limits.limit == START - 1


def test_a_retry_after_delays_the_growth():
    limits, clock = limiter()
    limits.send()
    ticket = limits.send()
    limits.finish()
    limits.throttle(ticket, 60.0)
    clock.now = 59.0
    answer_all(limits)
    assert limits.limit == 1


def test_an_overtaken_429_does_not_lower_the_limit_below_what_is_being_served():
    limits, _ = limiter()
    tickets = [limits.send() for _ in range(START)]
    limits.finish()
    limits.throttle(tickets[1], None)  # it was sent when one other was in flight
    assert limits.limit == START - 1


def test_another_error_only_cancels_the_growth_of_one_reply():
    limits, _ = limiter()
    fill(limits, capacity=100)
    answer_all(limits)
    limits.fail()
    limits.fail()
    assert limits.limit == 2 * START
    fill(limits, capacity=100)
    answer_all(limits)
    assert limits.limit == 4 * START - 2


def test_a_server_that_begins_to_fail_half_of_the_time_gets_no_more_requests_at_once():
    limits, _ = limiter()
    fill(limits, capacity=100)
    answer_all(limits)
    for _ in range(100):
        limits.fail()
        limits.succeed()
    assert limits.limit == 2 * START


@pytest.mark.parametrize("period", [2, 3, 4])  # 50, 67 and 75 % of the requests fail
def test_a_server_that_fails_as_often_before_the_limit_grows_gets_more_requests_at_once(period):
    limits, _ = limiter(ceiling=1000)
    for number in range(period * 100):
        _ = limits.fail() if number % period else limits.succeed()
    assert limits.limit >= START + 70


def test_many_failures_in_a_row_delay_the_growth_by_one_round_at_most():
    limits, _ = limiter()
    for _ in range(START):
        limits.succeed()
    for _ in range(1000):
        limits.fail()
    for _ in range(2 * START + 1):
        limits.succeed()
    assert limits.limit == 2 * START + 1


def test_nothing_is_sent_before_a_pause_ends():
    limits, clock = limiter()
    limits.pause(3.0)
    limits.pause(1.0)
    assert limits.free_at() == 3.0
    clock.now = 3.0
    assert limits.free_at() <= clock.now


def test_a_server_without_any_capacity_pauses_everything():
    limits, _ = limiter()
    ticket = limits.send()
    limits.finish()
    limits.throttle(ticket, 7.0)
    assert limits.free_at() == 7.0


@given(st.lists(st.sampled_from(["sent", "succeed", "throttle", "fail"])), st.integers(1, 50))
def test_the_limit_stays_between_one_and_the_ceiling(events, ceiling):
    limits, clock = limiter(ceiling)
    tickets = []
    for event in events:
        clock.now += 1.0
        if event == "sent":
            if limits.free_at() <= clock.now:
                tickets.append(limits.send())
        elif limits.in_flight:
            limits.finish()
            if event == "throttle":
                limits.throttle(tickets.pop(), None)
            else:
                getattr(limits, event)()
        assert 1 <= limits.limit <= ceiling


@pytest.fixture
def clock():
    return Clock(1.0)


@pytest.fixture
def health(clock):
    return Health(pace=Pace(base_s=1.0, cap_s=8.0, fraction=lambda: 1.0), clock=clock)


def fail(health, clock, times=1, denial=None):
    return [health.fail(sent_at=clock.now, denial=denial) for _ in range(times)]


@pytest.mark.parametrize("denial", [None, "HTTP 401"])
def test_fewer_failures_or_denials_never_begin_a_cooldown(health, clock, denial):
    for _ in range(20):
        assert not any(fail(health, clock, FAILURES_BEFORE_PAUSE - 1, denial))
        health.reply()
    assert (health.on_probation, health.ready_at()) == (False, 0.0)


@pytest.mark.parametrize("denial", [None, "HTTP 401"])
def test_more_failures_in_a_row_begin_a_cooldown_and_only_the_first_is_reported(
    health, clock, denial
):
    assert fail(health, clock, FAILURES_BEFORE_PAUSE, denial)[-1]
    assert (health.on_probation, health.ready_at()) == (True, 2.0)
    clock.now = 2.0
    assert fail(health, clock, 1, denial) == [False]


def test_cooldowns_grow_up_to_the_cap(health, clock):
    fail(health, clock, FAILURES_BEFORE_PAUSE)
    rests = []
    for _ in range(5):
        rests.append(health.ready_at() - clock.now)
        clock.now = health.ready_at()
        fail(health, clock)
    assert rests == [1.0, 2.0, 4.0, 8.0, 8.0]


def test_requests_sent_before_a_cooldown_do_not_extend_it(health, clock):
    clock.now = 5.0
    fail(health, clock, FAILURES_BEFORE_PAUSE)
    assert not health.fail(sent_at=4.0)
    assert not health.fail(sent_at=4.0, denial="401")
    assert (health.ready_at(), health.closed) == (6.0, None)


def test_a_reply_ends_the_cooldown(health, clock):
    fail(health, clock, FAILURES_BEFORE_PAUSE)
    health.reply()
    assert (health.on_probation, health.ready_at(), health.replied_at) == (False, 0.0, 1.0)


def test_the_last_failure_says_whether_access_is_denied(health, clock):
    fail(health, clock, 2, "HTTP 401")
    assert health.denial == "HTTP 401"
    fail(health, clock)
    assert health.denial is None
    fail(health, clock, 1, "HTTP 401")
    health.reply()
    assert health.denial is None


def test_a_server_works_once_it_has_replied_until_it_is_paused(health, clock):
    assert not health.works
    health.reply()
    fail(health, clock, FAILURES_BEFORE_PAUSE - 1)
    assert health.works
    fail(health, clock)
    assert not health.works


@given(st.integers(1, 10_000), st.floats(0, 1), st.floats(0, 30))
def test_a_wait_is_never_longer_than_the_cap(tries, fraction, cap_s):
    pace = Pace(fraction=lambda: fraction)
    assert 0 <= pace.wait_s(tries) <= 30
    assert 0 <= pace.wait_s(tries, cap_s) <= cap_s


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"retry-after": "1.5"}, 1.5, id="seconds"),
        pytest.param({"retry-after-ms": "250", "retry-after": "1"}, 0.25, id="milliseconds-first"),
        pytest.param({"retry-after": format_datetime(NOW.replace(minute=2))}, 120.0, id="date"),
        pytest.param({"retry-after": format_datetime(NOW.replace(hour=2))}, None, id="past"),
        pytest.param({"retry-after": "1000000"}, 1e6, id="a-million-seconds"),
        pytest.param({"retry-after": f"{NOW_S + 20}"}, 20.0, id="unix-time"),
        pytest.param({"retry-after": f" {NOW_S + 20}.5 "}, 20.5, id="unix-time-with-a-fraction"),
        pytest.param({"retry-after": f"{NOW_S + 20}000"}, 20.0, id="unix-time-in-milliseconds"),
        pytest.param({"retry-after": f"{NOW_S - 20}"}, None, id="past-unix-time"),
        pytest.param({"retry-after": "99999999"}, None, id="unix-time-of-1973"),
        pytest.param({"retry-after-ms": "2000000"}, 2000.0, id="milliseconds-are-no-unix-time"),
        pytest.param({"retry-after": "soon"}, None, id="word"),
        pytest.param({"retry-after": "-3"}, None, id="negative"),
        pytest.param({"retry-after": "nan"}, None, id="nan"),
        pytest.param({"retry-after": "inf"}, None, id="inf"),
        pytest.param({"retry-after": ""}, None, id="empty"),
    ],
)
def test_a_retry_after_is_read_in_every_form(headers, seconds):
    assert retry_after_s(headers, NOW.timestamp()) == seconds


@given(st.text())
def test_any_header_is_read_or_ignored(text):
    headers = {"retry-after": text, "retry-after-ms": text}
    assert (retry_after_s(headers, 0.0) or 0) >= 0
    assert (duration_s(text, 0.0) or 0) >= 0


@pytest.mark.parametrize(
    ("wait_s", "text"),
    [
        pytest.param(0.0, "12:00", id="now"),
        pytest.param(3600.0, "13:00", id="today"),
        pytest.param(86400.0, "2026-11-22 12:00", id="tomorrow"),
        pytest.param(1e300, "after the year 9999", id="never"),
        pytest.param(inf, "after the year 9999", id="infinite"),
    ],
)
def test_a_time_in_a_message_is_local_and_has_a_date_on_another_day(monkeypatch, wait_s, text):
    class Calendar(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2026, 11, 21, 12, 0).astimezone(tz)

    monkeypatch.setattr("mmie_tasks.http.rate_limit.datetime", Calendar)
    assert local_time(wait_s) == text


def exhausted(reset):
    return {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": reset}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({}, None, id="none"),
        pytest.param(
            {"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "1s"},
            None,
            id="one-remains",
        ),
        pytest.param(
            {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m30.5s"},
            90.5,
            id="requests",
        ),
        pytest.param(
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "120ms",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "2s",
            },
            2.0,
            id="the-longer",
        ),
        pytest.param({"x-ratelimit-remaining-tokens": "0"}, None, id="no-reset"),
        pytest.param(exhausted("24h0m0s"), 86400.0, id="a-day"),
        pytest.param(exhausted(f"{NOW_S + 7}"), 7.0, id="unix-time"),
        pytest.param(exhausted(f"{NOW_S + 7}250"), 7.25, id="unix-time-in-milliseconds"),
        pytest.param(exhausted(f"{NOW_S - 7}"), None, id="past-unix-time"),
    ],
)
def test_the_remaining_quota_is_read(headers, seconds):
    assert quota_reset_s(headers, NOW.timestamp()) == seconds
