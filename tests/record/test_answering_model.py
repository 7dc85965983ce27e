"""Which names in replies are shown as those of another model."""

import pytest
from support.signatures import signature_from

from mmie_tasks.record.answering_model import is_other_name, other_models, shown_model


@pytest.mark.parametrize(
    ("requested", "replied", "is_other"),
    [
        pytest.param("Qwen/Qwen3-VL-8B", "qwen/qwen3-vl-8b", False, id="case"),
        pytest.param("gpt-4o", "", False, id="no-name"),
        pytest.param("gpt-4o", "gpt-4o-2024-11-20", False, id="date"),
        pytest.param("claude-sonnet-4-5", "claude-sonnet-4-5-20250929", False, id="date-8-digits"),
        pytest.param("gemini-1.5-pro", "gemini-1.5-pro-002", False, id="number"),
        pytest.param("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022", False, id="latest"),
        pytest.param("gemini-2.5-pro", "models/gemini-2.5-pro", False, id="folder"),
        pytest.param("gpt-4o", "gpt-4o-mini-2024-07-18", True, id="size"),
        pytest.param("gpt-4o-2024-11-20", "gpt-4o-2024-08-06", True, id="two-snapshots"),
        pytest.param("claude-sonnet-4", "claude-sonnet-4-5", True, id="version"),
        pytest.param("llava:13b", "llava:7b", True, id="tag"),
        pytest.param("openrouter/auto", "openai/gpt-4o", True, id="router"),
    ],
)
def test_another_name_is_shown_and_another_spelling_is_not(requested, replied, is_other):
    assert is_other_name(requested, replied) == is_other_name(replied, requested) == is_other


def test_only_replies_of_openai_are_compared_each_name_once():
    replied = ["m", "", "gpt-4o", "m"]
    judge = signature_from("judge:openai|model:gpt-4o|t:0|replayed:1f2e")
    assert other_models(judge, replied) == ["m"]
    for text in ("", "judge:openai", "judge:counting|model:gpt-4o"):
        assert other_models(signature_from(text), replied) == []


def test_the_name_of_a_server_is_shown_in_one_line():
    assert shown_model("a \n b\x1b[31m") == r"'a b\x1b[31m'"
