"""The probabilities of a reply's digits: requested, read, and left out where a server does not
report them.
"""

import asyncio
import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.judge_asking import ask, cached_judge_at, judge_at, question_of, settings_of
from support.judge_faults import REQUEST, WANTS_DIGITS, with_at_most
from support.judge_server import (
    HANG,
    HANG_UP,
    Sent,
    alternative,
    completion,
    error,
    reporting,
    token,
)

from mmie_tasks.http.attempt import Failure, Success
from mmie_tasks.http.client import MAX_BODY_BYTES
from mmie_tasks.judges.base import JudgeRefused, JudgeRequest
from mmie_tasks.judges.openai.adaptations import Adaptations
from mmie_tasks.judges.openai.chat_request import chat_body
from mmie_tasks.judges.openai.chat_server import ChatServer
from mmie_tasks.judges.openai.completion import read_completion
from mmie_tasks.judges.openai.dialect import PLAIN, REASONING
from mmie_tasks.judges.openai.digits import digits_of

OTHERS = {" 4": -2.5, "x": -3.0}


def wanting(count):
    return [
        JudgeRequest(parts=(f"question {i}",), max_tokens=50, wants_digits=True)
        for i in range(count)
    ]


def offsets(digits):
    return None if digits is None else [digit.offset for digit in digits]


def top_logprobs(server):
    """The number of alternatives in each request; None where there are no log-probabilities."""
    return [body.get("top_logprobs") for body in server.asked]


# What is requested.


@pytest.mark.parametrize(
    ("request_", "options", "dialect", "expected"),
    [
        pytest.param(WANTS_DIGITS, {}, PLAIN, 10, id="wanted"),
        pytest.param(WANTS_DIGITS, {}, replace(PLAIN, top_logprobs=5), 5, id="fewer"),
        pytest.param(REQUEST, {}, PLAIN, None, id="not-wanted"),
        pytest.param(WANTS_DIGITS, {"logprobs": False}, PLAIN, None, id="option"),
        pytest.param(WANTS_DIGITS, {}, replace(REASONING, headroom=0), None, id="reasoning-model"),
        pytest.param(WANTS_DIGITS, {"max_tokens": 2049}, PLAIN, None, id="long-replies"),
        pytest.param(WANTS_DIGITS, {}, replace(PLAIN, headroom=8192), None, id="hidden-reasoning"),
    ],
)
def test_log_probabilities_are_requested_where_they_are_of_use(
    request_, options, dialect, expected
):
    body = chat_body(request_, settings_of(**options), dialect)
    assert (body.get("logprobs"), body.get("top_logprobs")) == (
        (True, expected) if expected else (None, None)
    )


def test_the_longest_reply_with_log_probabilities_is_not_too_large_to_be_read():
    longest_token = alternative(" " * 16, -12.123456789)
    tokens = [{**longest_token, "top_logprobs": [longest_token] * 11}] * 2048
    assert len(json.dumps(tokens)) < MAX_BODY_BYTES


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, 10, id="default"),
        pytest.param({"max_tokens": 2049}, None, id="long-replies"),
    ],
)
def test_the_check_requests_them_as_the_run_will(server, options, expected):
    server.check = None
    judge_at(server.url, **options).check()
    assert top_logprobs(server) == [expected]


# What is read.


@pytest.mark.parametrize(
    ("tokens", "text", "expected"),
    [
        pytest.param(["Score", ":", " 5"], "Score: 5", [7], id="with-a-space"),
        pytest.param(["5", ".", "3", "\n", "4\n"], "5.3\n4\n", [0, 2, 4], id="several"),
        pytest.param(["\u3000", "\u30005\u00a0"], "\u3000\u30005\u00a0", [2], id="any-white-space"),
        pytest.param(["10", " 5/", "6"], "10 5/6", [5], id="more-than-a-digit"),
        pytest.param(["٣", "²", "Ⅴ", "５"], "٣²Ⅴ５", [], id="other-digits"),
        pytest.param([b"\xf0\x9f", b"\x98\x80", "é", "5"], "😀é5", [2], id="parts-of-a-character"),
        pytest.param(
            ["<think>", "3", "</think>", "5", "<|end|>", "7"], "5", [0], id="hidden-reasoning"
        ),
        pytest.param(["5", " or ", "5"], "5", None, id="text-twice"),
        pytest.param(["Score:", "5", "\n", "6"], "Score: 5\n 6", [7, 10], id="lost-spaces"),
        pytest.param(["Score", ":"], "Score: 5", None, id="too-few-tokens"),
        pytest.param(["a", "▁", "5"], "a 5", None, id="another-notation"),
    ],
)
def test_the_offset_of_a_digit_is_its_index_in_the_text(tokens, text, expected):
    reply = read_completion(
        completion(text, logprobs={"content": [*map(token, tokens)]}), model="m"
    )
    assert (reply.text, offsets(reply.digits)) == (text, expected)


