"""Concurrency, retries, giving up and the cost limit: a simulated server on a virtual clock."""

import asyncio
import math
import random
from dataclasses import replace
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.virtual_time import fails, sender_of, simulate

from mmie_tasks.http.errors import Fault
from mmie_tasks.http.sender import LONGEST_WAIT_S, Budget, Pace, Undelivered

SILENT = Fault("failed", "no answer in time")


def delivered(outcomes):
    return [outcome for outcome in outcomes if not isinstance(outcome, Undelivered)]


def levels_of(logs):
    return [line.record["level"].name for line in logs]


def ratio(seed, *, count, slots, reply_s, failing=0.0, retry_after_s=None):
    """The time of all requests in units of that of a server that is always fully used."""
    dice, pause = random.Random(seed), random.Random(seed + 1)  # noqa: S311 - a simulation
    server, outcomes = simulate(
        count,
        pace=Pace(fraction=pause.random),
        at_most=slots,
        reply_s=reply_s,
        fault_s=reply_s,
        retry_after_s=retry_after_s,
        fault=lambda _: fails(500) if dice.random() < failing else None,
    )
    assert len(delivered(outcomes)) == count
    return server.seconds / (count * reply_s / slots / (1 - failing))


@pytest.mark.parametrize(
    ("storm", "most"),
    [
        ({"count": 400, "slots": 20, "reply_s": 1.0}, 1.10),  # 429 beyond 20
        ({"count": 400, "slots": 20, "reply_s": 1.0, "retry_after_s": 1.0}, 1.10),
        ({"count": 400, "slots": 1, "reply_s": 0.3}, 1.05),
        ({"count": 2000, "slots": 64, "reply_s": 1.0, "failing": 0.05}, 1.15),
        ({"count": 400, "slots": 20, "reply_s": 1.0, "failing": 0.5}, 1.20),
        ({"count": 400, "slots": 100, "reply_s": 1.0, "failing": 0.7}, 3.0),
    ],
)
def test_a_server_in_trouble_is_used_as_well_as_it_can_be_and_no_request_is_lost(storm, most):
    assert median(ratio(seed, **storm) for seed in range(3)) <= most


def test_few_requests_get_a_429():
    server, outcomes = simulate(200, at_most=20)
    assert len(delivered(outcomes)) == 200
    assert server.most_at_once == 20
    assert 0 < server.results["busy"] < 40


@pytest.mark.parametrize(
    ("count", "how", "cause", "least_s", "most_s", "most_requests"),
    [
        (500, {"fault": fails(503)}, "unavailable", 120, 150, 300),
        (500, {"fault": fails(429)}, "unavailable", 120, 150, 1200),
        (20_000, {"fault": SILENT, "fault_s": 120.0}, "unavailable", 240, 250, 40),
        (500, {"fault": fails(401)}, "denied", 0, 1, 20),
        (500, {"fault": fails(503, 1e18)}, "unavailable", 0, 1, 20),
        (50, {"fault": fails(429, 600.0)}, "unavailable", 600, 840, 40),
        (1, {"fault": fails(500)}, "unavailable", 120, 150, 50),
    ],
)
def test_a_server_that_never_replies_costs_a_bounded_time(
    count, how, cause, least_s, most_s, most_requests
):
    fault = how["fault"]
    server, outcomes = simulate(count, pace=Pace(), **{**how, "fault": lambda _: fault})
    assert {outcome.cause for outcome in outcomes} == {cause}
    assert all(str(fault) in outcome.reason for outcome in outcomes)
    assert least_s <= server.seconds <= most_s
    assert server.attempts.total() <= most_requests


@pytest.mark.parametrize(
    ("fault", "cause", "least", "most"),
    [
        pytest.param(fails(500), "unavailable", 30, 60, id="500"),
        pytest.param(fails(400), "rejected", 1, 1, id="400"),
        pytest.param(fails(401), "denied", 1, 1, id="401"),
    ],
)
def test_a_request_that_alone_fails_costs_no_other_its_reply(fault, cause, least, most):
    server, outcomes = simulate(
        500, fault=lambda n: fault if n == 7 else None, reply_s=1.0, pace=Pace(), at_most=20
    )
    assert outcomes.pop(7).cause == cause
    assert len(delivered(outcomes)) == 499
    assert least <= server.attempts[7] <= most
    assert server.results["answered"] == 499


def once(fault, number=0):
    """A server that answers one request so, at its first attempt."""
    faults = [fault]
    return lambda sent: faults.pop() if faults and sent == number else None


@pytest.mark.parametrize(
    ("status", "wait_s", "patience_s"),
    [
        pytest.param(429, LONGEST_WAIT_S, 5.0, id="15-minutes"),
        pytest.param(429, 3000.0, 3000.0, id="as-long-as-the-patience"),
    ],
)
def test_a_demanded_wait_is_waited_for_and_logged_once(logs, status, wait_s, patience_s):
    fault = once(fails(status, wait_s))
    server, outcomes = simulate(50, fault=fault, patience_s=patience_s)
    assert outcomes == ["5"] * 50
    assert wait_s <= server.seconds < wait_s + 5
    assert server.attempts.total() == 51
    (line,) = logs
    assert f"a wait of {wait_s:.0f} s" in line


