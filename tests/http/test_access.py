"""Addresses, keys, proxies and lists of models of servers."""

import os
from contextlib import nullcontext
from dataclasses import replace

import pytest
from support.judge_server import JudgeServer
from support.loopback import Sent, error

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.http.access import Access, read_base_url, read_key, server_name, storage_name
from mmie_tasks.http.errors import Fault
from mmie_tasks.http.extra_body import read_extra_body


def access_to(url, **more):
    settings = {"api_key": None, "key_variables": ("OPENAI_API_KEY",), "timeout_s": 30.0, **more}
    return Access(service="The judge `m`", base_url=url, **settings)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (None, "https://api.openai.com/v1"),
        ("http://h:8000/v1/", "http://h:8000/v1"),
        (" http://h/v1/chat/completions", "http://h/v1"),
        ("http://h/v1/images/generations", "http://h/v1"),
        ("http://me:w@[::1]:80/v1", "http://me:w@[::1]:80/v1"),
    ],
)
def test_an_address_may_be_written_in_several_ways(text, url):
    assert read_base_url("judge", text) == url


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("h:8000/v1", "http://HOST:PORT/v1"),
        ("http://h:x/v1", "http://HOST:PORT/v1"),
        (";", "http://HOST:PORT/v1"),
        ("http://a;http://b", "load balancer"),
        ("http://a/v1 http://b/v1", "load balancer"),
        ("https://h/v1?code=hush", "query"),
    ],
)
def test_what_is_not_one_address_is_refused_and_not_repeated(text, words):
    with pytest.raises(SettingWrong) as raised:
        read_base_url("judge", text)
    assert words in str(raised.value)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "host", "name"),
    [
        ("https://api.openai.com/v1", None, None),
        ("https://eu.api.openai.com:443/v1", None, None),
        ("https://x.openai.azure.com", "x.openai.azure.com", "x.openai.azure.com"),
        ("https://api.openai.com.evil.net/v1", *["api.openai.com.evil.net"] * 2),
        ("HTTP://LOCALHOST:8000/v1/", "127.0.0.1", "127.0.0.1:8000"),
        ("http://0.0.0.0:8000", "127.0.0.1", "127.0.0.1:8000"),
        ("https://me:word@H:443/gateway/v1", "h", "h/gateway"),
        ("https://h:80/v1", "h", "h:80"),
    ],
)
def test_a_server_has_one_name_however_its_address_is_written(url, host, name):
    access = access_to(url)
    assert (access.foreign_host, access.storage_name, storage_name(url)) == (host, name, name)
    assert name is None or server_name(url) == name


@pytest.mark.parametrize(
    ("url", "api_type", "is_required"),
    [
        ("https://api.openai.com/v1", "openai", True),
        ("https://x.openai.azure.com/openai/v1", "openai", True),
        ("http://h/v1", "azure", True),
        ("http://h/v1", "openai", False),
    ],
)
def test_only_the_providers_require_a_key(url, api_type, is_required):
    access = access_to(url, api_type=api_type)
    assert (access.missing_key(SettingWrong) is not None) == is_required
    assert replace(access, api_key="k").missing_key(SettingWrong) is None


@pytest.mark.parametrize("variables", [{}, {"K": "“sk-quoted”"}], ids=["not-set", "typographic"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_repeated(variables):
    with pytest.raises(SettingWrong) as raised:
        read_key("judge", "K", ("K",), variables)
    assert "sk-quoted" not in str(raised.value)


def test_no_repr_has_a_key_or_a_password():
    access = access_to("http://me:hush-hush@h/v1", api_key="sk-hush")
    assert "hush" not in repr(access) + access.address
    assert access.secrets == ("sk-hush", "hush-hush", "hush-hush")


@pytest.fixture
def proxies(monkeypatch):
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    return lambda **variables: [monkeypatch.setenv(*pair) for pair in variables.items()]


def test_a_proxy_that_the_address_goes_through_is_in_the_hint(proxies):
    access = access_to("http://gpu7:8000/v1")
    assert "proxy" not in access.unreachable_hint
    proxies(http_proxy="http://proxy:3128")
    assert "`http_proxy`" in access.unreachable_hint
    assert "no_proxy=gpu7" in access.unreachable_hint
    proxies(no_proxy="gpu7")
    assert "proxy" not in access.unreachable_hint


@pytest.mark.parametrize("proxy", ["socks5://h:1", "nonsense://h:1"])
def test_a_proxy_that_cannot_be_used_is_a_wrong_setting(proxies, monkeypatch, proxy):
    monkeypatch.setitem(__import__("sys").modules, "socksio", None)
    proxies(all_proxy=proxy)
    access = access_to("http://gpu7:8000/v1")
    for open_client in (access.async_client, lambda: access.client(0)):
        with pytest.raises(SettingWrong) as raised:
            open_client()
        assert "`all_proxy`" in str(raised.value)


@pytest.mark.parametrize(
    ("model", "models", "missing"),
    [
        ("gpt-4o", ["gpt-4o"], ""),
        ("openai/gpt-4o", ["gpt-4o"], ""),
        ("gpt-4o", ["openai/gpt-4o"], ""),
        ("qwen3", ["qwen3:latest"], ""),
        ("gpt-4o", ["openai/*"], ""),
        ("gpt-4o", [], ""),
        ("gpt-4o", Sent(content=b"<html>"), ""),
        ("gpt-4o", Sent(content=b"[1]"), ""),
        ("gpt-4o", ["llama", "qwen"], "which has `llama`, `qwen`"),
        ("gpt-4o", Sent(content=b'{"data": [1, {"id": "a"}, {"id": 7}]}'), "which has `a`"),
    ],
)
def test_a_model_that_a_list_lacks_is_an_error(model, models, missing):
    with JudgeServer(models=models) as server:
        access = access_to(server.url)
        with pytest.raises(SettingWrong, match=missing) if missing else nullcontext():
            access.check_listed(model, SettingWrong, "x")
        server.models = error(401, message="no")
        with pytest.raises(Fault):
            access.model_names()


@pytest.mark.parametrize("text", ["[1]", "{", "[" * 10**5, '{"model": 1}'])
def test_an_extra_body_that_cannot_be_sent_is_refused(text):
    with pytest.raises(ValueError, match="extra_body"):
        read_extra_body(text, ("model",))


def test_an_extra_body_has_one_form():
    assert read_extra_body(' {"b": "x|y", "a": null} ', ()) == '{"a":null,"b":"x\\u007cy"}'
    assert read_extra_body("{}", ()) == read_extra_body(" ", ()) == ""
