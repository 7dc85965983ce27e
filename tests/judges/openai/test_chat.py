"""Bodies of requests, replies, dialects, and what a run of many requests does. Real sockets."""

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.judge_asking import ask, judge_at, question_of, requests
from support.judge_server import completion
from support.loopback import Sent, error

from mmie_tasks.http.errors import Fault
from mmie_tasks.judges import base
from mmie_tasks.judges.base import JudgeMisconfigured, JudgeRequest, ReplySchema
from mmie_tasks.judges.openai.chat import HEADROOM, Dialect, NoText, chat_body, read_completion
from mmie_tasks.judges.openai.settings import OpenAIOptions
from mmie_tasks.record.reply import JudgeReply

PARAMETERS = '{"type": "object", "properties": {"b": {"type": "integer"}, "a": {}}}'
SCHEMA = ReplySchema(name="grade", description="Grades.", parameters=PARAMETERS)
FUNCTION = {"name": "grade", "description": "Grades.", "parameters": json.loads(PARAMETERS)}
ARGUMENTS = '{"b": 1, "a": "x"}'
OPTIONS = OpenAIOptions(model="m")


# Bodies


def test_a_body_has_the_parts_in_their_order_and_the_bytes_of_images(tmp_path):
    image = tmp_path / "a.png"
    image.write_bytes(b"\xff\xd8\xff not what its name says")
    request = JudgeRequest(parts=("a\ud800", image, "b"), max_tokens=9, system="Be fair.")
    url = "data:image/jpeg;base64,/9j/IG5vdCB3aGF0IGl0cyBuYW1lIHNheXM="
    parts = [
        {"type": "text", "text": "a\ufffd"},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": "b"},
    ]
    assert chat_body(request, OPTIONS, Dialect()) == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be fair."}, {"role": "user", "content": parts}],
        "max_tokens": 9,
        "temperature": 0.0,
    }
    more = {"temperature": None, "max_tokens": 3, "detail": "low", "extra_body": '{"top_k": 1}'}
    body = chat_body(request, OpenAIOptions(model="m", **more), Dialect(headroom=5))
    assert body["messages"][1]["content"][1]["image_url"]["detail"] == "low"
    assert (body["max_tokens"], body["top_k"], "temperature" in body) == (8, 1, False)


# Replies

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


def fields(**strategies):
    """JSON, or an object with some of these fields."""
    return JSON | st.fixed_dictionaries({}, optional=strategies)


MESSAGE = fields(content=JSON, refusal=JSON, tool_calls=JSON, function_call=JSON)
CHOICES = st.lists(fields(message=MESSAGE, finish_reason=JSON), max_size=2) | JSON
USAGE = fields(prompt_tokens=JSON, completion_tokens=JSON, completion_tokens_details=JSON)


@given(fields(choices=CHOICES, usage=USAGE, model=JSON), st.sampled_from([None, SCHEMA]))
def test_any_response_is_a_reply_a_refusal_or_unusable(sent, schema):
    try:
        outcome = read_completion(sent, OpenAIOptions(model="m", price_in=1, price_out=1), schema)
    except (Fault, NoText):
        return
    if isinstance(outcome, base.JudgeRefused):
        return
    assert outcome.text.strip()
    assert outcome.model
    used = outcome.usage
    counts = (used.input_tokens, used.output_tokens, used.reasoning_tokens)
    assert all(type(count) is int and count >= 0 for count in counts)


def tool_call(arguments):
    function = {"type": "function", "function": {"name": "grade", "arguments": arguments}}
    return completion({"content": None, "tool_calls": [function]}, finish_reason="tool_calls")


CALL = completion({"function_call": {"name": "grade", "arguments": ARGUMENTS}})
IN_TEXT = '{"name": "grade", "arguments": {"b": 1}}'
PARTS = [
    {"type": "text", "text": "a"},
    {"type": "thinking", "text": "Score: 0"},
    {"type": "output_text", "text": "b"},
]