def test_too_long_a_wait_ends_what_is_left_and_what_is_in_flight_has_its_reply(logs):
    server, outcomes = simulate(200, fault=once(fails(429, 4000.0)))
    lost = [outcome for outcome in outcomes if isinstance(outcome, Undelivered)]
    assert server.attempts.total() == 201 - len(lost)
    assert {"a wait of 67 min" in outcome.reason for outcome in lost} == {True}
    assert levels_of(logs) == ["ERROR"]


def test_silence_after_a_demanded_wait_ends_with_the_patience():
    wait = once(fails(429, 600.0))
    server, (outcome,) = simulate(1, fault=lambda n: wait(n) or fails(500), patience_s=20.0)
    assert outcome.cause == "unavailable"
    assert 620 <= server.seconds < 640


def test_a_slow_reply_is_waited_for_although_all_others_fail():
    def fault(number):
        return fails(503) if number else None

    _, outcomes = simulate(4, fault=fault, reply_s=9.0, patience_s=2.0)
    assert [isinstance(outcome, str) for outcome in outcomes] == [True, False, False, False]


def test_a_silent_server_has_one_warning_a_minute_and_an_error_at_the_end(logs):
    simulate(500, fault=lambda _: fails(503), pace=Pace(), patience_s=150.0)
    assert levels_of(logs) == ["WARNING"] * 3 + ["ERROR"]


def test_requests_that_are_sent_again_are_counted_and_none_stays_in_flight():
    faults, sender = [fails(500), fails(429)], sender_of()
    server, _ = simulate(20, fault=lambda _: faults.pop() if faults else None, sender=sender)
    assert server.attempts.total() == 22
    assert (sender.retries, sender.in_flight) == (2, 0)


def test_an_error_of_our_own_is_raised_and_ends_the_call():
    def fault(number):
        raise LookupError(number)

    with pytest.raises(LookupError):
        simulate(50, fault=fault)


@given(st.integers(1, 10_000), st.floats(0, 1), st.booleans())
def test_a_wait_is_never_longer_than_the_cap(failures, fraction, is_silent):
    pace = Pace(fraction=lambda: fraction)
    assert 0 <= pace.wait_s(failures, is_silent=is_silent) <= pace.cap_s
    assert failures >= 30 or pace.wait_s(failures, is_silent=False) <= pace.short_cap_s


@pytest.mark.parametrize(
    ("paid", "estimate", "allowed"),
    [
        pytest.param([], 0.0, 1, id="one-until-a-cost-is-known"),
        pytest.param([], 11.0, 0, id="an-estimate-that-is-too-much"),
        pytest.param([0.25] * 2, 0.0, 3, id="at-most-one-more-than-were-paid"),
        pytest.param([0.25] * 20, 0.0, 20, id="as-many-as-fit"),
        pytest.param([0.25] * 20, 1.0, 5, id="as-many-as-fit-by-the-estimate"),
        pytest.param([0.25] * 40, 1.0, 0, id="all-is-spent"),
        pytest.param([2**-7] * 256 + [0.5], 0.1, 15, id="the-largest-cost-counts"),
        pytest.param([None] * 40, 1.0, 10, id="unknown-costs"),
    ],
)
def test_requests_in_flight_count_with_the_largest_cost_and_the_estimate(paid, estimate, allowed):
    budget = Budget(max_usd=10.0, request_usd=estimate)
    for cost in paid:
        budget.spend(cost)
    assert [number for number in range(1, 60) if budget.allows(number)] == [*range(1, allowed + 1)]
    assert replace(budget, max_usd=None).allows(10**6)


def test_costs_up_to_the_estimate_use_a_limit_up_and_never_exceed_it():
    """Lognormal costs up to ten means, the estimate; the limit is 300 means."""
    shares, mean = [], math.exp(0.5)
    for seed in range(5):
        dice = random.Random(seed)  # noqa: S311 - a simulation
        costs = [min(dice.lognormvariate(0, 1), 10 * mean) for _ in range(600)]
        budget = Budget(max_usd=300 * mean, request_usd=10 * mean)
        _, outcomes = simulate(len(costs), budget=budget, cost_usd=costs.__getitem__)
        assert {o.cause for o in outcomes if isinstance(o, Undelivered)} == {"over_budget"}
        shares.append(budget.spent_usd / budget.max_usd)
    assert 0.95 < min(shares) <= max(shares) <= 1.0


def test_when_replies_suddenly_cost_50_times_more_only_what_is_in_flight_exceeds_the_limit():
    costs = [0.001] * 400 + [0.05] * 3000
    budget = Budget(max_usd=0.8)
    server, _ = simulate(len(costs), budget=budget, cost_usd=costs.__getitem__, max_concurrency=20)
    assert server.most_at_once == 20
    assert 0.72 < budget.spent_usd <= 0.4 + 20 * 0.05 + 1e-9


def test_stopping_lets_connections_close():
    sender, closed = sender_of(), []

    async def send(_client, index):
        sender.stop()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.5)  # longer than it takes to look for a stop once more
            closed.append(index)

    with pytest.raises(KeyboardInterrupt):
        list(sender.send_all([0], send))
    assert closed == [0]
