"""Settings of a cut context; a real tokenizer is used in the tests of MileBench's task."""

import pytest

from mmie_tasks.benchmarks.milebench.context import context_limit, load_tokenizer
from mmie_tasks.core.errors import SettingWrong


def limit(**values):
    return context_limit({f"X_{name}": value for name, value in values.items()}, "X")


def test_nothing_set_is_no_limit():
    assert limit() is None


def test_all_three_are_a_limit_that_says_what_it_is():
    found = limit(TOKENIZER="some/model", MAX_CONTEXT_TOKENS="4096", TOKENS_PER_IMAGE="576")
    assert str(found) == "4096x576@some/model"


@pytest.mark.parametrize(
    "values",
    [
        {"TOKENIZER": "x"},
        {"TOKENIZER": "x", "MAX_CONTEXT_TOKENS": "many", "TOKENS_PER_IMAGE": "1"},
        {"TOKENIZER": "x", "MAX_CONTEXT_TOKENS": "-1", "TOKENS_PER_IMAGE": "1"},
        {"MAX_CONTEXT_TOKENS": "4096", "TOKENS_PER_IMAGE": "576"},
    ],
    ids=str,
)
def test_half_a_limit_is_an_error_that_shows_what_was_found(values):
    with pytest.raises(SettingWrong, match="X_MAX_CONTEXT_TOKENS="):
        limit(**values)


def test_a_tokenizer_that_cannot_be_loaded_is_named(tmp_path):
    with pytest.raises(SettingWrong, match=f"`{tmp_path}` cannot be loaded"):
        load_tokenizer(str(tmp_path))