@pytest.mark.parametrize(
    ("generated", "expected"),
    [
        pytest.param(
            token("5", -0.5, {"4": -1.5, "x": -3.0}), {5: -0.5, 4: -1.5}, id="digits-alone"
        ),
        pytest.param(
            token(" 5", -1.0, {"5": -2.0, "5\n": -3.0}), {5: -0.5924}, id="spellings-add-up"
        ),
        pytest.param(
            {**token("5"), "top_logprobs": [alternative("4", -1.0)]},
            {4: -1.0, 5: -0.5},
            id="not-listed",
        ),
        pytest.param(
            {**token("5"), "top_logprobs": [alternative("5")] * 2}, {5: -0.5}, id="listed-twice"
        ),
        pytest.param(token("5", -0.69, {" 5": -0.69}), {5: 0.0}, id="above-1-by-rounding"),
        pytest.param(
            token("5", 0, {"1": -9999.0, "2": -3.4e38}),
            {5: 0.0, 1: -9999.0, 2: -3.4e38},
            id="certain",
        ),
        pytest.param(token("5", -0.123456789), {5: -0.1235}, id="rounded"),
    ],
)
def test_the_probabilities_of_a_digit_are_those_of_its_spellings_together(generated, expected):
    (digit,) = digits_of({"content": [generated]}, generated["token"])
    assert digit.logprobs == tuple(expected.get(value) for value in range(10))


def five(**changes):
    return {"content": [{**token("5", others=OTHERS), **changes}]}


MALFORMED = [
    pytest.param(None, id="null"),
    pytest.param({"content": None}, id="no-content"),
    pytest.param({"content": [None]}, id="no-token"),
    pytest.param(five(token=5), id="token-number"),
    pytest.param(five(bytes="5"), id="bytes-text"),
    pytest.param(five(bytes=[256]), id="bytes-out-of-range"),
    *(
        pytest.param(five(logprob=value), id=f"logprob-{value!r:.12}")
        for value in (None, False, float("nan"), float("-inf"), 0.5, 10**400)
    ),
    *(
        pytest.param(five(top_logprobs=value), id=f"top-{name}")
        for name, value in {
            "object": {"5": -0.5},
            "empty": [],
            "without-logprob": [{"token": "5", "bytes": [53]}],
            "malformed-bytes": [{**alternative("4"), "bytes": [-1]}],
            "too-likely": [alternative("5"), alternative("4"), alternative("x")],
        }.items()
    ),
    pytest.param({"content": [token("5", others=OTHERS), token("5", 2.0)]}, id="second-token"),
]


@pytest.mark.parametrize("logprobs", MALFORMED)
def test_malformed_log_probabilities_cost_the_digits_and_not_the_reply(logprobs):
    text = "5" * (
        len(logprobs["content"]) if isinstance(logprobs, dict) and logprobs["content"] else 1
    )
    reply = read_completion(completion(text, logprobs=logprobs), model="m")
    assert (reply.text, reply.usage.output_tokens, reply.digits) == (text, 10, None)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "5", " 5", "4", "é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
ENTRY = {"token": st.sampled_from(["5", " 5", "a"]), "logprob": st.floats(max_value=0)}
BYTES = st.lists(st.integers(-1, 256), max_size=3) | st.just([53]) | st.none()
TOP = st.lists(st.fixed_dictionaries(ENTRY, optional={"bytes": BYTES | JSON}) | JSON, max_size=3)
TOKEN = (
    st.fixed_dictionaries(ENTRY, optional={"bytes": BYTES | JSON, "top_logprobs": TOP | JSON})
    | JSON
)


@given(
    st.fixed_dictionaries({"content": st.lists(TOKEN, max_size=4) | JSON}) | JSON,
    st.text(min_size=1, max_size=9).filter(str.strip),
)
@example({"content": [token("5", others=OTHERS)]}, "5")
@example(
    {
        "content": [
            {**token("\ud800".encode(errors="surrogatepass")), "bytes": None, "token": "\ud800"}
        ]
    },
    "\ud800",
)
def test_any_log_probabilities_leave_the_reply_as_it_is(logprobs, text):
    sent = completion(text, logprobs=logprobs)
    reply = read_completion(sent, model="m")
    assert replace(reply, digits=None) == read_completion(completion(text), model="m")
    for digit in reply.digits or ():
        assert text[digit.offset] in "0123456789"
        assert len(digit.logprobs) == 10
        assert any(value is not None for value in digit.logprobs)
        assert all(value is None or -float("inf") < value <= 0 for value in digit.logprobs)


