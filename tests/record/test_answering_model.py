"""Whether a reply is by another model than the one asked for, for the names that servers send."""

import pytest

from mmie_tasks.record.answering_model import is_other_model, other_models, shown_model
from mmie_tasks.record.signature import Signature

SAME = {
    "equal": ("gpt-4o", "gpt-4o"),
    "case": ("Qwen/Qwen3-VL-8B-Instruct", "qwen/qwen3-vl-8b-instruct"),
    "no name": ("gpt-4o", ""),
    "OpenAI's date": ("gpt-4o", "gpt-4o-2024-11-20"),
    "OpenAI's older dates": ("gpt-4", "gpt-4-0613"),
    "a date inside": ("gpt-4-vision-preview", "gpt-4-1106-vision-preview"),
    "a size, dated": ("gpt-4.1-mini", "gpt-4.1-mini-2025-04-14"),
    "Anthropic's date": ("claude-sonnet-4-5", "claude-sonnet-4-5-20250929"),
    "Anthropic's latest": ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
    "Gemini's number": ("gemini-1.5-pro", "gemini-1.5-pro-002"),
    "Mistral's latest": ("mistral-large-latest", "mistral-large-2411"),
    "Cohere's date": ("command-r-plus", "command-r-plus-08-2024"),
    "xAI's date": ("grok-4", "grok-4-0709"),
    "Qwen's date": ("qwen-vl-max-latest", "qwen-vl-max-2025-08-13"),
    "the alias of a snapshot": ("gpt-4o-2024-11-20", "gpt-4o"),
    "a date in two spellings": ("claude-sonnet-4@20250514", "claude-sonnet-4-20250514"),
    "maker": ("openai/gpt-4o", "gpt-4o-2024-08-06"),
    "Google's folder": ("gemini-2.5-pro", "models/gemini-2.5-pro"),
    "Fireworks": (
        "Qwen/Qwen2.5-VL-32B-Instruct",
        "accounts/fireworks/models/qwen2p5-vl-32b-instruct",
    ),
    "Fireworks' v": ("llama-3.1-8b-instruct", "accounts/fireworks/models/llama-v3p1-8b-instruct"),
    "Bedrock": ("claude-sonnet-4", "us.anthropic.claude-sonnet-4-20250514-v1:0"),
    "Bedrock without date": ("nova-pro", "amazon.nova-pro-v1:0"),
    "a proxy's own prefix": ("azure-gpt-4o", "gpt-4o-2024-11-20"),
    "OpenRouter's order": ("anthropic/claude-sonnet-4.5", "anthropic/claude-4.5-sonnet-20250929"),
    "OpenRouter's free": ("deepseek/deepseek-r1:free", "deepseek/deepseek-r1"),
    "OpenRouter's two routes": ("qwen/qwen3-vl-8b:nitro", "qwen/qwen3-vl-8b:floor"),
    "Hugging Face's provider": ("Qwen/Qwen3-VL-8B:fastest", "qwen/qwen3-vl-8b"),
    "Ollama's tag": ("llava", "llava:latest"),
    "Ollama's alias of a size": ("llava:latest", "llava:7b"),
    "a folder of weights": ("judge", "/models/Qwen3-VL-8B-Instruct"),
    "a snapshot": ("Qwen/Qwen3-VL-8B", "/hub/models--Qwen--Qwen3-VL-8B/snapshots/0c35"),
    "a file of weights": ("qwen3-vl", "Qwen3-VL-8B-Instruct-Q4_K_M.gguf"),
    "a folder on Windows": ("judge", r"D:\models\qwen"),
    "a path that was asked for": ("/models/Qwen3-VL-8B/", "Qwen3-VL-8B"),
    "llama.cpp without an alias": ("qwen3-vl", "gpt-3.5-turbo"),
    "older llama.cpp": ("qwen3-vl", "gpt-3.5-turbo-0613"),
}

