"""The judge with a cache: processes that are killed, and processes that share one. Real sockets."""

import time
from threading import Event, Thread

import pytest
from support.hub_process import FORKS
from support.judge_asking import ask_cached, cached_judge_at, question_of, requests
from support.judge_server import completion

from mmie_tasks.judges.cache_store import CachedReply, CacheFile
from mmie_tasks.judges.content import content_key
from mmie_tasks.record.reply import JudgeReply

AT_ONCE = 4


@pytest.fixture
def path(tmp_path):
    return tmp_path / "replies.sqlite3"


def test_an_absurd_usage_counts_as_none_and_the_reply_is_stored(server, path):
    server.says({**completion("5"), "usage": dict.fromkeys(("prompt_tokens",), 10**30)})
    for is_cached in (False, True):
        replies = dict(cached_judge_at(server.url, path).ask(requests(3))).values()
        assert [(reply.cached, reply.usage.input_tokens) for reply in replies] == [
            (is_cached, 0)
        ] * 3
    assert len(server) == 3


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_killed_process_loses_at_most_the_replies_in_flight(server, path):
    # It handles one reply, and no more.
    process = FORKS.Process(target=ask_cached, args=(server.url, path, 60, AT_ONCE, 60.0))
    process.start()
    wait_until(lambda: server.statuses[200] >= 40)
    process.kill()
    process.join()
    with CacheFile(path).open() as replies:
        assert server.statuses[200] - len(list(replies.read_all())) <= AT_ONCE
    assert len(dict(cached_judge_at(server.url, path).ask(requests(60)))) == 60
    assert len(server) <= 60 + AT_ONCE


def test_two_processes_share_the_replies_that_arrive(server, path):
    server.says(lambda body: f"reply to {question_of(body)}")
    server.delay_s = 0.02
    process = FORKS.Process(target=ask_cached, args=(server.url, path, 60, AT_ONCE))
    process.start()
    wait_until(lambda: len(server) >= 20)
    judge = cached_judge_at(server.url, path, max_concurrency=AT_ONCE)
    texts = {index: reply.text for index, reply in judge.ask(requests(60))}
    process.join()
    assert process.exitcode == 0
    assert texts == {index: f"reply to question {index}" for index in range(60)}
    assert len(server) <= 2 * 60 - 20 + AT_ONCE


def test_a_reply_that_another_process_stored_meanwhile_is_not_requested(server, path):
    stored = Event()
    server.ready = stored.is_set

    judge = cached_judge_at(server.url, path, max_concurrency=1)

    def store_the_others():
        wait_until(lambda: len(server) == 1)
        with CacheFile(path).open() as table:
            for request in requests(3)[1:]:
                reply = JudgeReply(text="5", model="m")
                signature = judge.judge.storage_signature
                table.put(CachedReply(signature, content_key(request), reply, 0))
        stored.set()

    thread = Thread(target=store_the_others)
    thread.start()
    replies = dict(judge.ask(requests(3)))
    thread.join()
    assert [replies[index].text for index in range(3)] == ["5"] * 3
    assert len(server) == 1