@given(st.lists(st.text(min_size=1) | st.sampled_from(["5", " 5", "6\n", "é"]), min_size=1))
def test_every_digit_that_is_a_token_is_read_whatever_stands_between_them(parts):
    text = "".join(parts)
    encoded = text.encode(errors="surrogatepass")
    tokens = [token(part.encode(errors="surrogatepass")) for part in parts]
    expected = [text[digit.offset] for digit in digits_of({"content": tokens}, text)]
    assert expected == [part.strip() for part in parts if part.strip() in tuple("0123456789")]
    in_bytes = [token(encoded[index : index + 1]) for index in range(len(encoded))]
    assert offsets(digits_of({"content": in_bytes}, text)) == [
        index for index, mark in enumerate(text) if mark in "0123456789"
    ]


def test_a_reply_brings_its_digits_and_costs_what_it_costs_without_them(server):
    server.says(reporting("Score: 5"))
    with_digits, without = ask(judge_at(server.url, price="2.5/10"), [WANTS_DIGITS, REQUEST])
    ((digit, probabilities),) = [(digit.offset, digit.logprobs) for digit in with_digits.digits]
    assert (digit, probabilities[5], probabilities[4]) == (7, -0.5, -9.0)
    assert replace(with_digits, digits=None) == without
    assert with_digits.usage.cost_usd > 0


def test_a_reply_from_the_cache_has_the_digits_that_the_server_reported(server, tmp_path):
    server.says(reporting("5 and 4"))
    judge = cached_judge_at(server.url, tmp_path / "replies.sqlite3")
    ((_, reply),) = judge.ask([WANTS_DIGITS])
    ((_, cached),) = judge.ask([REQUEST])
    assert (cached.cached, cached.digits, offsets(cached.digits)) == (True, reply.digits, [0, 6])
    assert len(server) == 1


# Servers that report none, or fewer.

REJECTIONS = {
    "vllm": error(400, message="Requested sample logprobs of 10, which is greater than 5"),
    "parameter": error(400, code="unsupported_parameter", param="top_logprobs", message="no"),
    "not-allowed": error(403, message="You are not allowed to request logprobs from this model"),
    "capital": error(400, message="Logprobs is not enabled for models/gemini"),
    "validation": Sent(
        status=422,
        content=b'{"detail": [{"type": "extra_forbidden", "loc": ["body", "logprobs"]}]}',
    ),
}


def warnings(log):
    return [line for line in log if "now gets" in line]


@pytest.mark.parametrize(
    ("rejection", "at_most", "tried"),
    [
        *(pytest.param(sent, 0, [10, 5, None], id=name) for name, sent in REJECTIONS.items()),
        pytest.param(REJECTIONS["vllm"], 5, [10, 5], id="fewer"),
    ],
)
def test_a_server_that_rejects_log_probabilities_is_asked_for_fewer_and_then_for_none(
    server, log, rejection, at_most, tried
):
    server.says(with_at_most(at_most, rejection))
    judge = judge_at(server.url)
    replies = [*ask(judge, wanting(1)), *ask(judge, wanting(5))]
    assert [reply.text for reply in replies] == ["5"] * 6
    assert top_logprobs(server) == [*tried, *[tried[-1]] * 5]
    assert [len(reply.digits or ()) for reply in replies] == [1 if at_most else 0] * 6
    (warning,) = warnings(log)
    assert f"now gets {at_most} `top_logprobs`, because" in warning
    assert f"HTTP {rejection.status}" in warning


# Servers that fail without a word about log-probabilities.

TROUBLES = [
    pytest.param(error(400, message="Bad Request"), "it answered HTTP 400", id="400"),
    pytest.param(error(500, message="Internal Server Error"), "it answered HTTP 500", id="500"),
    pytest.param(HANG, "no answer in time", id="hangs"),
    pytest.param(HANG_UP, "no connection", id="hangs-up"),
]


def timeout_s(trouble):
    """Short only where a request hangs on purpose: a busy machine may stall."""
    return 0.5 if trouble is HANG else 30.0


@pytest.mark.parametrize(("trouble", "words"), TROUBLES)
def test_a_server_that_fails_with_log_probabilities_and_works_without_costs_no_reply(
    server, log, trouble, words
):
    server.says(with_at_most(0, trouble))
    judge = judge_at(server.url, timeout=timeout_s(trouble))
    replies = ask(judge, wanting(1)) + ask(judge, wanting(5))
    assert [(reply.text, reply.digits) for reply in replies] == [("5", None)] * 6
    assert top_logprobs(server) == [10, None, 10, *[None] * 5]
    (warning,) = warnings(log)
    assert "0 `top_logprobs`, because " in warning
    assert words in warning
    assert "no expected score" in warning


