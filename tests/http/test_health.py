"""When a server rests, is probed, and is given up; on a clock of ours."""

from math import inf

import pytest

from mmie_tasks.http.rate_limit import FAILURES_BEFORE_COOLDOWN, Health, Pace


class Clock:
    now = 1.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def health(clock):
    return Health(pace=Pace(base_s=1.0, cap_s=8.0, fraction=lambda: 1.0), clock=clock)


def fail(health, clock, times=1):
    return [health.fail(sent_at=clock.now) for _ in range(times)]


def test_a_few_failures_are_put_up_with(health, clock):
    assert not any(fail(health, clock, FAILURES_BEFORE_COOLDOWN - 1))
    assert (health.on_probation, health.ready_at()) == (False, 0.0)


def test_failures_with_answers_between_them_never_add_up(health, clock):
    for _ in range(20):
        fail(health, clock, FAILURES_BEFORE_COOLDOWN - 1)
        health.reply()
    assert not health.on_probation


def test_more_failures_in_a_row_begin_a_rest_and_only_the_first_is_news(health, clock):
    assert fail(health, clock, FAILURES_BEFORE_COOLDOWN)[-1]
    assert (health.on_probation, health.ready_at()) == (True, 2.0)
    clock.now = 2.0
    assert fail(health, clock) == [False]


def test_rests_grow_up_to_the_cap(health, clock):
    fail(health, clock, FAILURES_BEFORE_COOLDOWN)
    rests = []
    for _ in range(5):
        rests.append(health.ready_at() - clock.now)
        clock.now = health.ready_at()
        fail(health, clock)
    assert rests == [1.0, 2.0, 4.0, 8.0, 8.0]


def test_what_was_sent_before_a_rest_makes_it_no_longer(health, clock):
    clock.now = 5.0
    fail(health, clock, FAILURES_BEFORE_COOLDOWN)
    assert not health.fail(sent_at=4.0)
    health.deny(4.0, "401")
    assert (health.ready_at(), health.closed) == (6.0, None)


def test_an_answer_ends_the_rest(health, clock):
    fail(health, clock, FAILURES_BEFORE_COOLDOWN)
    health.reply()
    assert (health.on_probation, health.ready_at(), health.replied_at) == (False, 0.0, 1.0)


def test_the_third_refusal_is_the_end_and_many_at_once_are_one(health, clock):
    for sent_at in (1.0, 2.0, 4.0):
        assert health.closed is None
        clock.now = sent_at + 0.5
        health.deny(sent_at, "HTTP 401")
        health.deny(sent_at, "HTTP 401")
    assert (health.closed, health.ready_at()) == ("HTTP 401", inf)


def test_an_answer_between_refusals_begins_the_count_anew(health, clock):
    for _ in range(5):
        health.deny(clock.now, "HTTP 403")
        health.deny(clock.now, "HTTP 403")
        health.reply()
    assert health.closed is None
