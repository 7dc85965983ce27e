"""Tables in every format, and texts and numbers that a page, a terminal or JSON can hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup
from support.report_runs import METRICS

from mmie_tasks.record.intervals import Interval
from mmie_tasks.results.page_data import cut, file_name, page_data, plain
from mmie_tasks.results.render import Cell, Table, html, json_text, rendered

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(METRICS[0], {"name": "", "title": "Total", "kind": "headline"}, id="metric"),
        pytest.param(Path("a/b"), "a/b", id="path"),
        pytest.param(
            Cell(percent=50, interval=Interval(40, 60)),
            {"percent": 50, "interval": [40, 60], "scored": None, "total": None, "notes": []},
            id="dataclass",
        ),
    ],
)
def test_json_has_the_fields_of_a_result(value: object, expected: object) -> None:
    assert json.loads(json_text([value])) == [expected]


@pytest.mark.parametrize("value", [object(), float("nan")])
def test_what_belongs_in_no_result_is_an_error(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        json_text({"value": value})


def test_equal_footnotes_have_one_number_in_the_order_of_the_cells() -> None:
    first, second = Cell(percent=1, notes=("b",)), Cell(percent=None, notes=("a", "c"))
    rows = [("one", first, second), ("two", None, first)]
    table = Table(header=["model", "x", "y"], rows=rows)
    assert table.footnotes == {"b": 1, "a; c": 2}
    assert table.cells("({})") == [["one", "1.00(1)", "n/a(2)"], ["two", "-", "1.00(1)"]]
    assert rendered(table, file_format="csv").splitlines()[1] == "one,1.00,,,,,b,,,,,,a; c"


def test_html_escapes_every_text_but_its_own() -> None:
    attack = "<img src=x onerror='x'>"
    cell = Cell(percent=50, interval=Interval(40, 60), notes=(attack,))
    table = Table(header=[attack, "n"], rows=[(attack, cell), (Markup("<b>ours</b>"), 1_000)])
    shown = html(table, "style")
    assert "<img" not in shown
    assert shown.count("&lt;img src=x onerror=&#39;x&#39;&gt;") == 3
    for words in ('<table class="style">', "50.00 [40.00, 60.00]", "1,000", "<b>ours</b>"):
        assert words in shown


def test_a_text_of_a_terminal_or_a_table_is_harmless_in_markdown() -> None:
    text = rendered(Table(header=["a|b"], rows=[["\x1b[31mred|"], ["x" * 99]]))
    assert "\x1b" not in text
    assert text.splitlines()[0].count("|") == 2
    assert f"{'x' * 60}…" in text


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


def test_the_name_of_a_file_is_short() -> None:
    assert [file_name(path) for path in ("/a/b/c.png", "C:\\a\\c.png")] == ["c.png"] * 2
    assert file_name("x" * 5000 + ".png") == f"…{'x' * 75}.png"


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
