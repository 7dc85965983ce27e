"""How many at once, on a clock of ours and without sockets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.http.rate_limit import START, Limiter


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def limiter(ceiling=100):
    clock = Clock()
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


def test_it_begins_modest_and_doubles_until_the_ceiling():
    limits, _ = limiter(ceiling=30)
    seen = []
    for _ in range(4):
        seen.append(limits.limit)
        fill(limits, capacity=1000)
        answer_all(limits)
    assert seen == [START, 2 * START, 30, 30]


@pytest.mark.parametrize("capacity", [1, 5, 20, 63])
def test_it_settles_at_what_a_server_serves_at_once(capacity):
    limits, _ = limiter()
    for _ in range(5):
        fill(limits, capacity)
        answer_all(limits)
    assert limits.limit == capacity


def test_after_a_429_it_grows_by_one_a_round_and_only_after_a_rest():
    limits, clock = limiter()
    fill(limits, capacity=4)
    answer_all(limits)
    assert limits.limit == 4
    clock.now = 5.0
    fill(limits, capacity=100)
    answer_all(limits)
    assert 4.5 < limits._limit <= 5.0


def test_a_wave_of_answers_before_a_429_is_no_reason_to_ask_less():
    limits, _ = limiter()
    tickets = [limits.send() for _ in range(START)]
    for _ in range(START - 1):
        limits.finish()
        limits.succeed()
    limits.finish()
    limits.throttle(tickets[-1], None)
    assert limits.limit == START - 1


def test_a_retry_after_makes_the_rest_longer():
    limits, clock = limiter()
    limits.send()
    ticket = limits.send()
    limits.finish()
    limits.throttle(ticket, 60.0)
    clock.now = 59.0
    answer_all(limits)
    assert limits.limit == 1


def test_other_trouble_only_stops_the_growth():
    limits, _ = limiter()
    limits.fail()
    fill(limits, capacity=100)
    answer_all(limits)
    assert limits.limit == START


def test_nothing_is_sent_before_a_pause_ends():
    limits, clock = limiter()
    limits.pause(3.0)
    limits.pause(1.0)
    assert limits.free_at() == 3.0
    clock.now = 3.0
    assert limits.free_at() <= clock.now


def test_where_nothing_at_all_fits_everything_waits():
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
