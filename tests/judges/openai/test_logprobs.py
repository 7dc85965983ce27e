"""The probabilities of a reply's digits: requested, read, and left out where a server does not
report them.
"""

import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.judge_asking import FAST, ask, judge_at, settings_of
from support.judge_faults import REQUEST, WANTS_DIGITS, with_at_most
from support.judge_server import (
    HANG,
    HANG_UP,
    Sent,
    alternative,
    completion,
    error,
    judge_server,
    reporting,
    token,
)

from mmie_tasks.http.client import MAX_BODY_BYTES
from mmie_tasks.http.endpoint import START
from mmie_tasks.judges.base import JudgeRefused, JudgeRequest
from mmie_tasks.judges.cache import CachedJudge
from mmie_tasks.judges.cache_store import CacheFile
from mmie_tasks.judges.openai.settings import PLAIN, REASONING
from mmie_tasks.judges.openai.wire import chat_body, digits_of, read_completion
from mmie_tasks.record.reply import JudgeReply

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
        pytest.param(WANTS_DIGITS, {"max_tokens": 2048}, PLAIN, 10, id="longest-reply"),
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


def test_the_option_is_not_part_of_the_signature():
    assert settings_of(logprobs=False).signature == settings_of().signature


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, 10, id="default"),
        pytest.param({"max_tokens": 2048}, 10, id="longest-reply"),
        pytest.param({"max_tokens": 2049}, None, id="long-replies"),
        pytest.param({"logprobs": False}, None, id="option"),
        pytest.param({"model": "gpt-6-luna"}, None, id="reasoning-model"),
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
        pytest.param(["Score: ", "5", "\n"], "Score: 5\n", [7], id="alone"),
        pytest.param(["5", ".", "3", "\n", "4\n"], "5.3\n4\n", [0, 2, 4], id="several"),
        pytest.param(["\u3000", "\u30005\u00a0"], "\u3000\u30005\u00a0", [2], id="any-white-space"),
        pytest.param(["10", " 5/", "6"], "10 5/6", [5], id="more-than-a-digit"),
        pytest.param(["٣", "²", "Ⅴ", "５"], "٣²Ⅴ５", [], id="other-digits"),
        pytest.param(["ok"], "ok", [], id="none"),
        pytest.param([b"\xf0\x9f", b"\x98\x80", "é", "5"], "😀é5", [2], id="parts-of-a-character"),
        pytest.param([" 5", " of 6"], "5 of 6", [0], id="leading-space-stripped"),
        pytest.param(["4", "\n", "5", "<|im_end|>"], "4\n5", [0, 2], id="end-mark"),
        pytest.param(
            ["<think>", "3", "</think>", "5", "<|end|>", "7"], "5", [0], id="hidden-reasoning"
        ),
        pytest.param(["5", " or ", "5"], "5", None, id="text-twice"),
        pytest.param(["aa", "a", "5"], "aa", None, id="text-twice-overlapping"),
        pytest.param(["Score:", "5", "\n", "6"], "Score: 5\n 6", [7, 10], id="lost-spaces"),
        pytest.param(["Score", ":"], "Score: 5", None, id="too-few-tokens"),
        pytest.param(["a", "▁", "5"], "a 5", None, id="another-notation"),
        pytest.param([], "5", None, id="no-tokens"),
    ],
)
def test_the_offset_of_a_digit_is_its_index_in_the_text(tokens, text, expected):
    reply = read_completion(
        completion(text, logprobs={"content": [*map(token, tokens)]}), model="m"
    )
    assert (reply.text, offsets(reply.digits)) == (text, expected)


