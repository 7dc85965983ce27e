"""Errors in every form give message, parameter and code alike; the page has the sources."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.http.error_body import read_error_body
from mmie_tasks.http.errors import ServerError, read_server_error

MESSAGE = "Unsupported value: 'temperature' does not support 0."
CODE, PARAM = "unsupported_value", "temperature"
OBJECT = {"message": MESSAGE, "type": "invalid_request_error", "param": PARAM, "code": CODE}
ERROR = {"error": OBJECT}
LOCATED = {"type": CODE, "loc": ["body", PARAM], "msg": MESSAGE, "input": {"message": "a prompt"}}


def quoting(quoted):
    return {"error": {"message": "Provider returned error", "code": 400, **quoted}}


FULL = {
    "object": ERROR,
    "list-of-one": [ERROR],
    "top-level": {"object": "error", **OBJECT},
    "text-in-json": json.dumps(ERROR),
    "detail": {"detail": ERROR},
    "detail-of-fields": {"detail": OBJECT},
    "validation": {"detail": [LOCATED]},
    "validation-in-message": {"object": "error", "message": {"detail": [LOCATED]}, "code": None},
    "validation-in-python": {
        "object": "error",
        "message": f"1 validation error:\n  {LOCATED | {'loc': ('body', PARAM)}!r}\n\n  File x.py",
        "type": "Bad Request",
        "code": 400,
    },
    "errors": {"errors": [OBJECT], "success": False, "result": None},
    "batch-errors": {"object": "list", "data": [OBJECT | {"line": 1}]},
    "success-false": {"success": False, **ERROR},
    "anthropic": {"type": "error", "error": {"type": CODE, "message": MESSAGE, "param": PARAM}},
    "names-of-others": {"error_code": CODE, "error_msg": MESSAGE, "parameter": PARAM},
    "camel-case": {"errorCode": CODE, "errorMessage": MESSAGE, "field": PARAM},
    "json-in-message": {"error": {"message": json.dumps(ERROR), "code": "400", "type": None}},
    "json-after-words": {"error": {"message": f"XException - {json.dumps(ERROR)}. Group=m"}},
    "python-after-words": {"detail": f"Error code: 400 - {ERROR!r}"},
    "raw-json": quoting({"metadata": {"raw": json.dumps(ERROR), "provider_name": "x"}}),
    "raw-object": quoting({"metadata": {"raw": ERROR}}),
    "raw-list": quoting({"metadata": {"raw": json.dumps([ERROR], indent=1)}}),
}


@pytest.mark.parametrize("body", [pytest.param(body, id=name) for name, body in FULL.items()])
def test_message_parameter_and_code_are_read_in_every_form(body):
    expected = ServerError(status=400, code=CODE, param=PARAM, message=MESSAGE)
    sent = body if isinstance(body, str) else json.dumps(body)
    assert read_server_error(400, sent.encode()) == expected
    assert read_server_error(400, body) == expected
    assert expected.is_parameter
    assert expected.concerns("temperature")


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        pytest.param({"error": "model 'x' not found"}, "model 'x' not found", "", id="string"),
        pytest.param({"detail": "Not Found"}, "Not Found", "", id="detail"),
        pytest.param({"error": "bad", "error_type": "validation"}, "bad", "validation", id="type"),
        pytest.param({"code": "Arrearage", "message": "Pay."}, "Pay.", "arrearage", id="code"),
        pytest.param({"error": {"code": "1113", "message": "Pay."}}, "Pay.", "1113", id="digits"),
        pytest.param({"code": 40001, "msg": "No."}, "No.", "40001", id="number"),
        pytest.param(
            {"base_resp": {"status_code": 1004, "status_msg": "login fail"}},
            "login fail",
            "1004",
            id="base-resp",
        ),
        pytest.param(
            {"error": "invalid_token", "error_description": "It has expired."},
            "It has expired.",
            "",
            id="description",
        ),
        pytest.param(
            {"status": 404, "error": "Not Found", "message": "No route", "path": "/v1"},
            "No route",
            "",
            id="words-beside-a-message",
        ),
        pytest.param(
            {"error": "rate_limited", "message": "Slow down."},
            "Slow down.",
            "rate_limited",
            id="error-as-code",
        ),
        pytest.param(
            {"type": "about:blank", "title": "Bad Request", "status": 400, "detail": "No model."},
            "No model.",
            "",
            id="problem-details",
        ),
        pytest.param({"errors": ["a is wrong", "b too"]}, "a is wrong; b too", "", id="strings"),
        pytest.param({"error": {"type": "overloaded"}}, "", "overloaded", id="type-only"),
        pytest.param({"detail": {"why": "x"}}, '{"why": "x"}', "", id="unknown-names"),
        pytest.param(
            {"error": {"message": "Provider returned error", "metadata": {"raw": "overloaded"}}},
            "overloaded",
            "",
            id="raw-words",
        ),
        pytest.param("upstream  timed\nout", "upstream timed out", "", id="plain"),
        pytest.param(
            "<!DOCTYPE html>\n<html><head><title> 502 Bad Gateway </title><style>a{}</style></head>"
            "<body><h1>nginx</h1></body></html>",
            "502 Bad Gateway",
            "",
            id="page",
        ),
        pytest.param(
            "<html><script>go(1 < 2)</script><h1>Too &amp; many</h1><p>Wait.",
            "Too & many Wait.",
            "",
            id="page-without-title",
        ),
        pytest.param(
            {"message": "Upstream said <html><title>504</title></html>"},
            "Upstream said 504",
            "",
            id="page-in-json",
        ),
        pytest.param(
            '<?xml version="1.0"?><Error><Code>AccessDenied</Code> <Message>No.</Message></Error>',
            "AccessDenied No.",
            "",
            id="xml",
        ),
        pytest.param("<image> is not a token", "<image> is not a token", "", id="no-page"),
        pytest.param(
            "Invalid messages[0]: {'role': 'x'}",
            "Invalid messages[0]: {'role': 'x'}",
            "",
            id="dict",
        ),
        pytest.param("", "", "", id="empty"),
        pytest.param("null", "", "", id="null"),
        pytest.param("[]", "", "", id="empty-list"),
        pytest.param('{"choices": []}', "", "", id="no-error"),
    ],
)
def test_what_an_error_says_is_read_without_markup(body, message, code):
    sent = body if isinstance(body, str) else json.dumps(body)
    error = read_server_error(500, sent.encode())
    assert (error.message, error.code, error.param) == (message, code, "")


def test_a_parameter_that_the_message_does_not_name_is_in_the_text():
    extra = {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs"}
    text = "HTTP 422 (extra_forbidden): Extra inputs (`seed`)"
    assert str(read_server_error(422, {"detail": [extra]})) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "errors", "message", "detail", "code", "loc", "raw", "x"]),
            inner,
        )
    ),
    max_leaves=9,
)


@given(JSON)
def test_any_body_can_be_read(body):
    for sent in (body, json.dumps(body), repr(body), json.dumps({"message": repr(body)})):
        error = read_error_body(sent)
        assert read_error_body(error.message.encode()) is not None


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("[" * 10**6, id="deep"),
        pytest.param('{"error":' * 900 + "1" + "}" * 900, id="deep-objects"),
        pytest.param("<" * 10**7, id="markup"),
        pytest.param("<title>" * 10**6, id="titles"),
        pytest.param("{'" * 10**6, id="python"),
        pytest.param("x" * 10**8, id="long"),
        pytest.param("a://" * 10**6, id="addresses"),
        pytest.param(json.dumps([{"error": {"message": "x" * 99}}] * 10**5), id="list"),
        pytest.param("{" + ",".join(f'"{n}":0' for n in range(10**5)) + "}", id="keys"),
    ],
)
def test_a_hostile_body_costs_little_time(body):
    sent = body.encode()
    begun = time.process_time()
    assert len(read_server_error(500, sent).message) <= 200
    assert time.process_time() - begun < 10


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        pytest.param("x", "You exceeded x", id="x"),
        pytest.param("none", "none is left", id="none"),
        pytest.param("EMPTY", "The queue is EMPTY", id="empty"),
    ],
)
def test_a_stand_in_for_a_key_stays_in_a_message(secret, text):
    assert read_server_error(429, {"error": {"message": text}}, [secret]).message == text


@pytest.mark.parametrize("name", ["message", "code", "param"])
def test_a_key_is_in_no_field(name):
    error = read_server_error(
        400, [{"error": {"message": "m", name: f"{'a' * 90}-OddKey"}}], ["OddKey"]
    )
    assert "oddkey" not in str(error).lower()


@pytest.mark.parametrize(
    "message",
    [
        "API key not valid. Please pass a valid API key.",
        "Incorrect API key provided: abc.",
        "Invalid API-key provided.",
    ],
)
def test_a_wrong_key_is_known_by_its_message(message):
    assert read_server_error(400, [{"error": {"message": message}}]).is_key
    assert not read_server_error(400, {"error": "the key `model` is invalid"}).is_key
