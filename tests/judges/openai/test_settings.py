"""Options of the judge, completed from the environment, and its signature."""

import pytest
from support.judge_asking import create, judge_of

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.record.signature import Signature

LUNA = {"model": "gpt-6-luna"}  # a reasoning model
AZURE = "https://x.openai.azure.com"


@pytest.mark.parametrize(
    ("read", "names"),
    [
        (lambda judge: judge.model, ["JUDGE_MODEL_NAME", "JUDGE_MODEL_VERSION", "MODEL_VERSION"]),
        (lambda judge: judge.access.api_key, ["JUDGE_API_KEY", "OPENAI_API_KEY"]),
        (
            lambda judge: judge.access.base_url,
            ["JUDGE_BASE_URL", "OPENAI_API_URL", "OPENAI_BASE_URL"],
        ),
    ],
)
def test_the_judges_own_variables_come_before_the_shared_ones(read, names):
    environment = {name: f"http://h/{index}" for index, name in enumerate(names)}
    for index, name in enumerate(names):
        judge = judge_of(environment)
        assert read(judge) == f"http://h/{index}"
        assert judge.access.shared_variable == (
            name if name.startswith("OPENAI_") and "URL" in name else ""
        )
        environment[name] = " "


def test_azure_has_variables_of_its_own():
    environment = {
        "API_TYPE": "azure",
        "OPENAI_API_KEY": "sk-not-this",
        "OPENAI_BASE_URL": "http://not-this",
        "AZURE_API_KEY": "k",
        "AZURE_ENDPOINT": f"{AZURE}/openai/deployments/d/chat/completions?a=b",
        "OPENAI_API_VERSION": "2025-01-01",
    }
    access = judge_of(environment).access
    assert (access.api_key, access.api_version) == ("k", "2025-01-01")
    assert access.base_url == AZURE
    assert judge_of(environment, api_type="openai").access.api_key == "sk-not-this"


def test_an_option_wins_over_the_environment():
    environment = {"MODEL_VERSION": "a", "K": "k", "OPENAI_API_KEY": "o"}
    judge = judge_of(environment, model="b", api_key_env="K")
    assert (judge.model, judge.access.api_key) == ("b", "k")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"base_url": "h:8000/v1"}, "base URL"),
        ({"api_type": "azure"}, "AZURE_OPENAI_ENDPOINT"),
        ({"api_key_env": "NOT_SET"}, "api_key_env"),
        ({"temperature": "warm"}, "temperature"),
        ({"price_in": "2.5"}, "`price_in` needs `price_out`"),
        ({"max_cost": "1"}, "`max_cost` needs `price_in` and `price_out`"),
        ({"extra_body": "[1]"}, "JSON object"),
        ({"extra_body": '{"tools": []}'}, "`tools`"),
    ],
)
def test_an_invalid_option_is_rejected_by_name(options, words):
    with pytest.raises(SettingWrong, match="hint: ") as raised:
        create("openai", {"model": "m", **options}, {"OPENAI_API_KEY": "k"})
    assert words in str(raised.value)


@pytest.mark.parametrize(("processes", "share"), [("4", 2.5), ("", 10.0)])
def test_the_processes_of_a_run_share_the_limit(processes, share):
    judge = judge_of({"WORLD_SIZE": processes}, price_in=1.0, price_out=1.0, max_cost=10.0)
    assert judge.chat.sender.budget.max_usd == share


@pytest.mark.parametrize(
    ("options", "signature"),
    [
        ({}, "model:m|t:0"),
        ({"temperature": None}, "model:m|t:none"),
        ({"temperature": 0.7}, "model:m|t:0.7"),
        ({"max_tokens": 9}, "model:m|t:0|max:9"),
        ({"detail": "low"}, "model:m|t:0|detail:low"),
        ({"extra_body": "{}"}, "model:m|t:0"),
        ({"extra_body": '{"b": 1, "a": 2}'}, 'model:m|t:0|extra_body:{"a":2,"b":1}'),
        (LUNA, "model:gpt-6-luna|t:none|reasoning:+8192"),
        ({**LUNA, "reasoning_effort": "low"}, "model:gpt-6-luna|t:none|reasoning:low+8192"),
        ({**LUNA, "reasoning_effort": "none"}, "model:gpt-6-luna|t:0|reasoning:none"),
        ({"base_url": "https://Me:w@Host:8000/v1"}, "model:m|t:0|host:host"),
        ({"base_url": "https://eu.api.openai.com/v1"}, "model:m|t:0"),
        ({"base_url": AZURE, "api_type": "azure"}, "model:m|t:0|host:x.openai.azure.com"),
        ({"timeout": 1.0, "max_concurrency": 1, "patience": 9.0}, "model:m|t:0"),
    ],
)
def test_the_signature_has_what_moves_a_score_and_nothing_else(options, signature):
    judge = judge_of({"OPENAI_API_KEY": "k"}, **options)
    assert str(Signature.of_judges([judge.signature])) == f"judge:openai|{signature}"
