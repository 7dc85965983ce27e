"""Counts, and the log lines about servers in trouble."""

import pytest
from support.virtual_time import simulate

from mmie_tasks.http.rate_limit import Traffic
from mmie_tasks.http.retries import Failure


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_a_server_in_trouble_gets_one_line_a_minute_which_counts_the_others(clock, lines):
    traffic = Traffic(clock)
    for now in range(150):
        clock.now = now
        traffic.log_trouble("a", f"a is down at {now}.")
    assert lines == [
        "WARNING a is down at 0.\n",
        "WARNING a is down at 60. (59 more such lines since the last one.)\n",
        "WARNING a is down at 120. (59 more such lines since the last one.)\n",
    ]


def test_every_server_has_its_own_minute(clock, lines):
    traffic = Traffic(clock)
    for server in "abab":
        traffic.log_trouble(server, f"{server} is down.")
    assert lines == ["WARNING a is down.\n", "WARNING b is down.\n"]


def test_a_recovery_is_logged_if_its_trouble_was(clock, lines):
    traffic = Traffic(clock)
    for _ in range(3):
        traffic.log_trouble("a", "a is down.")
        traffic.log_recovery("a", "a is back.")
    assert lines == ["WARNING a is down.\n", "INFO a is back.\n"]


def test_requests_that_are_sent_again_are_counted_and_none_stays_in_flight():
    faults = [Failure(kind="failed", reason="HTTP 500"), Failure(kind="busy", reason="HTTP 429")]
    traffic = Traffic()
    server, _ = simulate(20, fault=lambda _: faults.pop() if faults else None, traffic=traffic)
    assert server.attempts.total() == 22
    assert (traffic.retries, traffic.in_flight) == (2, 0)
