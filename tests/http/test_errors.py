"""Errors as servers send them: what they mean, their words, the wait they demand, no secrets."""

import json
import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.http.errors import Fault, demanded_wait_s, kind_of, message_of, redact

MESSAGE = "Unsupported value: 'temperature' does not support 0."
OBJECT = {"message": MESSAGE, "type": "invalid_request_error", "param": "temperature"}
ERROR = {"error": OBJECT}
LOCATED = {"type": "unsupported", "loc": ["body", "temperature"], "msg": MESSAGE, "input": "p"}
BODIES = {
    "OpenAI": ERROR,
    "Gemini": [ERROR],
    "vLLM": {"object": "error", **OBJECT},
    "FastAPI": {"detail": [LOCATED]},
    "Mistral": {"object": "error", "message": {"detail": [LOCATED]}},
    "Cloudflare": {"errors": [OBJECT], "success": False},
    "Anthropic": {"type": "error", "error": {"type": "unsupported", "message": MESSAGE}},
    "a batch": {"object": "list", "data": [OBJECT | {"line": 1}]},
    "claude-code-router": {"error": {"message": json.dumps(ERROR), "code": "400"}},
    "LiteLLM": {"error": {"message": f"XException - {json.dumps(ERROR)}. Group=m"}},
    "OpenRouter": {
        "error": {"message": "Provider returned error", "metadata": {"raw": json.dumps(ERROR)}}
    },
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_words_and_the_parameter_of_an_error_are_found_in_every_form(body):
    text = json.dumps(body)
    fault = Fault("rejected", "", status=400, body=text)
    assert "does not support 0" in message_of(text)
    assert fault.rejects("max_tokens", "temperature") == "temperature"
    assert fault.rejects("max_tokens", "tools?") is None


@pytest.mark.parametrize(
    ("status", "message", "rejects"),
    [
        (400, "'max_tokens' is not supported. Use 'max_completion_tokens'.", "max_tokens"),
        (422, "max_completion_tokens: Extra inputs are not permitted", "max_completion_tokens"),
        (404, "Unknown name 'temperature': Cannot find field.", "temperature"),
        (400, "max_tokens is too large: 9999", None),
        (400, "unsupported image", None),
        (500, "unknown max_tokens", None),
    ],
)
def test_only_an_unsupported_parameter_is_rejected(status, message, rejects):
    names = ("max_tokens", "max_completion_tokens", "temperature")
    fault = Fault("rejected", "", status=status, body=json.dumps({"error": message}))
    assert fault.rejects(*names) == rejects


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        pytest.param(429, "slow down", "busy", id="429"),
        pytest.param(429, '{"code": "insufficient_quota"}', "denied", id="no-credit"),
        pytest.param(402, "", "denied", id="402"),
        pytest.param(404, "no such model", "denied", id="404"),
        pytest.param(400, "API key not valid. Please pass one.", "denied", id="gemini-key"),
        pytest.param(400, "Incorrect API key provided: abc.", "denied", id="openai-key"),
        pytest.param(400, "the key `model` is invalid", "rejected", id="another-key"),
        pytest.param(403, '{"code": "content_policy_violation"}', "rejected", id="filter"),
        pytest.param(400, '{"code": "ResponsibleAIPolicy"}', "rejected", id="azure"),
        pytest.param(413, "too large", "rejected", id="413"),
        pytest.param(408, "", "failed", id="408"),
        pytest.param(503, "Loading model", "failed", id="503"),
        pytest.param(529, "overloaded", "failed", id="529"),
    ],
)
def test_an_error_says_what_follows_for_its_request(status, body, kind):
    assert kind_of(status, body) == kind


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param({"error": "model 'x' not found"}, "model 'x' not found", id="ollama"),
        pytest.param({"detail": "Not Found"}, "Not Found", id="fastapi"),
        pytest.param({"errors": ["a is wrong", "b too"]}, "a is wrong; b too", id="strings"),
        pytest.param("upstream  timed\nout", "upstream timed out", id="plain"),
        pytest.param("<html><title> 502 Bad</title><h1>nginx</h1>", "502 Bad nginx", id="page"),
        pytest.param("", "", id="empty"),
        pytest.param("null", "null", id="null"),
        pytest.param('{"choices": []}', "", id="no-error"),
    ],
)
def test_an_error_is_shown_in_the_servers_words(body, words):
    assert message_of(body if isinstance(body, str) else json.dumps(body)) == words


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        pytest.param({}, "", None, id="none"),
        pytest.param({"retry-after": "1.5"}, "try again in 9s", 1.5, id="seconds"),
        pytest.param({"retry-after-ms": "250", "retry-after": "1"}, "", 0.25, id="azure"),
        pytest.param({"retry-after": "soon"}, "", None, id="odd"),
        pytest.param({}, '{"@type": "RetryInfo", "retryDelay": "37s"}', 37.0, id="gemini"),
        pytest.param({}, "Please try again in 6m0s. Visit x", 360.0, id="openai"),
        pytest.param({}, "Please try again in 120ms.", 0.12, id="milliseconds"),
        pytest.param({}, "Please try again in 2m59.56s.", 179.56, id="groq"),
        pytest.param({}, "Please retry after 6 seconds.", 6.0, id="azure-words"),
        pytest.param({}, "Please try again later.", None, id="later"),
    ],
)
def test_a_demanded_wait_is_read(headers, body, seconds):
    assert demanded_wait_s(headers, body) == (seconds and pytest.approx(seconds))


def test_a_wait_may_be_a_date():
    for seconds, wait_s in ((100, 100), (-100, 0)):
        date = formatdate(time.time() + seconds, usegmt=True)
        assert demanded_wait_s({"retry-after": date}) == pytest.approx(wait_s, abs=2)


KEYS = ("sk-thisisnotarealkey", "4f9a-oddly/shaped+key")


@given(st.text(), st.text(), st.integers(100, 599))
def test_any_body_and_header_can_be_read_and_no_key_is_shown(before, after, status):
    for key in KEYS:
        for body in (
            before + key + after,
            json.dumps({"error": {"message": before + key + after}}),
        ):
            assert kind_of(status, body) in ("busy", "failed", "denied", "rejected")
            assert (demanded_wait_s({"retry-after": before}, body) or 0.0) >= 0.0
            shown = redact(message_of(body), KEYS)
            assert key not in shown
            assert len(shown) <= 300


@pytest.mark.parametrize("secret", ["x", "none", "EMPTY"])
def test_a_stand_in_for_a_key_stays_in_a_message(secret):
    assert redact(f"{secret} is left", [secret]) == f"{secret} is left"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("[" * 10**5, id="deep"),
        pytest.param("<" * 2**16, id="markup"),
        pytest.param("retry in " + "1" * 2**16, id="digits"),
        pytest.param("retry " * 10**4, id="words"),
        pytest.param("api key " * 8000, id="keys"),
        pytest.param("a://" * 2**14, id="addresses"),
    ],
)
def test_a_hostile_body_costs_little_time(body):
    begun = time.process_time()
    redact(message_of(body)), kind_of(400, body), demanded_wait_s({}, body)
    Fault("rejected", "", status=400, body=body).rejects("temperature")
    assert time.process_time() - begun < 5
