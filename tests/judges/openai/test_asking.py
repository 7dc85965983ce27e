"""Requests to one server, and its faults. Real sockets, short waits."""

import gzip
import json
import threading
import time
import tracemalloc

import pytest
from support.judge_asking import KEY, ask, judge_at, question_of, requests
from support.judge_server import completion
from support.loopback import HANG, Sent, error

from mmie_tasks.judges.base import JudgeRefused, JudgeRequest, RequestBroken
from mmie_tasks.record.reply import JudgeReply


def test_every_request_gets_its_own_reply_under_its_own_index(server):
    server.says(lambda body: f"reply to {question_of(body)}")
    replies = ask(judge_at(server.url), 40)
    assert [reply.text for reply in replies] == [f"reply to question {i}" for i in range(40)]
    assert server.statuses == {200: 40}


def test_images_are_sent_byte_for_byte(server, tmp_path):
    image = tmp_path / "a.png"
    image.write_bytes(b"\xff\xd8\xff not what its name says")
    ask(judge_at(server.url), [JudgeRequest(parts=("look", image), max_tokens=7)])
    (body,) = server.asked
    text, picture = body["messages"][0]["content"]
    assert text == {"type": "text", "text": "look"}
    assert (
        picture["image_url"]["url"] == "data:image/jpeg;base64,/9j/IG5vdCB3aGF0IGl0cyBuYW1lIHNheXM="
    )
    assert (body["max_tokens"], body["temperature"]) == (7, 0)


def test_a_missing_image_costs_only_its_own_request(server, tmp_path):
    broken = JudgeRequest(parts=(tmp_path / "none.png",), max_tokens=5)
    outcomes = ask(judge_at(server.url), [*requests(2), broken])
    assert [type(outcome) for outcome in outcomes] == [JudgeReply, JudgeReply, RequestBroken]
    assert server.statuses == {200: 2}


def padded(mebibytes):
    """A reply that would be read if its length did not matter."""
    return json.dumps(completion("too large")).encode() + b" " * mebibytes * 2**20


def test_a_response_that_is_too_large_is_not_read_whole_and_costs_no_reply(server):
    gzipped = gzip.compress(padded(100), compresslevel=1)
    server.then(Sent(content=gzipped, headers={"content-encoding": "gzip"}))
    tracemalloc.start()
    replies = ask(judge_at(server.url), 2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [reply.text for reply in replies] == ["5"] * 2
    assert len(server) == 3
    assert peak < 30 * 2**20


def test_a_response_that_trickles_times_out(server):
    content = json.dumps(completion("5")).encode()
    server.then(Sent(content=content, drip_s=0.05), times=1)
    assert [reply.text for reply in ask(judge_at(server.url, timeout=0.5))] == ["5"]
    assert len(server) >= 2  # one byte every 0.05 s, the first response would take longer than 10 s


@pytest.mark.parametrize(
    "word", [None, " ", "STOP", "eos", "eos_token", "end_turn", "stop_sequence"]
)
def test_a_whole_reply_is_taken_at_once(server, word):
    server.says(completion("5", finish_reason=word))
    (reply,) = ask(judge_at(server.url))
    assert (reply.text, reply.finish, len(server)) == ("5", "stop", 1)


def test_a_reply_without_text_at_the_token_limit_is_sent_once_more_with_headroom(server):
    server.says(completion("", finish_reason="length"))
    (refused,) = ask(judge_at(server.url, max_tokens=50))
    assert isinstance(refused, JudgeRefused)
    assert "`length`" in str(refused)
    assert [body["max_tokens"] for body in server.asked] == [50, 50 + 8192]


@pytest.mark.parametrize("status", [429, 503])
def test_a_retry_after_is_obeyed(server, status):
    server.fails(status, headers={"Retry-After": "0.3"})
    ask(judge_at(server.url))
    assert server.times[1] - server.times[0] >= 0.3


@pytest.mark.parametrize("status", [200, 429])
def test_nothing_is_sent_while_the_quota_is_exhausted(server, status):
    nothing = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "300ms"}
    content = json.dumps(completion("5")).encode()
    server.then(Sent(content=content, status=status, headers=nothing))
    ask(judge_at(server.url, max_concurrency=1), 2)
    assert server.times[1] - server.times[0] >= 0.3


def test_a_server_that_is_down_for_a_while_costs_no_sample(server):
    server.delay_s = 0.01

    def restart():
        while len(server) < 20:
            time.sleep(0.001)
        server.stop()
        time.sleep(0.2)
        server.start()

    restarting = threading.Thread(target=restart)
    restarting.start()
    replies = ask(judge_at(server.url), 60)
    restarting.join()
    assert all(isinstance(reply, JudgeReply) for reply in replies)


def test_a_server_that_accepts_no_dialect_is_a_refusal(server):
    server.says(lambda body: error(400, code="unsupported_parameter", param=[*body][2]))
    (refused,) = ask(judge_at(server.url, temperature=None))
    assert isinstance(refused, JudgeRefused)
    assert len(server) == 3


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "Unrecognized request argument supplied: max_completion_tokens"),
        (422, "max_completion_tokens: Extra inputs are not permitted"),
    ],
)
def test_a_reasoning_models_gateway_that_knows_only_max_tokens_gets_it(server, status, message):
    rejection = error(status, message=message)
    server.says(lambda body: rejection if "max_completion_tokens" in body else "5")
    judge = judge_at(server.url, model="gpt-5-local")
    assert [reply.text for reply in [*ask(judge), *ask(judge)]] == ["5"] * 2
    assert server.statuses == {status: 1, 200: 2}
    assert server.asked[-1]["max_tokens"] == 50 + 8192


def test_several_parameters_are_adapted_with_one_warning_and_remembered(server, log):
    def says(body):
        if "max_tokens" in body:
            return error(400, code="unsupported_parameter", param="max_tokens")
        return error(400, message="`temperature` is deprecated") if "temperature" in body else "5"

    server.says(says)
    judge = judge_at(server.url)
    assert [reply.text for reply in ask(judge) + ask(judge, 3)] == ["5"] * 4
    assert server.statuses == {400: 2, 200: 4}
    (warning,) = [line for line in log if "now gets" in line]
    assert "`max_completion_tokens`, no temperature, because" in warning


def test_closing_the_iterator_cancels_the_requests_in_flight(server):
    server.says(lambda body: HANG if question_of(body) != "question 0" else "5")
    outcomes = judge_at(server.url).ask(requests(5))
    assert next(outcomes)[0] == 0
    outcomes.close()
    assert len(server) <= 5
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("http_")]


def test_a_local_server_needs_no_key(server):
    assert ask(judge_at(server.url, key=None))[0].text == "5"
    assert KEY not in str(server.headers)


def test_text_that_utf8_cannot_encode_is_sent_with_a_replacement(server):
    (reply,) = ask(judge_at(server.url), [JudgeRequest(parts=("a\ud800b",), max_tokens=5)])
    assert reply.text == "5"
    assert question_of(server.asked[0]) == "a\ufffdb"
