"""A judge with ``reasoning_effort`` and ``extra_body``: requests, signature, cache and check."""

import json

import pytest
from support.judge_asking import ask, cached_judge_at, judge_at, requests, settings_of
from support.judge_server import JudgeServer
from support.loopback import error

from mmie_tasks.core.choice import parse_choice
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.cache import outcomes_of
from mmie_tasks.judges.choice import parse_flags
from mmie_tasks.judges.judge import judge
from mmie_tasks.record.signature import signature_text
from mmie_tasks.runner.launchers import parse_launcher_args

BODY = '{"chat_template_kwargs": {"enable_thinking": false}, "provider": {"order": ["a", "b"]}}'


@pytest.fixture
def server():
    with JudgeServer("5", check=None) as server:
        yield server


def test_both_options_are_in_every_request_as_the_sdk_takes_them(server):
    asked = judge_at(server.url, reasoning_effort="low", extra_body=BODY)
    asked.check()
    ask(asked)
    assert len(server.asked) == 2
    for body in server.asked:
        assert body["reasoning_effort"] == "low"
        assert body.items() >= json.loads(BODY).items()
        assert "extra_body" not in body


@pytest.mark.parametrize(
    ("options", "signature"),
    [
        pytest.param({}, "judge:openai|model:m|t:0", id="neither"),
        pytest.param({"reasoning_effort": "", "extra_body": "{}"}, "judge:openai|model:m|t:0",
                     id="empty"),
        pytest.param({"reasoning_effort": "none"}, "judge:openai|model:m|t:0|reasoning:none",
                     id="none"),
        pytest.param({"extra_body": '{"b": 1, "a": 2}'},
                     'judge:openai|model:m|t:0|extra_body:{"a":2,"b":1}', id="body"),
        pytest.param({"model": "gpt-6-luna"},
                     "judge:openai|model:gpt-6-luna|t:none|reasoning:+8192", id="luna"),
        pytest.param({"model": "gpt-6-luna", "reasoning_effort": "low"},
                     "judge:openai|model:gpt-6-luna|t:none|reasoning:low+8192", id="luna-low"),
        pytest.param({"model": "gpt-6-luna", "reasoning_effort": "none"},
                     "judge:openai|model:gpt-6-luna|t:0|reasoning:none", id="luna-none"),
    ],
)  # fmt: skip
def test_the_signature_says_how_the_judge_reasons(options, signature):
    assert signature_text(**settings_of(**options).signature) == signature


def test_a_reasoning_model_that_does_not_reason_gets_a_temperature(server):
    asked = judge_at(server.url, model="gpt-6-luna", reasoning_effort="none")
    ask(asked, requests(1, max_tokens=9))
    (body,) = server.asked
    assert (body["temperature"], body["max_completion_tokens"]) == (0, 9)


def test_a_reply_is_cached_for_its_effort_and_its_body_only(server, tmp_path):
    for options in ({}, {"reasoning_effort": "low"}, {"extra_body": BODY}) * 2:
        judge_ = cached_judge_at(server.url, tmp_path / "replies.sqlite3", **options)
        assert [reply.text for _, reply in outcomes_of(judge_, requests(1))] == ["5"]
    assert len(server) == 3


@pytest.mark.slow
def test_the_options_of_every_door_are_the_same():
    options = {"model": "m", "reasoning_effort": "none", "extra_body": BODY, "timeout": "9"}
    args = f"reasoning_effort=none,extra_body={BODY},timeout=9"
    flags = parse_flags(["openai:m"], [args])[""].judges[0]
    launched = parse_launcher_args(f"name=openai,model=m,{args}")[""].judges[0]
    assert flags.options == launched.options == options
    assert parse_choice(flags.text, "a run").options == options


def test_in_python_the_body_may_be_a_map(server, tmp_path, monkeypatch):
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path))
    judge("openai:m", "q", base_url=server.url, api_key_env=None, extra_body={"top_k": 1})
    assert {body["top_k"] for body in server.asked} == {1}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *((name, f"`{name}=`") for name in ("model", "temperature", "max_tokens")),
        ("max_completion_tokens", "`max_tokens=`"),
        ("reasoning_effort", "`reasoning_effort=`"),
        *((name, "leave it out") for name in ("messages", "tools", "response_format", "stream")),
    ],
)
def test_a_field_that_we_compute_is_refused_with_the_option_that_sets_it(name, words):
    with pytest.raises(SettingWrong, match=name) as raised:
        settings_of(extra_body=json.dumps({name: 1}))
    assert words in raised.value.hint


@pytest.mark.parametrize(
    ("refusal", "hint"),
    [
        pytest.param({"param": "reasoning_effort", "message": "Unsupported value: 'lo'. Supported "
                      "values are: 'low', 'none'."}, "`reasoning_effort=low`", id="value"),
        pytest.param({"message": "Unrecognized request argument supplied: top_q"},
                     "did you mean `top_", id="name"),
    ],
)  # fmt: skip
def test_a_server_that_refuses_an_option_fails_the_check_and_the_run_with_its_words(
    server, refusal, hint
):
    server.says(error(400, **refusal))
    options = {"reasoning_effort": "lo", "extra_body": '{"top_q": 1}', "patience": 0.3}
    with pytest.raises(JudgeMisconfigured) as raised:
        judge_at(server.url, **options).check()
    assert refusal["message"] in raised.value.message
    assert hint in raised.value.hint
    assert len(server) == 1
    (outcome,) = ask(judge_at(server.url, **options))
    assert isinstance(outcome, JudgeMisconfigured)
    assert refusal["message"] in str(outcome)
