"""Queue, retries and giving up, with a simulated server on a virtual clock."""

import random
import re
from statistics import median

import pytest
from support.virtual_time import sender_of, simulate

from mmie_tasks.http.attempt import Failure
from mmie_tasks.http.endpoint import FAILURES_BEFORE_PAUSE
from mmie_tasks.http.pace import Pace
from mmie_tasks.http.retries import LONGEST_WAIT_S, MAX_FAILURES, MAX_TIMEOUTS
from mmie_tasks.http.sender import Undelivered


def test_due_retries_come_before_new_requests_in_their_order():
    order = []

    def fault(number):
        order.append(number)
        return Failure(kind="failed", reason="HTTP 500") if order.count(number) < 2 else None

    simulate(4, fault=fault, fault_s=0.2, max_concurrency=1, pace=Pace(fraction=lambda: 0.1))
    assert order == [0, 1, 0, 1, 2, 3, 2, 3]


def fault_of(index, failure):
    return lambda sent_index: failure if sent_index == index else None


@pytest.mark.parametrize(
    "retry_after_s", [pytest.param(None, id="without"), pytest.param(0.1, id="with-retry-after")]
)
def test_a_server_is_fully_used_and_few_requests_get_a_429(retry_after_s):
    server, outcomes = simulate(200, at_most=20, retry_after_s=retry_after_s)
    assert {type(outcome) for outcome in outcomes} == {str}
    assert server.most_at_once == 20
    assert 0 < server.results["busy"] < 40


@pytest.mark.parametrize(
    ("kind", "times"),
    [
        pytest.param("timed_out", MAX_TIMEOUTS, id="hangs"),
        pytest.param("failed", MAX_FAILURES, id="fails"),
        pytest.param("denied", MAX_FAILURES, id="refuses"),
    ],
)
def test_a_poisoned_request_is_given_up_after_a_number_of_attempts_and_the_patience(kind, times):
    poison = fault_of(1, Failure(kind=kind, reason="poisoned"))
    for patience_s in (0.21, 8.0):
        server, outcomes = simulate(1000, fault=poison, max_concurrency=4, patience_s=patience_s)
        poisoned = outcomes.pop(1)
        assert isinstance(poisoned, Undelivered)
        assert poisoned.cause == "unavailable"
        tries = server.attempts[1]
        assert f"gave up after {tries} tries while others were answered" in poisoned.reason
        assert {type(outcome) for outcome in outcomes} == {str}
        assert server.attempts.total() == 999 + tries
        assert tries == times if patience_s < 1 else tries > times


def test_a_request_that_alone_is_denied_does_not_end_the_run():
    poison = fault_of(1, Failure(kind="denied", reason="HTTP 403"))
    _, outcomes = simulate(40, fault=poison, max_concurrency=1, patience_s=0.5)
    assert isinstance(outcomes.pop(1), Undelivered)
    assert {type(outcome) for outcome in outcomes} == {str}


def denied(_):
    return Failure(kind="denied", reason="HTTP 401")


@pytest.mark.parametrize("count", [1, 500])
def test_a_server_that_denies_everything_is_asked_rarely_and_given_up_by_time(count):
    server, outcomes = simulate(count, fault=denied, pace=Pace(), patience_s=120.0)
    assert {(outcome.cause, "HTTP 401" in outcome.reason) for outcome in outcomes} == {
        ("denied", True)
    }
    assert server.attempts.total() < 2 * FAILURES_BEFORE_PAUSE
    assert 120 <= server.seconds < 125


def test_every_second_request_may_be_denied():
    def seconds(share):
        dice, pause = random.Random(1), random.Random(2)  # noqa: S311 - a simulation
        server, outcomes = simulate(
            1000,
            pace=Pace(fraction=pause.random),
            reply_s=1.0,
            fault=lambda number: denied(number) if dice.random() < share else None,
        )
        assert {type(outcome) for outcome in outcomes} == {str}
        return server.seconds

    assert seconds(0.5) < 1.3 * seconds(0.0)


@pytest.mark.parametrize(("slots", "reply_s", "at_most"), [(100, 1.0, 3.0), (20, 0.2, 1.5)])
def test_a_server_that_often_fails_gets_as_many_requests_at_once_as_it_can_serve(
    slots, reply_s, at_most
):
    failing = 0.6

    def ratio(seed):
        dice, pause = random.Random(seed), random.Random(seed + 1)  # noqa: S311 - a simulation
        server, outcomes = simulate(
            400,
            pace=Pace(fraction=pause.random),
            at_most=slots,
            reply_s=reply_s,
            fault_s=reply_s,
            fault=lambda _: (
                Failure(kind="failed", reason="HTTP 500") if dice.random() < failing else None
            ),
        )
        assert {type(outcome) for outcome in outcomes} == {str}
        return server.seconds / (400 * reply_s / slots / (1 - failing))

    assert median(ratio(seed) for seed in range(3)) < at_most


def once(failure, index=0):
    """A server that answers one request so, at its first attempt."""
    failures = [failure]
    return lambda sent_index: failures.pop() if failures and sent_index == index else None


def told_to_wait(wait_s, kind="busy"):
    return Failure(kind=kind, reason="HTTP 429", wait_s=wait_s)