@pytest.mark.parametrize(
    ("sent", "schema", "text"),
    [
        pytest.param(completion(" a\r\n"), None, " a\r\n", id="unchanged"),
        pytest.param(completion({"content": PARTS}), None, "ab", id="only-parts-of-text"),
        pytest.param(CALL, SCHEMA, ARGUMENTS, id="function"),
        pytest.param(tool_call(ARGUMENTS), SCHEMA, ARGUMENTS, id="tool"),
        pytest.param(tool_call({"b": 1}), SCHEMA, '{"b": 1}', id="object"),
        pytest.param(completion(IN_TEXT), SCHEMA, '{"b": 1}', id="in-the-text"),
        pytest.param(completion(f"<t>\n{IN_TEXT}</t>"), SCHEMA, '{"b": 1}', id="tags"),
        pytest.param(completion("Score: 5"), SCHEMA, "Score: 5", id="no-call"),
        pytest.param(completion(IN_TEXT), None, IN_TEXT, id="no-call-asked-for"),
    ],
)
def test_the_text_of_a_reply_is_its_words_or_what_the_function_is_called_with(sent, schema, text):
    assert read_completion(sent, OPTIONS, schema).text == text
    with pytest.raises(NoText):
        read_completion(tool_call(ARGUMENTS), OPTIONS)


@pytest.mark.parametrize(
    ("word", "finish"),
    [("length", "length"), ("MAX_TOKENS", "length"), (None, "stop"), ("STOP", "stop"), (7, "stop")],
)
def test_a_text_counts_with_any_other_finish_reason_and_at_the_token_limit(word, finish):
    assert read_completion(completion("5", finish_reason=word), OPTIONS).finish == finish
    with pytest.raises(NoText, match="incomplete"):
        read_completion(completion("5", finish_reason="insufficient_system_resource"), OPTIONS)


# Requests


def test_every_request_gets_its_own_reply_under_its_own_index(server):
    server.says(lambda body: f"reply to {question_of(body)}")
    broken = JudgeRequest(parts=(Path("/nowhere/none.png"),), max_tokens=5)
    server.fails(500)
    judge = judge_at(server.url)
    *replies, outcome = ask(judge, [*requests(40), broken])
    assert [reply.text for reply in replies] == [f"reply to question {i}" for i in range(40)]
    assert isinstance(outcome, base.RequestBroken)
    assert server.statuses == {500: 1, 200: 40}
    assert (judge.counts().in_flight, judge.counts().retries) == (0, 1)


def test_a_response_that_trickles_times_out(server):
    content = json.dumps(completion("5")).encode()
    server.then(Sent(content=content, drip_s=0.05))
    assert [reply.text for reply in ask(judge_at(server.url, timeout=0.5))] == ["5"]
    assert len(server) >= 2  # one byte every 0.05 s, the first response would take longer than 10 s


# Dialects


def test_several_parameters_are_adapted_with_one_warning_and_remembered(server, logs):
    def says(body):
        if "max_tokens" in body:
            return error(400, message="Unsupported parameter: 'max_tokens'")
        return error(400, message="`temperature` is deprecated") if "temperature" in body else "5"

    server.says(says)
    judge = judge_at(server.url)
    assert [reply.text for reply in ask(judge) + ask(judge, 3)] == ["5"] * 4
    assert server.statuses == {400: 2, 200: 4}
    assert judge.signature == judge_at(server.url).signature
    (warning,) = [line for line in logs if "now gets" in line]
    assert "`max_completion_tokens` with 8,192 more tokens, without `temperature`" in warning
    assert "is deprecated" in warning


def test_headroom_that_a_reply_needed_is_given_to_all_later_ones(server):
    server.says(
        lambda body: "5" if body["max_tokens"] > 50 else completion("", finish_reason="length")
    )
    judge = judge_at(server.url)
    assert [reply.text for reply in [*ask(judge), *ask(judge, 3)]] == ["5"] * 4
    assert [body["max_tokens"] for body in server.asked] == [50, *[50 + HEADROOM] * 4]


REJECTED = {
    "functions": error(400, message="Unknown parameter: 'functions'."),
    "tools": error(404, message="No endpoints found that support tool use; not supported."),
}


