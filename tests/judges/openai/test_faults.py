"""Faults of a judge's server, and what the judge does, on real sockets."""

from math import inf

import pytest
from support.judge_asking import ask, judge_at
from support.judge_server import completion
from support.loopback import HANG, HANG_UP, Sent, error, sends

from mmie_tasks.judges.batch import unscored


def body(text="5", finish="stop", **more):
    return sends(completion(text, finish_reason=finish, **more))


GZIP = Sent(b"no gzip", headers={"content-encoding": "gzip"})
HOUR = error(429, headers={"Retry-After": "3600"})
RETRY_DELAY = error(503, details=[{"retryDelay": "3600s"}])
FILTER = error(400, code="content_filter")

# What the server sends; how often one request is sent, without an end until one is answered or
# `patience` is over; why the sample is unscored then, and words of the detail.
FAULTS = [
    pytest.param(error(429), inf, "unavailable", "HTTP 429", id="429"),
    pytest.param(error(500), inf, "unavailable", "HTTP 500", id="500"),
    pytest.param(HANG_UP, inf, "unavailable", "no connection", id="hangs-up"),
    pytest.param(Sent(b'{"id": 1}', cut_after=8), inf, "unavailable", "", id="hangs-up-in-body"),
    pytest.param(HANG, inf, "unavailable", "no answer in time", id="hangs"),
    pytest.param(Sent(b"<html>Sign in</html>"), inf, "unavailable", "no JSON", id="page"),
    pytest.param(sends({"error": "busy"}), inf, "unavailable", "busy", id="error-as-200"),
    pytest.param(sends({"reply": "5"}), inf, "unavailable", '{"reply": "5"}', id="other-json"),
    pytest.param(GZIP, inf, "unavailable", "decompress", id="wrong-encoding"),
    pytest.param(HOUR, 1, "unavailable", "a wait of 60 min", id="429-for-an-hour"),
    pytest.param(RETRY_DELAY, 1, "unavailable", "a wait of 60 min", id="503-for-an-hour"),
    pytest.param(error(401), 1, "unavailable", "denies access", id="401"),
    pytest.param(FILTER, 1, "refused", "content_filter", id="400-filter"),
    pytest.param(body(finish="content_filter"), 1, "refused", "filter", id="filtered"),
    pytest.param(body(None, refusal="I will not."), 1, "refused", "I will not.", id="refusal"),
    pytest.param(body(finish="error"), 3, "unavailable", "finish_reason `error`", id="error"),
    pytest.param(body(""), 3, "empty_reply", "finish_reason `stop`", id="empty"),
    pytest.param(body("", "length"), 2, "empty_reply", "`length`", id="empty-length"),
]


@pytest.mark.parametrize(("sent", "times", "reason", "words"), FAULTS)
def test_only_a_fault_that_lasts_costs_a_reply(server, sent, times, reason, words):
    options = {"timeout": 0.5} if sent is HANG else {}
    passing = min(times - 1, 2)
    server.then(sent, passing)
    assert [reply.text for reply in ask(judge_at(server.url, **options), 3)] == ["5"] * 3
    assert len(server) == 3 + passing or sent is HANG  # a busy machine replies late, too

    server.says(sent)
    before, options = len(server), options | ({"patience": 0.1} if times == inf else {})
    (outcome,) = ask(judge_at(server.url, **options))
    assert unscored(outcome).reason == reason
    assert words in str(outcome)
    assert ("no reply at all for 0.1 s" in str(outcome)) == (times == inf)
    assert times in (inf, len(server) - before)
