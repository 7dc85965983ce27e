"""The judge with a cache that another process writes, too. Real sockets."""

import time
from threading import Event, Thread

import pytest
from support.judge_asking import cached_judge_at, requests
from support.judge_server import completion

from mmie_tasks.judges.cache_store import CachedReply, CacheFile
from mmie_tasks.judges.content import content_key
from mmie_tasks.record.reply import JudgeReply


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
