"""Results as JSON: the fields of the objects that commands compute."""

import json
from pathlib import Path

import pytest
from support.report_runs import METRICS

from mmie_tasks.record.intervals import Interval
from mmie_tasks.results.render import Cell, Table, json_text, rendered


def test_json_has_the_fields_of_a_result():
    cell = Cell(percent=50, interval=Interval(40, 60))
    fields = {"percent": 50, "interval": [40, 60], "scored": None, "total": None, "notes": []}
    metric = {"name": "", "title": "Total", "kind": "headline"}
    assert json.loads(json_text([METRICS[0], Path("a/b"), cell])) == [metric, "a/b", fields]


@pytest.mark.parametrize("value", [object(), float("nan")])
def test_what_belongs_in_no_result_is_an_error(value):
    with pytest.raises((TypeError, ValueError)):
        json_text({"value": value})


def test_equal_footnotes_have_one_number_in_the_order_of_the_cells():
    first, second = Cell(percent=1, notes=("b",)), Cell(percent=None, notes=("a", "c"))
    rows = [("one", first, second), ("two", None, first)]
    table = Table(header=["model", "x", "y"], rows=rows)
    assert table.footnotes == {"b": 1, "a; c": 2}
    assert table.cells("({})") == [["one", "1.00(1)", "n/a(2)"], ["two", "-", "1.00(1)"]]
    assert rendered(table, file_format="csv").splitlines()[1] == "one,1.00,,,,,b,,,,,,a; c"


def test_a_text_of_a_terminal_or_a_table_is_harmless_in_markdown():
    text = rendered(Table(header=["a|b"], rows=[["\x1b[31mred|"], ["x" * 99]]))
    assert "\x1b" not in text
    assert text.splitlines()[0].count("|") == 2
    assert f"{'x' * 60}…" in text
