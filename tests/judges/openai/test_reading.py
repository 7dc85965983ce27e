import pytest
from support.judge_asking import open_openai, settings_of
from support.judge_creation import create

from mmie_tasks.core.choice import Choice
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges import registry
from mmie_tasks.record.signature import signature_text


def test_with_only_a_key_the_providers_own_server_is_used():
    settings = settings_of({"OPENAI_API_KEY": "sk-1"})
    assert settings.access.base_url == "https://api.openai.com/v1"
    assert signature_text(**settings.signature) == "judge:openai|model:m|t:0"
    assert settings.access.needs_key


@pytest.mark.parametrize(
    ("field", "names"),
    [
        ("model", ["JUDGE_MODEL_NAME", "JUDGE_MODEL_VERSION", "MODEL_VERSION"]),
        ("api_key", ["JUDGE_API_KEY", "OPENAI_API_KEY"]),
        ("base_url", ["JUDGE_BASE_URL", "OPENAI_API_URL", "OPENAI_BASE_URL"]),
    ],
)
def test_the_judges_own_variables_come_before_the_shared_ones(field, names):
    environment = {name: f"http://h/{index}" for index, name in enumerate(names)}
    for index, name in enumerate(names):
        setting = getattr(
            settings_of(environment) if field == "model" else settings_of(environment).access, field
        )
        assert setting == f"http://h/{index}"
        environment[name] = " "


def test_azure_has_variables_of_its_own():
    environment = {
        "API_TYPE": "azure",
        "OPENAI_API_KEY": "sk-not-this",
        "OPENAI_BASE_URL": "http://not-this",
        "AZURE_API_KEY": "k",
        "AZURE_ENDPOINT": "https://x.openai.azure.com/openai/deployments/d/chat/completions?a=b",
        "OPENAI_API_VERSION": "2025-01-01",
    }
    settings = settings_of(environment)
    assert (settings.access.api_key, settings.access.api_version) == ("k", "2025-01-01")
    assert settings.access.base_url == "https://x.openai.azure.com"
    assert settings_of(environment, api_type="openai").access.api_key == "sk-not-this"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        pytest.param("http://h:8000/v1/", "http://h:8000/v1", id="slash"),
        pytest.param("http://h/v1/chat/completions", "http://h/v1", id="whole"),
        pytest.param(" http://a/v1; ", "http://a/v1", id="blanks-and-semicolon"),
        pytest.param("http://h/v1/?a=1&b=", "http://h/v1?a=1&b=", id="query"),
    ],
)
def test_an_address_may_be_written_in_several_ways(text, url):
    assert settings_of(base_url=text).access.base_url == url


def test_an_option_wins_over_the_environment():
    settings = settings_of(
        {"MODEL_VERSION": "a", "K": "k", "OPENAI_API_KEY": "o"}, model="b", api_key_env="K"
    )
    assert (settings.model, settings.access.api_key) == ("b", "k")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"base_url": "h:8000/v1"}, "no address", id="no-scheme"),
        pytest.param({"base_url": "http://h:x/v1"}, "no address", id="odd-port"),
        pytest.param({"base_url": ";"}, "no address", id="nothing"),
        pytest.param({"base_url": "http://a;http://b"}, "load balancer", id="two-addresses"),
        pytest.param({"base_url": "http://a/v1 http://a/v1"}, "load balancer", id="by-a-blank"),
        pytest.param({"api_type": "bedrock"}, "api_type", id="api-type"),
        pytest.param({"api_type": "azure"}, "AZURE_OPENAI_ENDPOINT", id="azure-nowhere"),
        pytest.param({"api_key_env": "NOT_SET"}, "api_key_env", id="no-variable"),
        pytest.param({"temperature": "warm"}, "temperature", id="temperature"),
        pytest.param({"price": "2.5/10"}, "price_in", id="a-price-of-before"),
        pytest.param({"price_in": "2.5"}, "`price_in` needs `price_out`", id="one-price"),
        pytest.param({"price_in": "2.5/10", "price_out": "1"}, "price_in", id="odd-price"),
        pytest.param({"price_in": "1", "price_out": "inf"}, "price_out", id="infinite-price"),
        pytest.param({"max_tokens": "0"}, "max_tokens", id="max-tokens"),
        pytest.param({"timeout": "nan"}, "timeout", id="timeout"),
    ],
)
def test_an_invalid_option_is_rejected_by_name(options, message):
    with pytest.raises(SettingWrong, match="hint: ") as raised:
        create("openai", {"model": "m", **options}, {"OPENAI_API_KEY": "k"})
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("options", "signature"),
    [
        pytest.param({"temperature": "none"}, "judge:openai|model:m|t:none", id="none"),
        pytest.param({"temperature": "0.7"}, "judge:openai|model:m|t:0.7", id="number"),
        pytest.param({"max_tokens": "9"}, "judge:openai|model:m|t:0|max:9", id="max"),
        pytest.param({"detail": "low"}, "judge:openai|model:m|t:0|detail:low", id="detail"),
    ],
)
def test_the_signature_holds_what_moves_a_score(options, signature):
    judge = registry.create(Choice(name="openai", options={"model": "m", **options}), {})
    assert signature_text(**judge.signature) == signature


def test_the_signature_holds_nothing_else():
    first = settings_of({"OPENAI_API_KEY": "k"}, model="m")
    url = "https://api.openai.com/v2?a=b"
    second = settings_of(model="m", base_url=url, timeout=1.0, max_concurrency=1, patience=9.0)
    assert first.signature == second.signature


@pytest.mark.parametrize(
    ("options", "host"),
    [
        pytest.param({"base_url": "http://127.0.0.1:8000/v1"}, "127.0.0.1", id="local"),
        pytest.param({"base_url": "https://Me:w@Host/v1?code=x"}, "host", id="without-secrets"),
        pytest.param({"base_url": "https://api.openai.com.evil.net"}, "api.openai.com.evil.net"),
        pytest.param({"base_url": "https://eu.api.openai.com/v1"}, None, id="openai-in-a-region"),
        pytest.param(
            {"base_url": "https://x.openai.azure.com", "api_type": "azure"}, "x.openai.azure.com"
        ),
    ],
)
def test_the_signature_names_a_server_that_is_not_the_providers(options, host):
    end = "" if host is None else f"|host:{host}"
    assert signature_text(**settings_of(**options).signature) == f"judge:openai|model:m|t:0{end}"


def test_there_is_no_default_model():
    """Each benchmark names its own, in one line."""
    with pytest.raises(SettingWrong, match="which model"):
        open_openai({"OPENAI_API_KEY": "k"})
