"""Which servers share cached replies: the same one under several names does, others do not."""

from contextlib import closing

import pytest
from support.judge_asking import FAST, requests, settings_of
from support.judge_server import JudgeServer
from support.recordings import cached_judge

from mmie_tasks.judges.cache import outcomes_of
from mmie_tasks.judges.cache_file import CachedReply, CacheFile, export_line, read_recording
from mmie_tasks.judges.content import content_key
from mmie_tasks.judges.openai.judge import OpenAIJudge
from mmie_tasks.judges.replay import ReplayJudge
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.record.signature import signature_text


def judge_at(address, **options):
    return OpenAIJudge(settings_of(model="m", base_url=address, **options), pace=FAST)


def reply_of(address, path):
    """The text of a reply, and whether it was cached."""
    with closing(outcomes_of(cached_judge(judge_at(address), path), requests(1))) as outcomes:
        ((_, reply),) = outcomes
    return reply.text, reply.cached


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "replies.sqlite3"


def test_two_servers_of_one_machine_share_no_reply(cache):
    with JudgeServer("from a") as a, JudgeServer("from b") as b:
        assert reply_of(a.url, cache) == ("from a", False)
        assert reply_of(b.url, cache) == ("from b", False)
        assert reply_of(a.url, cache) == ("from a", True)


@pytest.mark.parametrize(
    "address",
    [
        pytest.param("http://localhost:{}/v1", id="localhost"),
        pytest.param("http://0.0.0.0:{}/v1", id="as-vllm-prints-it"),
        pytest.param("HTTP://LOCALHOST:{}/v1/", id="upper-case-and-slash"),
        pytest.param("http://127.0.0.1:{}", id="without-v1"),
        pytest.param("http://127.0.0.1:{}/v1/chat/completions?a=b", id="route-and-query"),
    ],
)
def test_a_server_has_one_key_under_all_its_names(cache, address):
    with JudgeServer("5") as server:
        reply_of(server.url, cache)
        assert reply_of(address.format(server.port), cache) == ("5", True)
        assert reply_of(f"http://127.0.0.1:{server.port}/other/v1", cache) == ("5", False)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        pytest.param(None, "", id="openai"),
        pytest.param("https://eu.api.openai.com:443/v1", "", id="openai-in-a-region"),
        pytest.param("https://h/v1", "|host:h", id="no-port"),
        pytest.param("https://H:443/v1/", "|host:h", id="default-port"),
        pytest.param("http://h:80/v1", "|host:h", id="default-port-of-http"),
        pytest.param("https://h/gateway/v1", "|host:h", id="another-path"),
        pytest.param("http://localhost/v1", "|host:localhost", id="localhost"),
    ],
)
def test_a_cache_from_before_answers_for_servers_without_a_port(cache, address, host):
    (request,) = requests(1)
    signature = f"judge:openai|model:m|t:0{host}"
    judge = judge_at(address)
    assert (signature_text(**judge.signature), judge.storage_signature) == (signature, signature)
    with CacheFile(cache).open() as replies:
        reply = JudgeReply(text="old", model="m")
        replies.put(CachedReply(signature, content_key(request), reply, 0))
    assert reply_of(address, cache) == ("old", True)


@pytest.mark.parametrize(
    ("address", "end"),
    [
        pytest.param("http://h:8000/v1", "|host:h|servers:h:8000", id="port"),
        pytest.param("https://h:80/a/v1", "|host:h|servers:h:80/a", id="port-of-another-scheme"),
        pytest.param("http://[::1]:8000/v1", "|host:::1|servers:[::1]:8000", id="ipv6"),
        pytest.param("https://me:word@h:8443/v1?k=v", "|host:h|servers:h:8443", id="secrets"),
    ],
)
def test_the_port_is_in_the_key_and_not_in_the_signature(address, end):
    judge = judge_at(address)
    assert judge.storage_signature == f"judge:openai|model:m|t:0{end}"
    assert signature_text(**judge.signature) == judge.storage_signature.partition("|servers")[0]
    assert not judge.settings.access.needs_key


def test_a_replay_has_the_signature_of_the_run_and_tells_servers_apart(cache, tmp_path):
    with JudgeServer("from a") as a, JudgeServer("from b") as b:
        for server in (a, b):
            reply_of(server.url, cache)
        export = tmp_path / "replies.jsonl"
        export.write_text("".join(map(export_line, read_recording(cache))))
        for recording in (cache, export):
            replay = ReplayJudge(recording, signature=f":{a.port}")
            ((_, reply),) = replay.ask(requests(1))
            assert reply.text == "from a"
            recorded = {key: v for key, v in replay.signature.items() if key != "replayed"}
            run = {k: v for k, v in judge_at(a.url).signature.items() if v is not None}
            assert recorded == run
