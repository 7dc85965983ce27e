"""Faults of a judge's server, and what the judge does, on real sockets."""

import json
from dataclasses import replace
from math import inf

import pytest
from support.judge_asking import ask, judge_at
from support.judge_server import completion
from support.loopback import HANG, HANG_UP, Sent, error

from mmie_tasks.judges.base import JudgeError
from mmie_tasks.judges.batch import unscored
from mmie_tasks.record.reply import JudgeReply


def body(text="5", finish="stop", **more):
    return Sent(json.dumps(completion(text, finish_reason=finish, **more)).encode())


WAIT, LONG_WAIT = {"Retry-After": "0.05"}, {"Retry-After": "3600"}
GZIP = Sent(content=b"no gzip", headers={"content-encoding": "gzip"})
NO_KEY = error(400, message="API key not valid.")
NO_KEY_IN_A_LIST = replace(NO_KEY, content=b"[" + NO_KEY.content + b"]")  # as Gemini sends it
QUOTA = error(429, code="insufficient_quota")
RETRY_DELAY = error(503, details=[{"retryDelay": "3600s"}])

# What the server sends; how often one request is sent, without an end until one is answered or
# `patience` is over; why the sample is unscored then, and words of the detail.
FAULTS = [
    pytest.param(error(429), inf, "unavailable", "HTTP 429", id="429"),
    pytest.param(error(429, headers=WAIT), inf, "unavailable", "", id="429-retry-after"),
    pytest.param(error(500), inf, "unavailable", "HTTP 500", id="500"),
    pytest.param(error(503, headers=WAIT), inf, "unavailable", "", id="503-retry-after"),
    pytest.param(HANG_UP, inf, "unavailable", "no connection", id="hangs-up"),
    pytest.param(
        Sent(b'{"choices": [1, 2]}', cut_after=9), inf, "unavailable", "", id="hangs-up-in-the-body"
    ),
    pytest.param(HANG, inf, "unavailable", "no answer in time", id="hangs"),
    pytest.param(Sent(b"<html>Sign in</html>"), inf, "unavailable", "no JSON", id="page"),
    pytest.param(Sent(b'{"choices": [{"mess'), inf, "unavailable", "", id="truncated"),
    pytest.param(
        Sent(b'{"error": {"message": "busy"}}'), inf, "unavailable", "busy", id="error-as-200"
    ),
    pytest.param(GZIP, inf, "unavailable", "decompress", id="wrong-encoding"),
    pytest.param(
        error(429, headers=LONG_WAIT), 1, "unavailable", "a wait of 1.0", id="429-for-an-hour"
    ),
    pytest.param(RETRY_DELAY, 1, "unavailable", "a wait of 1.0", id="retry-delay"),
    pytest.param(error(401), 1, "unavailable", "denies access", id="401"),
    pytest.param(NO_KEY_IN_A_LIST, 1, "unavailable", "not valid", id="400-key"),
    pytest.param(QUOTA, 1, "unavailable", "", id="quota"),
    pytest.param(body(finish="content_filter"), 1, "refused", "filter", id="filtered"),
    pytest.param(body(None, refusal="I will not."), 1, "refused", "I will not.", id="refusal"),
    pytest.param(
        error(400, code="content_filter"), 1, "refused", "content_filter", id="400-filter"
    ),
    pytest.param(error(400, message="bad"), 1, "refused", "bad", id="400"),
    pytest.param(body(finish="error"), 3, "unavailable", "finish_reason `error`", id="error"),
    pytest.param(
        body(finish="insufficient_system_resource"), 3, "unavailable", "insufficient", id="no-room"
    ),
    pytest.param(body(""), 3, "empty_reply", "finish_reason `stop`", id="empty"),
    pytest.param(body("", "length"), 2, "empty_reply", "`length`", id="empty-length"),
]


def judge_for(server, sent, **options):
    return judge_at(server.url, **({"timeout": 0.5} if sent is HANG else {}), **options)


@pytest.mark.parametrize(("sent", "times", "reason", "words"), FAULTS)
def test_a_fault_that_lasts_ends_with_its_reason_after_its_number_of_requests(
    server, sent, times, reason, words
):
    server.says(sent)
    patience = {"patience": 0.1} if times == inf else {}
    (outcome,) = ask(judge_for(server, sent, **patience))
    assert isinstance(outcome, JudgeError)
    assert unscored(outcome).reason == reason
    assert words in str(outcome)
    assert times == inf or len(server) == times
    assert times < inf or "no reply at all for 0.1 s" in str(outcome)


@pytest.mark.parametrize(
    ("sent", "times", "reason", "words"), [fault for fault in FAULTS if fault.values[1] > 1]
)
def test_a_fault_that_passes_costs_no_reply(server, sent, times, reason, words):  # noqa: ARG001
    times = min(times - 1, 2)
    server.then(sent, times=times)
    assert [reply.text for reply in ask(judge_for(server, sent), 3)] == ["5"] * 3
    assert len(server) == 3 + times or sent is HANG  # a busy machine replies late, too


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        *((w, "stop") for w in (None, "STOP", 7, "x")),
    ],
)
def test_a_text_counts_with_any_other_finish_reason_and_at_the_token_limit(server, word, finish):
    server.says(body(finish=word))
    (reply,) = ask(judge_at(server.url))
    assert isinstance(reply, JudgeReply)
    assert (reply.finish, len(server)) == (finish, 1)