def test_tokens_without_bytes_are_read_by_their_text():
    tokens = [{**token(part), "bytes": None} for part in ("é", " 5")]
    without = [{name: tokens[0][name] for name in ("token", "logprob")}, tokens[1]]
    for content in (tokens, without):
        assert offsets(digits_of({"content": content}, "é 5")) == [2]


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
        pytest.param(
            {**token("5", -0.9), "top_logprobs": [alternative("5", -0.9001)]},
            {5: -0.9001},
            id="rounded-in-the-list",
        ),
        pytest.param(token("5", -0.69, {" 5": -0.69}), {5: 0.0}, id="above-1-by-rounding"),
        pytest.param(
            token("5", 0, {"1": -9999.0, "2": -3.4e38}),
            {5: 0.0, 1: -9999.0, 2: -3.4e38},
            id="certain",
        ),
        pytest.param(token("5", 1e-6), {5: 0.0}, id="rounding-error-of-the-server"),
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
    pytest.param([], id="list"),
    pytest.param({"content": None}, id="no-content"),
    pytest.param({"content": [None]}, id="no-token"),
    pytest.param(five(token=5), id="token-number"),
    pytest.param(five(bytes="5"), id="bytes-text"),
    pytest.param(five(bytes=[256]), id="bytes-out-of-range"),
    *(
        pytest.param(five(logprob=value), id=f"logprob-{value!r:.12}")
        for value in (None, "-0.5", False, float("nan"), float("-inf"), 0.5, 10**400)
    ),
    *(
        pytest.param(five(top_logprobs=value), id=f"top-{name}")
        for name, value in {
            "null": None,
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
    judge = CachedJudge(judge_at(server.url), CacheFile(tmp_path / "replies.sqlite3"))
    ((_, reply),) = judge.ask([WANTS_DIGITS])
    ((_, cached),) = judge.ask([REQUEST])
    assert (cached.cached, cached.digits, offsets(cached.digits)) == (True, reply.digits, [0, 6])
    assert len(server) == 1


# Servers that report none, or fewer.

REJECTIONS = {
    "vllm": error(
        400, message="Requested sample logprobs of 10, which is greater than max allowed: 5"
    ),
    "parameter": error(400, code="unsupported_parameter", param="top_logprobs", message="no"),
    "not-allowed": error(403, message="You are not allowed to request logprobs from this model"),
    "capital": error(400, message="Logprobs is not enabled for models/gemini"),
    "validation": Sent(
        status=422,
        content=json.dumps(
            {"detail": [{"type": "extra_forbidden", "loc": ["body", "logprobs"]}]}
        ).encode(),
    ),
    "server-error": error(500, message="top_logprobs: not implemented"),
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
    (first,) = ask(judge, wanting(1))
    replies = [first, *ask(judge, wanting(20)), *ask(judge, [REQUEST])]
    assert [reply.text for reply in replies] == ["5"] * 22
    assert top_logprobs(server) == [*tried, *[tried[-1]] * 20, None]
    assert [len(reply.digits or ()) for reply in replies] == [1 if at_most else 0] * 21 + [0]
    (warning,) = warnings(log)
    assert (
        f"now gets {at_most} `top_logprobs`, because it answered HTTP {rejection.status}" in warning
    )


@pytest.mark.parametrize(
    "rejection",
    [
        pytest.param(error(400, message="Bad Request"), id="400"),
        pytest.param(error(422, message="no"), id="422"),
        pytest.param(
            Sent(status=400, content=b'[{"error": {"message": "Unknown name logprobs"}}]'),
            id="in-a-list",
        ),
        pytest.param(Sent(status=400, content=b"<html>"), id="html"),
    ],
)
def test_an_error_that_names_no_parameter_and_is_due_to_log_probabilities_costs_no_reply(
    server, log, rejection
):
    server.says(with_at_most(0, rejection))
    judge = judge_at(server.url)
    assert [reply.text for reply in ask(judge, wanting(1)) + ask(judge, wanting(9))] == ["5"] * 10
    assert top_logprobs(server) == [10, *[None] * 10]
    assert len(warnings(log)) == 1


@pytest.mark.parametrize(
    ("rejection", "repeats"),
    [
        pytest.param(error(400, code="invalid_image", message="bad image"), 1, id="400"),
        pytest.param(
            error(422, param="detail", message="logprobs are fine"), 1, id="another-parameter"
        ),
        pytest.param(error(400, code="content_filter", message="filtered"), 0, id="filter"),
        pytest.param(error(413, message="too large"), 0, id="413"),
    ],
)
@pytest.mark.parametrize("accepted_before", [True, False], ids=["accepted-before", "at-first"])
def test_an_error_of_another_cause_leaves_the_request_for_log_probabilities(
    server, log, rejection, repeats, accepted_before
):
    bad, *good = wanting(12)
    server.says(
        lambda body: rejection if '"question 0"' in json.dumps(body) else reporting("5")(body)
    )
    judge = judge_at(server.url)
    outcomes = ask(judge, good[:1]) if accepted_before else []
    outcomes = [*outcomes, *ask(judge, [bad]), *ask(judge, good[1:])]
    assert sum(isinstance(outcome, JudgeRefused) for outcome in outcomes) == 1
    assert all(len(outcome.digits) == 1 for outcome in outcomes if isinstance(outcome, JudgeReply))
    assert warnings(log) == []
    assert top_logprobs(server).count(None) == (0 if accepted_before else repeats)


def test_many_requests_at_once_learn_what_a_server_rejects_with_one_warning(server, log):
    server.delay_s = 0.02
    server.says(with_at_most(5, REJECTIONS["vllm"]))
    assert all(reply.digits for reply in ask(judge_at(server.url), wanting(60)))
    assert len(warnings(log)) == 1


# Servers that fail without a word about log-probabilities.

LARGE = Sent(content=b" " * (MAX_BODY_BYTES + 1))
TROUBLES = [
    pytest.param(error(500, message="Internal Server Error"), "it answered HTTP 500", id="500"),
    pytest.param(HANG, "no answer in time", id="hangs"),
    pytest.param(LARGE, "more than 4 MiB", id="large"),
]


def timeout_s(trouble):
    """Short only where a request hangs on purpose: a busy machine may stall."""
    return 0.5 if trouble is HANG else 30.0


@pytest.mark.parametrize(("trouble", "words"), TROUBLES)
def test_a_server_that_fails_with_log_probabilities_costs_no_reply(server, log, trouble, words):
    server.says(with_at_most(0, trouble))
    replies = ask(judge_at(server.url, timeout=timeout_s(trouble)), wanting(60))
    assert [(reply.text, reply.digits) for reply in replies] == [("5", None)] * 60
    assert sum(count is not None for count in top_logprobs(server)) < 50
    (warning,) = warnings(log)
    assert "0 `top_logprobs`, because " in warning
    assert words in warning
    assert "no expected score" in warning


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        *TROUBLES,
        pytest.param(HANG_UP, "no connection", id="hangs-up"),
        pytest.param(error(403), "it answered HTTP 403", id="403"),
        pytest.param(error(413), "it answered HTTP 413", id="413"),
    ],
)
def test_a_server_that_fails_with_log_probabilities_is_found_before_the_run(
    server, log, trouble, words
):
    server.check = None
    server.says(with_at_most(0, trouble))
    judge = judge_at(server.url, timeout=timeout_s(trouble))
    judge.check()
    of_the_check = len(server)
    assert of_the_check <= 6
    assert len(warnings(log)) == 1
    assert [reply.text for reply in ask(judge, wanting(20))] == ["5"] * 20
    assert top_logprobs(server)[of_the_check:] == [None] * 20
    assert len(warnings(log)) == 1
    assert words in warnings(log)[0]


def test_a_server_that_fails_only_with_log_probabilities_of_whole_replies_costs_no_reply(
    server, log
):
    """The check passes with them: the run must not rely on it."""
    server.check = None
    server.says(
        lambda body: (
            with_at_most(0, error(500))(body) if "question" in str(body) else reporting("yes")(body)
        )
    )
    judge = judge_at(server.url)
    judge.check()
    assert warnings(log) == []
    assert [reply.text for reply in ask(judge, wanting(60))] == ["5"] * 60
    assert len(warnings(log)) == 1


@pytest.mark.parametrize(
    "trouble", [pytest.param(error(503), id="503"), pytest.param(HANG, id="hangs")]
)
def test_a_hanging_or_starting_server_that_passes_the_check_later_is_asked_for_them(
    server, log, trouble
):
    server.check = None
    server.says(reporting("5"))
    server.then(trouble, times=2 if trouble is not HANG else 1)
    judge = judge_at(server.url, timeout=timeout_s(trouble))
    judge.check()
    assert all(len(reply.digits) == 1 for reply in ask(judge, wanting(20)))
    assert warnings(log) == []


@pytest.mark.parametrize(
    "before", [pytest.param(10, id="in-the-middle"), pytest.param(0, id="at-the-start")]
)
@pytest.mark.parametrize(
    "trouble", [pytest.param(error(503), id="503"), pytest.param(HANG, id="hangs")]
)
def test_after_an_outage_a_server_is_asked_for_log_probabilities_as_before(
    server, log, before, trouble
):
    server.says(reporting("5"))
    judge = judge_at(server.url, timeout=timeout_s(trouble))
    replies = ask(judge, wanting(60)[:before])
    server.then(trouble, times=START)  # all that are in flight at first, and no retry
    replies += ask(judge, wanting(60)[before:])
    assert [reply.text for reply in replies] == ["5"] * 60
    assert sum(reply.digits is None for reply in replies) <= 1
    assert warnings(log) == []


def test_a_request_that_fails_with_log_probabilities_gets_its_reply_without(server, log):
    """Some servers cannot write some replies:
    ``Out of range float values are not JSON compliant``.
    """
    bad, *good = wanting(100)
    failing = error(500, message="Internal Server Error")
    server.delay_s = 0.005
    server.says(
        lambda body: (
            with_at_most(0, failing) if '"question 0"' in json.dumps(body) else reporting("5")
        )(body)
    )
    judge = judge_at(server.url, patience=0.5)
    (first,) = ask(judge, good[:1])
    without, *replies = ask(judge, [bad, *good[1:]])
    assert (without.text, without.digits) == ("5", None)
    assert all(len(reply.digits) == 1 for reply in (first, *replies))
    assert server.statuses == {500: 4, 200: 100}
    assert warnings(log) == []


def test_a_short_fault_costs_no_digits(server):
    server.says(reporting("5"))
    judge = judge_at(server.url)
    replies = ask(judge, wanting(1))
    server.fails(503, times=3)
    replies += ask(judge, wanting(5)[1:])
    assert len(replies) == 5
    assert all(reply.digits for reply in replies)


@pytest.mark.parametrize(
    ("patience", "words"),
    [
        pytest.param(
            0.05,
            "HTTP 503 (some_error): no (`logprobs=false` asks for no",
            id="before-it-was-tried",
        ),
        pytest.param(
            0.6, "HTTP 503 (some_error): no (with `logprobs=false` too)", id="after-it-was-tried"
        ),
    ],
)
def test_the_last_message_says_whether_the_option_may_help(server, log, patience, words):
    server.says(error(503))
    pace = replace(FAST, base_s=0.2, cap_s=0.2, fraction=lambda: 1.0)
    (unavailable,) = ask(judge_at(server.url, pace=pace, patience=patience), wanting(1))
    assert words in str(unavailable)
    assert any("is given up" in line and words in line for line in log)


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


def test_each_server_of_a_judge_has_its_own_adaptation(log):
    rejecting = with_at_most(0, error(400, message="no logprobs"))
    with (
        judge_server(reporting("5"), delay_s=0.02) as one,
        judge_server(rejecting, delay_s=0.02) as other,
    ):
        replies = ask(judge_at(one.url, other.url), wanting(60))
        assert [reply.text for reply in replies] == ["5"] * 60
        assert {len(reply.digits or ()) for reply in replies} == {0, 1}
        assert None not in top_logprobs(one)
        assert all(other.url in line for line in warnings(log))
