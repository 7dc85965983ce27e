"""Queue, retries and giving up, with a simulated server on a virtual clock."""

from math import inf
from types import SimpleNamespace

import pytest
from support.virtual_time import simulate

from mmie_tasks.http.retries import MAX_FAILURES, MAX_TIMEOUTS, Failure, Job, Queue, Undelivered


def server(replied_at):
    return SimpleNamespace(health=SimpleNamespace(replied_at=replied_at))


def failed(job, times, *, server_answers, timed_out=False):
    """Fail so often; the server answers somebody before each failure, or nobody."""
    for now in range(1, times + 1):
        job.fail(float(now), server(now - 0.5 if server_answers else -inf), timed_out=timed_out)
    return job.is_hopeless


def sent():
    job = Job(index=0)
    job.send(0.0)
    return job


def test_failures_count_while_other_requests_get_replies():
    assert not failed(sent(), MAX_FAILURES - 1, server_answers=True)
    assert failed(sent(), MAX_FAILURES, server_answers=True)


def test_fewer_timeouts_than_failures_make_a_request_hopeless():
    assert not failed(sent(), MAX_TIMEOUTS - 1, server_answers=True, timed_out=True)
    assert failed(sent(), MAX_TIMEOUTS, server_answers=True, timed_out=True)


def test_failures_of_a_server_without_any_reply_do_not_count():
    assert not failed(sent(), 100, server_answers=False, timed_out=True)


def test_due_retries_come_before_new_requests():
    queue = Queue(3)
    first = queue.take(0.0)
    queue.put_back(first, at=5.0)
    assert [queue.take(4.0).index, queue.take(5.0).index, queue.take(5.0).index] == [1, 0, 2]
    assert (queue.take(5.0), len(queue), queue.next_at()) == (None, 0, inf)


def test_the_next_time_is_that_of_the_earliest_retry():
    queue = Queue(1)
    assert queue.next_at() == -inf
    queue.put_back(queue.take(0.0), at=5.0)
    assert (queue.next_at(), queue.take(4.9), len(queue)) == (5.0, None, 1)
    assert [job.index for job in queue.take_all()] == [0]


def fault_of(index, failure):
    return lambda sent_index: failure if sent_index == index else None


@pytest.mark.parametrize("retry_after_s", [pytest.param(None, id="without"), pytest.param(0.1, id="with-retry-after")])
def test_a_server_is_fully_used_and_few_requests_get_a_429(retry_after_s):
    server, outcomes = simulate(200, at_most=20, retry_after_s=retry_after_s)
    assert {type(outcome) for outcome in outcomes} == {str}
    assert server.most_at_once == 20
    assert 0 < server.results["busy"] < 40


def test_max_concurrency_is_not_exceeded():
    server, _ = simulate(200, max_concurrency=20)
    assert server.most_at_once == 20


@pytest.mark.parametrize(
    ("kind", "times"),
    [
        pytest.param("timed_out", 3, id="hangs"),
        pytest.param("failed", 6, id="fails"),
        pytest.param("denied", 6, id="refuses"),
    ],
)
def test_a_poisoned_request_is_given_up_after_a_number_of_attempts_and_the_patience(kind, times):
    poison = fault_of(1, Failure(kind=kind, reason="poisoned"))
    for patience_s in (0.21, 2.0):
        server, outcomes = simulate(250, fault=poison, max_concurrency=4, patience_s=patience_s)
        poisoned = outcomes.pop(1)
        assert isinstance(poisoned, Undelivered)
        assert poisoned.cause == "unavailable"
        tries = server.attempts[1]
        assert f"gave up after {tries} tries while others were answered" in poisoned.reason
        assert {type(outcome) for outcome in outcomes} == {str}
        assert server.attempts.total() == 249 + tries
        assert tries == times if patience_s < 1 else tries > times


@pytest.mark.parametrize("at_once", [1, 2, 8])
def test_a_request_that_alone_is_denied_does_not_end_the_run(at_once):
    poison = fault_of(1, Failure(kind="denied", reason="HTTP 403"))
    _, outcomes = simulate(40, fault=poison, max_concurrency=at_once, patience_s=0.5)
    assert isinstance(outcomes.pop(1), Undelivered)
    assert {type(outcome) for outcome in outcomes} == {str}


def test_three_denials_end_the_run_if_all_requests_are_denied():
    server, outcomes = simulate(40, fault=lambda _: Failure(kind="denied", reason="HTTP 401"), max_concurrency=1)
    assert {outcome.cause for outcome in outcomes} == {"denied"}
    assert server.attempts == {0: 1, 1: 1, 2: 1}


def test_a_request_with_many_429s_is_not_given_up():
    away = iter([Failure(kind="busy", reason="HTTP 429")] * 20)

    def fault(number):
        return next(away, None) if number == 1 else None

    server, outcomes = simulate(250, fault=fault, max_concurrency=4)
    assert {type(outcome) for outcome in outcomes} == {str}
    assert server.attempts[1] == 21