OTHER = {
    "rerouted": ("gemini-2.5-pro", "gemini-3.8-flash"),
    "a smaller size": ("gpt-4o", "gpt-4o-mini"),
    "a smaller size, dated": ("gpt-4o", "gpt-4o-mini-2024-07-18"),
    "a larger size": ("gpt-4o-mini", "gpt-4o"),
    "another version": ("gpt-4o", "gpt-4.1"),
    "two versions with the same digits": ("gpt-5.4", "gpt-4.5"),
    "two snapshots": ("gpt-4o-2024-11-20", "gpt-4o-2024-08-06"),
    "two snapshots of Mistral": ("mistral-large-2411", "mistral-large-2407"),
    "names that end alike": ("o4-mini", "gpt-4o-mini"),
    "two sizes of weights": ("meta/llama-3.1-70b-instruct", "meta/llama-3.1-8b-instruct"),
    "two versions of weights": ("Qwen/Qwen2.5-VL-7B-Instruct", "Qwen/Qwen3-VL-8B-Instruct"),
    "two sizes in Ollama": ("llava:13b", "llava:7b"),
    "a point release": ("claude-sonnet-4", "claude-sonnet-4-5"),
    "an alias over versions": ("gemini-flash-latest", "gemini-2.5-flash"),
    "a preview": ("gemini-2.5-pro", "gemini-2.5-pro-preview-05-06"),
    "a router": ("openrouter/auto", "openai/gpt-4o"),
    "a router at Azure": ("model-router", "gpt-4.1-mini-2025-04-14"),
    "a name of a family": ("deepseek-chat", "deepseek-v4"),
    "another maker behind a gateway": ("openai/gpt-4o", "anthropic/claude-sonnet-4.5"),
}


@pytest.mark.parametrize(
    ("requested", "answered"), [pytest.param(*pair, id=name) for name, pair in SAME.items()]
)
def test_another_spelling_is_not_another_model(requested: str, answered: str) -> None:
    assert not is_other_model(requested, answered)


@pytest.mark.parametrize(
    ("requested", "answered"), [pytest.param(*pair, id=name) for name, pair in OTHER.items()]
)
def test_another_model_is_found(requested: str, answered: str) -> None:
    assert is_other_model(requested, answered)
    assert is_other_model(answered, requested)


@pytest.mark.parametrize(
    ("deployment", "answered", "is_other"),
    [
        pytest.param("my-judge", "gpt-4o-2024-11-20", False, id="own name"),
        pytest.param("gpt-4o-prod", "gpt-4o-2024-11-20", False, id="more words"),
        pytest.param("gpt4o", "gpt-4o-2024-11-20", False, id="without dash"),
        pytest.param("gpt-4o-2", "gpt-4o-2024-11-20", False, id="second deployment"),
        pytest.param("gpt-4o", "gpt-5.1-2025-11-13", True, id="upgraded"),
        pytest.param("gpt-4o-prod", "gpt-4o-mini-2024-07-18", True, id="smaller"),
        pytest.param("gpt-4o-mini", "gpt-4o-2024-11-20", True, id="larger"),
        pytest.param("gpt-4o-2024-08-06", "gpt-4o-2024-11-20", True, id="snapshot"),
        pytest.param("model-router", "gpt-4.1-mini-2025-04-14", True, id="router"),
        pytest.param("gemini-2.5-pro", "gemini-3.8-flash", True, id="no deployment"),
    ],
)
def test_a_deployment_at_azure_may_have_any_name(
    deployment: str, answered: str, is_other: bool
) -> None:
    for host in ("", "|host:x.services.ai.azure.com"):
        judge = Signature.parse(f"judge:openai|model:{deployment}|t:0{host}")
        assert other_models(judge, [answered, "", answered]) == [answered] * is_other


def test_a_judge_without_a_requested_name_has_no_other_model() -> None:
    for judge in ("", "judge:a", "judge:mmie_score|model:MMIE-Eval|checkpoint:1f2e"):
        assert other_models(Signature.parse(judge), ["MMIE-Score@12"]) == []


def test_the_name_of_a_server_is_shown_in_one_line() -> None:
    assert shown_model("a \n b\x1b[31m") == r"'a b\x1b[31m'"