def test_a_server_that_takes_no_schema_is_asked_in_plain_words_and_learned_once(server):
    server.says(
        lambda body: next((sent for name, sent in REJECTED.items() if name in body), ARGUMENTS)
    )
    judge = judge_at(server.url, model="gpt-4o")
    sent = [JudgeRequest(parts=(str(n),), max_tokens=9, schema=SCHEMA) for n in range(5)]
    replies = ask(judge, sent[:1]) + ask(judge, sent[1:])
    assert [reply.text for reply in replies] == [ARGUMENTS] * 5
    styles = [next((name for name in REJECTED if name in body), "none") for body in server.asked]
    assert styles == [*REJECTED, *["none"] * 5]
    first, second, *_ = server.asked
    assert (first["functions"], first["function_call"]) == ([FUNCTION], {"name": "grade"})
    assert second["tools"] == [{"type": "function", "function": FUNCTION}]
    assert list(FUNCTION["parameters"]["properties"]) == ["b", "a"]


# Cost. The server says 100 tokens in and 10 out: at this price, one dollar a reply.

DOLLAR = {"price_in": 10_000.0, "price_out": 0.0}
PER_TOKEN = {"price_in": 0.0, "price_out": 1000.0, "max_cost": 2.0}
NO_USAGE = {"choices": [{"message": {"content": "5"}}]}
ABSURD = {**NO_USAGE, "usage": {"prompt_tokens": 10**30, "completion_tokens": 1}}


@pytest.mark.parametrize(
    ("says", "options", "replies", "empty"),
    [
        pytest.param("5", {**DOLLAR, "max_cost": 10.5}, 10, 0, id="limit"),
        pytest.param(completion(""), {**DOLLAR, "max_cost": 2.0}, 0, 1, id="paid-without-text"),
        pytest.param("5", {**PER_TOKEN, "max_cost": 0.5}, 0, 0, id="below-one-estimate"),
        pytest.param(NO_USAGE, PER_TOKEN, 2, 0, id="no-usage"),
        pytest.param(ABSURD, PER_TOKEN, 2, 0, id="absurd-usage"),
    ],
)
def test_sending_stops_before_the_limit_is_exceeded(server, says, options, replies, empty):
    server.says(says)
    server.delay_s = 0.02
    kinds = Counter(map(type, ask(judge_at(server.url, **options), requests(50, 1000))))
    left = 50 - replies - empty
    assert kinds == Counter({JudgeReply: replies, base.ReplyEmpty: empty, base.OutOfBudget: left})
    assert len(server) == replies + 2 * empty


# Secrets


@pytest.mark.parametrize(
    "says",
    [
        pytest.param(lambda key: error(401, message=f"Incorrect: {key}. Bearer {key}"), id="401"),
        pytest.param(lambda key: error(500, message=f"trace with {key}"), id="500"),
        pytest.param(lambda key: completion(None, refusal=f"not for {key}"), id="refusal"),
        pytest.param(lambda key: {"error": {"message": f"no {key}"}}, id="200"),
    ],
)
def test_no_outcome_or_log_or_repr_has_a_key(server, logs, says):
    key = "4f9a-oddly/shaped+key"
    server.says(says(key))
    server.models, server.check = None, None
    judge = judge_at(server.url, key=key, patience=0.1)
    outcomes = ask(judge, 2)
    try:
        judge.check()
    except JudgeMisconfigured as misconfigured:
        outcomes.append(misconfigured)
    assert server.headers[0]["authorization"] == f"Bearer {key}"
    texts = [*map(repr, outcomes), *map(str, outcomes), *logs, repr(judge)]
    assert not [text for text in texts if key in text]


def test_a_password_in_an_address_is_sent_and_redacted(server, logs):
    judge = judge_at(server.url.replace("http://", "http://me:hush-hush@"), patience=0.1)
    judge.check()
    assert ask(judge)[0].text == "5"
    server.stop()
    with pytest.raises(JudgeMisconfigured) as raised:
        judge.check()
    texts = [str(raised.value), str(ask(judge)[0]), *logs, repr(judge), str(judge.signature)]
    assert server.headers[0]["authorization"] == "Basic bWU6aHVzaC1odXNo"
    assert not [text for text in texts if "hush-hush" in text or "bWU6aHVzaC1odXNo" in text]
    assert server.url in texts[0]