def test_many_requests_at_once_learn_that_a_server_fails_with_one_warning(server, log):
    server.delay_s = 0.01
    server.says(with_at_most(0, error(500)))
    assert [reply.text for reply in ask(judge_at(server.url), wanting(30))] == ["5"] * 30
    assert len(warnings(log)) == 1


def test_a_server_that_fails_with_log_probabilities_is_found_before_the_run(server, log):
    server.check = None
    server.says(with_at_most(0, error(403)))
    judge = judge_at(server.url)
    judge.check()
    assert [reply.text for reply in ask(judge, wanting(3))] == ["5"] * 3
    assert top_logprobs(server) == [10, None, 10, None, None, None]
    assert len(warnings(log)) == 1


def test_a_server_that_sends_log_probabilities_meanwhile_is_asked_for_them_as_before(log):
    bad, other = wanting(2)
    sent = Counter()

    class Racing(ChatServer):
        """Sends another request, which is answered, while the first one is tried once more."""

        async def _send(self, request, dialect):
            sent[request] += 1
            if request == bad and sent[bad] == 2:
                await self.attempt(other)
            fails = request == bad
            return Failure(kind="failed", reason="HTTP 500") if fails else Success(reply="5")

    settings, adaptations = settings_of(), Adaptations()
    server = Racing(settings, None, "http://a", adaptations)
    assert asyncio.run(server.attempt(bad)) == Success(reply="5")
    assert sent == {bad: 2, other: 1, replace(bad, wants_digits=False): 1}
    assert adaptations.of("http://a", settings).dialect.top_logprobs == 10
    assert warnings(log) == []


def test_a_request_that_fails_without_log_probabilities_too_says_so(server):
    server.says(error(500))
    (unavailable,) = ask(judge_at(server.url, patience=0.2), wanting(1))
    assert "(with `logprobs=false` too)" in str(unavailable)


@pytest.mark.parametrize("accepted_before", [True, False], ids=["accepted-before", "at-first"])
def test_an_error_of_another_cause_leaves_the_request_for_log_probabilities(
    server, log, accepted_before
):
    bad, *good = wanting(6)
    rejection = error(400, code="invalid_image", message="bad image")
    server.says(
        lambda body: rejection if question_of(body) == "question 0" else reporting("5")(body)
    )
    judge = judge_at(server.url)
    outcomes = ask(judge, good[:1]) if accepted_before else []
    (refused,) = ask(judge, [bad])
    assert isinstance(refused, JudgeRefused)
    assert all(len(reply.digits) == 1 for reply in outcomes + ask(judge, good[1:]))
    assert warnings(log) == []
    assert top_logprobs(server).count(None) == (0 if accepted_before else 1)


@pytest.mark.parametrize("before", [pytest.param(3, id="later"), pytest.param(0, id="at-first")])
@pytest.mark.parametrize(
    "trouble", [pytest.param(error(503), id="503"), pytest.param(HANG, id="hangs")]
)
def test_after_an_outage_a_server_is_asked_for_log_probabilities_as_before(
    server, log, before, trouble
):
    server.says(reporting("5"))
    judge = judge_at(server.url, timeout=timeout_s(trouble), max_concurrency=4)
    replies = ask(judge, wanting(12)[:before])
    server.then(trouble, times=4)  # all that are in flight at first, and no retry
    replies += ask(judge, wanting(12)[before:])
    assert all(len(reply.digits) == 1 for reply in replies)
    assert warnings(log) == []


def test_a_request_that_fails_with_log_probabilities_gets_its_reply_without(server, log):
    """Some servers cannot write some replies:
    ``Out of range float values are not JSON compliant``.
    """
    bad, *good = wanting(20)
    failing = with_at_most(0, error(500, message="Internal Server Error"))
    server.says(
        lambda body: (failing if question_of(body) == "question 0" else reporting("5"))(body)
    )
    judge = judge_at(server.url)
    (first,) = ask(judge, good[:1])
    without, *replies = ask(judge, [bad, *good[1:]])
    assert (without.text, without.digits) == ("5", None)
    assert all(len(reply.digits) == 1 for reply in (first, *replies))
    assert server.statuses == {500: 4, 200: 20}
    assert warnings(log) == []


def test_several_parameters_are_adapted_with_one_warning(server, log):
    def says(body):
        if body.get("logprobs"):
            return error(400, message="no logprobs")
        if "max_tokens" in body:
            return error(400, code="unsupported_parameter", param="max_tokens")
        return error(400, message="`temperature` is deprecated") if "temperature" in body else "5"

    server.says(says)
    judge = judge_at(server.url)
    assert [reply.text for reply in ask(judge, wanting(1)) + ask(judge, wanting(3))] == ["5"] * 4
    assert server.statuses == {400: 4, 200: 4}
    (warning,) = warnings(log)
    assert "`max_completion_tokens`, no temperature, 0 `top_logprobs`, because" in warning
