import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.judge_asking import settings_of

from mmie_tasks.http.errors import ServerError, UnusableBody, read_server_error
from mmie_tasks.judges.base import JudgeRefused, JudgeRequest
from mmie_tasks.judges.openai import chat_request, chat_server, completion
from mmie_tasks.judges.openai.completion import Price
from mmie_tasks.judges.openai.dialect import PLAIN
from mmie_tasks.record.reply import JudgeReply, Usage

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
MESSAGE = st.fixed_dictionaries({}, optional={"content": JSON, "refusal": JSON, "tool_calls": JSON})
CHOICE = st.fixed_dictionaries({}, optional={"message": MESSAGE | JSON, "finish_reason": JSON})
DETAILS = st.fixed_dictionaries({}, optional={"reasoning_tokens": JSON}) | JSON
USAGE = st.fixed_dictionaries(
    {},
    optional={
        "prompt_tokens": JSON,
        "completion_tokens": JSON,
        "completion_tokens_details": DETAILS,
    },
)
COMPLETION = st.fixed_dictionaries(
    {},
    optional={
        "choices": st.lists(CHOICE | JSON, max_size=2) | JSON,
        "usage": USAGE | JSON,
        "model": JSON,
    },
)


def completion_of(message, **more):
    return {"choices": [{"message": message, **more}]}


@given(COMPLETION | JSON)
def test_any_response_is_a_reply_a_refusal_or_unusable(sent):
    try:
        outcome = completion.read_completion(
            sent, model="asked", price=Price(input_usd=1, output_usd=1)
        )
    except (UnusableBody, completion.PoorReply):
        return
    if isinstance(outcome, JudgeRefused):
        return
    assert outcome.text.strip()
    assert outcome.model
    used = outcome.usage
    counts = (used.input_tokens, used.output_tokens, used.reasoning_tokens)
    assert all(type(count) is int and count >= 0 for count in counts)


@given(COMPLETION | JSON, st.integers(100, 599))
def test_any_error_response_can_be_read(sent, status):
    assert str(read_server_error(status, sent)) == str(read_server_error(status, sent))
    assert f"HTTP {status}" in str(read_server_error(status, json.dumps(sent).encode()))


@given(st.text().filter(str.strip))
def test_the_text_of_a_reply_is_unchanged(text):
    assert completion.read_completion(completion_of({"content": text}), model="m") == JudgeReply(
        text=text, model="m"
    )


def test_text_in_several_parts_is_one_text():
    parts = [{"type": "text", "text": "a"}, {"type": "odd"}, {"type": "text", "text": "b"}]
    assert completion.read_completion(completion_of({"content": parts}), model="m").text == "ab"


def test_hidden_reasoning_is_counted_and_named_if_it_used_all_tokens():
    details = {"reasoning_tokens": 90}
    usage = {"prompt_tokens": 1, "completion_tokens": 100, "completion_tokens_details": details}
    sent = {**completion_of({"content": ""}, finish_reason="length"), "usage": usage}
    assert completion.usage_of(sent) == Usage(
        input_tokens=1, output_tokens=100, reasoning_tokens=90
    )
    with pytest.raises(completion.PoorReply) as raised:
        completion.read_completion(sent, model="m")
    assert "100 tokens, 90 of hidden reasoning" in str(raised.value)


@pytest.mark.parametrize(
    ("usage", "cost_usd"),
    [
        pytest.param(None, None, id="missing"),
        pytest.param({"prompt_tokens": 10, "completion_tokens": 5}, 15e-6, id="both"),
        pytest.param({"prompt_tokens": 10, "completion_tokens": 0}, 10e-6, id="no-text"),
        pytest.param({"prompt_tokens": 10}, None, id="no-completion-tokens"),
        pytest.param({"prompt_tokens": 10**30, "completion_tokens": 5}, None, id="absurd-prompt"),
    ],
)
def test_missing_or_malformed_usage_has_an_unknown_cost(usage, cost_usd):
    sent = {**completion_of({"content": "5"}), "usage": usage}
    assert completion.usage_of(sent, Price(input_usd=1, output_usd=1)).cost_usd == (
        None if cost_usd is None else pytest.approx(cost_usd)
    )


@pytest.mark.parametrize(
    ("data", "name", "mime"),
    [
        pytest.param(b"\x89PNG\r\n\x1a\n..", "a.jpg", "image/png", id="png"),
        pytest.param(b"\xff\xd8\xff\xe1..MPF", "a.png", "image/jpeg", id="jpeg"),
        pytest.param(b"RIFF\x00\x00\x00\x00WEBPVP8 ", "a.jpg", "image/webp", id="webp"),
        pytest.param(b"II*\x00", "a", "image/tiff", id="tiff"),
        pytest.param(b"?", "a.jpeg", "image/jpeg", id="suffix"),
        pytest.param(b"?", "a", "application/octet-stream", id="unknown"),
    ],
)
def test_the_mime_type_follows_the_first_bytes(data, name, mime):
    assert chat_request.mime_type(data, Path(name)) == mime


def test_parts_keep_their_order_and_detail_is_sent_only_if_set(tmp_path):
    image = tmp_path / "a.gif"
    image.write_bytes(b"GIF89a")
    request = JudgeRequest(parts=("a", image, "b"), max_tokens=9)
    plain = chat_request.chat_body(request, settings_of(temperature=None), PLAIN)
    options = {"temperature": "none", "detail": "low", "max_tokens": 3}
    low = chat_request.chat_body(request, settings_of(**options), PLAIN)
    kinds = [part["type"] for part in plain["messages"][0]["content"]]
    assert kinds == ["text", "image_url", "text"]
    assert "detail" not in str(plain)
    assert low["messages"][0]["content"][1]["image_url"]["detail"] == "low"
    assert (plain["max_tokens"], low["max_tokens"], "temperature" in plain) == (9, 3, False)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            ("max_completion_tokens", True),
            id="max_tokens",
        ),
        pytest.param(
            "Unsupported value: 'temperature' does not support 0 with this model.",
            ("max_tokens", False),
            id="temperature",
        ),
    ],
)
def test_an_unsupported_parameter_is_replaced(message, expected):
    switched = chat_server.next_dialect(PLAIN, ServerError(status=400, message=message))
    assert (switched.max_tokens_name, switched.takes_temperature) == expected


@pytest.mark.parametrize(
    "said_so",
    [
        pytest.param(ServerError(status=400, message="max_tokens is too large: 9999"), id="large"),
        pytest.param(ServerError(status=400, message="unsupported image"), id="image"),
        pytest.param(ServerError(status=500, message="unknown max_tokens"), id="500"),
        pytest.param(
            ServerError(status=400, code="unsupported_value", param="detail"),
            id="another-parameter",
        ),
    ],
)
def test_other_errors_do_not_change_the_dialect(said_so):
    assert chat_server.next_dialect(PLAIN, said_so) is None
