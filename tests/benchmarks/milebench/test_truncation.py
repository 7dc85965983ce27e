"""Settings of the context limit; the tests of MileBench's task use a real tokenizer."""

import pytest

from mmie_tasks.benchmarks.milebench.truncation import load_tokenizer, token_limit
from mmie_tasks.core.errors import SettingWrong


def limit(**settings):
    return token_limit({f"MILEBENCH_{name}": setting for name, setting in settings.items()})


def test_without_settings_there_is_no_limit():
    assert limit() is None


def test_all_three_settings_are_a_limit_that_can_be_printed():
    tokens = limit(TOKENIZER="some/model", MAX_CONTEXT_TOKENS="4096", TOKENS_PER_IMAGE="576")
    assert str(tokens) == "4096x576@some/model"


@pytest.mark.parametrize(
    "settings",
    [
        {"TOKENIZER": "x"},
        {"TOKENIZER": "x", "MAX_CONTEXT_TOKENS": "many", "TOKENS_PER_IMAGE": "1"},
        {"TOKENIZER": "x", "MAX_CONTEXT_TOKENS": "-1", "TOKENS_PER_IMAGE": "1"},
        {"MAX_CONTEXT_TOKENS": "4096", "TOKENS_PER_IMAGE": "576"},
    ],
    ids=str,
)
def test_an_incomplete_limit_is_an_error_that_shows_the_settings(settings):
    with pytest.raises(SettingWrong, match="MILEBENCH_MAX_CONTEXT_TOKENS="):
        limit(**settings)


def test_a_tokenizer_that_cannot_be_loaded_is_named(tmp_path):
    with pytest.raises(SettingWrong, match=f"`{tmp_path}` cannot be loaded"):
        load_tokenizer(str(tmp_path))
