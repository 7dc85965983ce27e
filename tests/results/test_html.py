from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.results.html import cut, finite, plain

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@given(ANY_TEXT)
def test_any_text_can_be_encoded_as_utf_8(text: str) -> None:
    json.dumps(plain(text), ensure_ascii=False).encode()


@given(ANY_TEXT)
def test_only_tabs_and_newlines_are_left_of_control_characters(text: str) -> None:
    assert not [c for c in plain(text) if c not in "\t\n" and (c < " " or "\x7f" <= c < "\xa0")]


@given(st.text(st.characters(min_codepoint=0xA0, exclude_categories=("Cs",))))
def test_plain_text_stays_unchanged(text: str) -> None:
    assert plain(text) == text


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
        assert shortened == plain(text)
    else:
        assert shortened.startswith(plain(text[:most]))
        assert f"({len(text) - most:,} more character" in shortened


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), float("-inf")])
def test_a_value_without_a_json_form_is_none(value: float | None) -> None:
    assert finite(value) is None


def test_a_number_keeps_more_digits_than_are_shown() -> None:
    assert finite(83.33333333333334) == 83.333333
