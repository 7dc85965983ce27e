from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.results.page_data import cut, page_data, plain

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@given(ANY_TEXT)
def test_any_text_becomes_utf_8_with_tabs_and_newlines_as_its_only_control_characters(
    text: str,
) -> None:
    shown = plain(text)
    json.dumps(shown, ensure_ascii=False).encode()
    assert not [c for c in shown if c not in "\t\n" and (c < " " or "\x7f" <= c < "\xa0")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a\r\nb\rc", "a\nb\nc", id="new-lines"),
        pytest.param("a\x1b[0m", "a␛[0m", id="escape"),
        pytest.param("\x7f\x85", "␡�", id="delete-and-c1"),
        pytest.param("\ud83d x", "� x", id="half-a-pair"),
        pytest.param("\u202eabc\u200b😀", "\u202eabc\u200b😀", id="the-page-deals-with-these"),
    ],
)
def test_invalid_characters_are_replaced(text: str, expected: str) -> None:
    assert plain(text) == expected


@given(ANY_TEXT, st.integers(0, 20))
def test_a_cut_text_keeps_its_beginning_and_names_the_missing_length(text: str, most: int) -> None:
    shortened = cut(text, most)
    if len(text) <= most:
        assert shortened == text
    else:
        assert shortened.startswith(text[:most])
        assert f"({len(text) - most:,} more character" in shortened


def test_data_of_a_page_has_no_number_that_json_lacks_and_more_digits_than_are_shown() -> None:
    numbers = [None, float("nan"), float("inf"), float("-inf"), 83.33333333333334, True, 2]
    assert page_data({"a\x00": numbers}) == {"a␀": [None] * 4 + [83.333333, True, 2]}