@pytest.mark.parametrize(
    ("wait_s", "patience_s"),
    [
        pytest.param(LONGEST_WAIT_S, 5.0, id="15-minutes"),
        pytest.param(3000.0, 3000.0, id="as-long-as-the-patience"),
    ],
)
@pytest.mark.parametrize(
    "failure_of",
    [
        pytest.param(lambda wait_s: told_to_wait(wait_s), id="retry-after"),
        pytest.param(lambda wait_s: told_to_wait(wait_s, "failed"), id="503-retry-after"),
        pytest.param(
            lambda wait_s: Failure(kind="busy", reason="HTTP 429", pause_s=wait_s), id="quota"
        ),
    ],
)
def test_a_demanded_wait_is_waited_for_and_logged_once(lines, failure_of, wait_s, patience_s):
    server, outcomes = simulate(50, fault=once(failure_of(wait_s)), patience_s=patience_s)
    assert outcomes == ["5"] * 50
    assert wait_s <= server.seconds < wait_s + 5
    assert server.attempts.total() == 51
    (line,) = lines
    assert "a wait until" in line


def test_a_server_that_demands_to_wait_again_and_again_is_given_up():
    server, outcomes = simulate(50, fault=lambda _: told_to_wait(600.0), patience_s=120.0)
    assert {outcome.cause for outcome in outcomes} == {"unavailable"}
    assert 600 <= server.seconds <= 600 + 2 * 120
    assert "no reply at all" in outcomes[0].reason


def test_silence_after_a_demanded_wait_ends_with_the_patience():
    fault = once(told_to_wait(600.0))
    server, (outcome,) = simulate(
        1,
        fault=lambda index: fault(index) or Failure(kind="failed", reason="HTTP 500"),
        patience_s=20.0,
    )
    assert outcome.cause == "unavailable"
    assert 620 <= server.seconds < 640


@pytest.mark.parametrize("index", [0, 199], ids=["first", "last"])
@pytest.mark.parametrize(
    ("failure", "patience_s"),
    [
        pytest.param(told_to_wait(LONGEST_WAIT_S + 1), 120.0, id="retry-after"),
        pytest.param(told_to_wait(1e18, "failed"), 120.0, id="503-for-ever"),
        pytest.param(Failure(kind="busy", reason="HTTP 429", pause_s=86400.0), 120.0, id="quota"),
    ],
)
def test_too_long_a_wait_ends_what_is_left_at_once_and_names_the_time(
    lines, index, failure, patience_s
):
    server, outcomes = simulate(200, fault=once(failure, index), patience_s=patience_s)
    undelivered = [outcome for outcome in outcomes if isinstance(outcome, Undelivered)]
    assert server.seconds < 2
    assert server.attempts.total() == 201 - len(undelivered)  # what was in flight has its reply
    assert outcomes[index] in undelivered
    assert {
        (outcome.cause, "it demands a wait until" in outcome.reason) for outcome in undelivered
    } == {("unavailable", True)}
    assert len(undelivered) == 1 if index == 199 else len(undelivered) > 100
    assert [line.split()[0] for line in lines] == ["ERROR"]


def test_the_reason_for_giving_up_names_the_longest_of_several_demands():
    demands = {0: told_to_wait(86400.0), 1: told_to_wait(40.0)}
    _, outcomes = simulate(2, fault=demands.get)
    for outcome in outcomes:
        assert outcome.reason.startswith("http://simulated: HTTP 429; ")
        assert re.search(r"until \d{4}-", outcome.reason)  # a time of another day has its date


def test_every_long_wait_has_a_line_also_soon_after_other_trouble(lines):
    failing = Failure(kind="failed", reason="HTTP 500")
    faults = [*[failing] * FAILURES_BEFORE_PAUSE, *[told_to_wait(40.0)] * 3]
    simulate(1, fault=lambda _: faults.pop(0) if faults else None)
    expected = ["does not answer", *["a wait until"] * 3, "answers again"]
    assert [words in line for words, line in zip(expected, lines, strict=True)] == [True] * 5


def test_a_request_with_many_429s_is_not_given_up():
    away = iter([Failure(kind="busy", reason="HTTP 429")] * 20)

    def fault(number):
        return next(away, None) if number == 1 else None

    server, outcomes = simulate(250, fault=fault, max_concurrency=4)
    assert {type(outcome) for outcome in outcomes} == {str}
    assert server.attempts[1] == 21


@pytest.fixture
def sender():
    return sender_of()


def test_trouble_and_the_end_of_calls_get_one_line_a_minute_each(sender, lines):
    for now in range(150):
        sender.log_trouble(f"down at {now}.", now)
        sender.log_end(f"given up at {now}.", now, "ERROR")
    assert lines == [
        line
        for now in (0, 60, 120)
        for line in (f"WARNING down at {now}.\n", f"ERROR given up at {now}.\n")
    ]


def test_requests_that_are_sent_again_are_counted_and_none_stays_in_flight(sender):
    faults = [Failure(kind="failed", reason="HTTP 500"), Failure(kind="busy", reason="HTTP 429")]
    server, _ = simulate(20, fault=lambda _: faults.pop() if faults else None, sender=sender)
    assert server.attempts.total() == 22
    assert (sender.retries, sender.in_flight) == (2, 0)
