"""No message, log or repr contains a key or password, whatever a server sends."""

import base64
import logging
from urllib.parse import parse_qsl, quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.judge_asking import FAST, KEY, ask, judge_at, open_openai, settings_of
from support.judge_server import JudgeServer, completion
from support.loopback import Sent, error

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.http.errors import read_server_error
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.openai.judge import OpenAIJudge

ODD_KEY = "4f9a-oddly/shaped+key"


@pytest.mark.parametrize("key", [pytest.param(KEY, id="sk"), pytest.param(ODD_KEY, id="odd")])
def test_a_key_in_a_servers_message_is_redacted(server, log, caplog, key):
    server.says(error(401, message=f"Incorrect API key: {key}. Bearer {key}"))
    server.models = None
    judge = judge_at(server.url, key=key, patience=0.1)
    with caplog.at_level(logging.DEBUG):
        outcomes = ask(judge, 3)
        try:
            judge.check()
        except JudgeMisconfigured as error_of_check:
            outcomes.append(error_of_check)
    texts = [*map(repr, outcomes), *map(str, outcomes), *log, caplog.text, repr(judge)]
    assert server.headers[0]["authorization"] == f"Bearer {key}"
    assert not [text for text in texts if key in text]


@pytest.mark.parametrize("key", ["x", "1", "none", "EMPTY"])
def test_a_stand_in_for_a_key_leaves_messages_readable(server, key):
    words = "You exceeded 1 quota: none left, EMPTY"
    server.says(error(400, message=words))
    assert words in str(ask(judge_at(server.url, key=key))[0])


def test_a_password_in_an_address_is_sent_and_redacted(server, log, caplog):
    address = server.url.replace("http://", "http://me:hush-hush@")
    judge = judge_at(address, patience=0.1)
    with caplog.at_level(logging.DEBUG):
        judge.check()
        assert ask(judge)[0].text == "5"
        server.stop()
        with pytest.raises(JudgeMisconfigured) as raised:
            judge.check()
    texts = [str(raised.value), str(ask(judge)[0]), *log, caplog.text, repr(judge)]
    assert server.headers[0]["authorization"] == "Basic bWU6aHVzaC1odXNo"
    assert not [text for text in texts if "hush-hush" in text or "bWU6aHVzaC1odXNo" in text]
    assert server.url in texts[0]


def test_a_query_in_an_address_is_sent_with_every_request_and_redacted(server, log, caplog):
    query = "api-version=1&code=hush%2Dhush"
    options = {"base_url": f"{server.url}/chat/completions?{query}", "model": "judge-model"}
    judge = OpenAIJudge(settings_of(patience=0.1, **options), pace=FAST)
    with caplog.at_level(logging.DEBUG):
        judge.check()
        assert ask(judge)[0].text == "5"
        server.says(error(500, message=f"no {query}, and no hush-hush"))
        outcomes = ask(judge)
    texts = [*map(str, outcomes), *log, caplog.text, repr(judge), judge.signature]
    assert server.paths[0] == "/v1/chat/completions"
    assert parse_qsl(server.queries[0]) == parse_qsl(query)
    assert not [text for text in texts if "hush" in text]


def rejection(text):
    return error(400, message=f"you sent {text}, which is wrong")


PASSWORD = "hush+h/sh&"
BASIC = base64.b64encode(f"me:{PASSWORD}".encode()).decode()


@pytest.mark.parametrize(
    ("echo", "place"),
    [
        pytest.param(PASSWORD, rejection, id="as-it-is"),
        pytest.param(quote(PASSWORD, safe=""), rejection, id="url-quoted"),
        pytest.param(BASIC, rejection, id="basic"),
        pytest.param(
            BASIC, lambda text: Sent(content=f"<p>{text}</p>".encode(), status=502), id="basic-page"
        ),
        pytest.param(
            BASIC,
            lambda text: completion(None, refusal=f"I read {text} and refuse."),
            id="basic-refusal",
        ),
    ],
)
def test_a_password_that_a_server_sends_back_in_another_form_is_redacted(server, log, echo, place):
    server.check = None
    server.says(place(echo))
    address = server.url.replace("http://", f"http://me:{quote(PASSWORD, safe='')}@")
    judge = judge_at(address, key=None, patience=0.1)
    texts = [str(outcome) for outcome in ask(judge)]
    try:
        judge.check()
    except JudgeMisconfigured as misconfigured:
        texts.append(str(misconfigured))
    assert server.headers[0]["authorization"] == f"Basic {BASIC}"
    assert any("…" in text for text in texts)
    assert not [text for text in [*texts, *log] if echo.rstrip("=")[-12:] in text]


@pytest.mark.parametrize("query", ["", "?code=hush-hush"])
def test_a_query_is_not_sent_to_where_a_server_redirects(server, query):
    with JudgeServer("5") as other:
        server.says(Sent(status=308, headers={"location": f"{other.url}/chat/completions"}))
        ask(judge_at(server.url + query, patience=0.1))
        assert len(other) == 1
        assert "hush" not in str(other.queries)


def test_a_key_instead_of_a_variables_name_is_rejected_and_not_repeated():
    with pytest.raises(SettingWrong) as raised:
        open_openai({}, api_key_env=KEY)
    assert KEY not in str(raised.value)


def test_a_key_that_cannot_be_sent_is_rejected_and_not_repeated():
    with pytest.raises(SettingWrong) as raised:
        open_openai({"OPENAI_API_KEY": "“sk-quoted”"})
    assert "sk-quoted" not in str(raised.value)


@given(st.text(), st.text(), st.integers(min_value=200, max_value=599))
def test_no_server_error_contains_a_key(before, after, status):
    for body in (before + KEY + after, {"error": {"message": before + ODD_KEY + after}}):
        read = read_server_error(status, body, [KEY, ODD_KEY])
        assert KEY not in str(read)
        assert ODD_KEY not in str(read)
        assert len(read.message) <= 200
