"""Which names in replies are shown as those of another model."""

import pytest

from mmie_tasks.record.answering_model import is_other_name, other_models, shown_model
from mmie_tasks.record.signature import Signature


@pytest.mark.parametrize(
    ("requested", "replied"),
    [
        pytest.param("Qwen/Qwen3-VL-8B", "qwen/qwen3-vl-8b", id="case"),
        pytest.param("gpt-4o", "", id="no-name"),
        pytest.param("gpt-4o", "gpt-4o-2024-11-20", id="date"),
        pytest.param("gpt-4", "gpt-4-0613", id="older-date"),
        pytest.param("claude-sonnet-4-5", "claude-sonnet-4-5-20250929", id="date-after-version"),
        pytest.param("gemini-1.5-pro", "gemini-1.5-pro-002", id="number"),
        pytest.param("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022", id="latest"),
        pytest.param("openai/gpt-4o", "gpt-4o-2024-08-06", id="provider-and-date"),
        pytest.param("gemini-2.5-pro", "models/gemini-2.5-pro", id="folder"),
    ],
)
def test_another_spelling_is_not_shown(requested: str, replied: str) -> None:
    assert not is_other_name(requested, replied)
    assert not is_other_name(replied, requested)


@pytest.mark.parametrize(
    ("requested", "replied"),
    [
        pytest.param("gemini-2.5-pro", "gemini-3.8-flash", id="rerouted"),
        pytest.param("gpt-4o", "gpt-4o-mini-2024-07-18", id="size"),
        pytest.param("gpt-4o-2024-11-20", "gpt-4o-2024-08-06", id="two-snapshots"),
        pytest.param("claude-sonnet-4", "claude-sonnet-4-5", id="version"),
        pytest.param("meta/llama-3.1-70b-instruct", "meta/llama-3.1-8b-instruct", id="weights"),
        pytest.param("llava:13b", "llava:7b", id="tag"),
        pytest.param("openrouter/auto", "openai/gpt-4o", id="router"),
        pytest.param("my-judge", "gpt-4o-2024-11-20", id="deployment"),
        pytest.param("qwen3-vl", "gpt-3.5-turbo", id="llama.cpp-without-alias"),
    ],
)
def test_another_name_is_shown(requested: str, replied: str) -> None:
    assert is_other_name(requested, replied)
    assert is_other_name(replied, requested)


def test_only_replies_of_openai_are_compared_each_name_once() -> None:
    replied = ["m", "", "gpt-4o", "m"]
    judge = Signature.parse("judge:openai|model:gpt-4o|t:0|replayed:1f2e")
    assert other_models(judge, replied) == ["m"]
    for text in ("", "judge:openai", "judge:counting|model:gpt-4o"):
        assert other_models(Signature.parse(text), replied) == []


def test_the_name_of_a_server_is_shown_in_one_line() -> None:
    assert shown_model("a \n b\x1b[31m") == r"'a b\x1b[31m'"
