"""The judge with a cache. Real sockets."""

import pytest
from support.judge_asking import cached_judge_at, requests
from support.judge_server import completion

from mmie_tasks.judges.cache import outcomes_of


@pytest.fixture
def path(tmp_path):
    return tmp_path / "replies.sqlite3"


def test_an_absurd_usage_counts_as_none_and_the_reply_is_stored(server, path):
    server.says({**completion("5"), "usage": dict.fromkeys(("prompt_tokens",), 10**30)})
    for is_cached in (False, True):
        replies = dict(outcomes_of(cached_judge_at(server.url, path), requests(3))).values()
        assert [(reply.cached, reply.usage.input_tokens) for reply in replies] == [
            (is_cached, 0)
        ] * 3
    assert len(server) == 3
