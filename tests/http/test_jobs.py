from math import inf
from types import SimpleNamespace

from mmie_tasks.http.retries import MAX_FAILURES, MAX_TIMEOUTS, Job, Queue


def server(replied_at):
    return SimpleNamespace(health=SimpleNamespace(replied_at=replied_at))


def failed(job, times, *, answered, timed_out=False):
    """Fail so often; the server answers somebody before each failure, or nobody."""
    for now in range(1, times + 1):
        job.fail(float(now), server(now - 0.5 if answered else -inf), timed_out=timed_out)
    return job.is_hopeless


def sent():
    job = Job(index=0)
    job.send(0.0)
    return job


def test_failures_while_others_are_answered_are_its_own():
    assert not failed(sent(), MAX_FAILURES - 1, answered=True)
    assert failed(sent(), MAX_FAILURES, answered=True)


def test_fewer_timeouts_are_enough():
    assert not failed(sent(), MAX_TIMEOUTS - 1, answered=True, timed_out=True)
    assert failed(sent(), MAX_TIMEOUTS, answered=True, timed_out=True)


def test_failures_of_a_server_that_answers_nobody_are_not_its_own():
    assert not failed(sent(), 100, answered=False, timed_out=True)


def test_what_may_be_sent_again_comes_before_what_is_fresh_and_not_before_its_time():
    queue = Queue(3)
    first = queue.take(0.0)
    queue.put_back(first, at=5.0)
    assert [queue.take(4.0).index, queue.take(5.0).index, queue.take(5.0).index] == [1, 0, 2]
    assert (queue.take(5.0), len(queue), queue.next_at()) == (None, 0, inf)


def test_when_only_what_must_wait_is_left_its_time_is_told():
    queue = Queue(1)
    assert queue.next_at() == -inf
    queue.put_back(queue.take(0.0), at=5.0)
    assert (queue.next_at(), queue.take(4.9), len(queue)) == (5.0, None, 1)
    assert [job.index for job in queue.take_all()] == [0]
