"""Results as JSON: the fields of the objects that commands compute."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.report_runs import METRICS, SIGNATURE, run, sample

from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.intervals import Interval
from mmie_tasks.results.render import (
    Cell,
    Column,
    RichText,
    Table,
    columns,
    html,
    json_text,
    rendered_table,
)

ONE = run("one", [sample("1")])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(Scored(4, "Score: 4"), {"points": 4, "reading": "Score: 4"}, id="scored"),
        pytest.param(Unscored("refused"), {"unscored": "refused", "detail": ""}, id="unscored"),
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


def test_a_run_and_its_tasks_are_described_without_their_samples() -> None:
    described = json.loads(json_text(ONE))
    assert described.keys() == {"name", "folder", "started", "notes"}
    assert described["name"] == "one"
    task = json.loads(json_text(ONE.tasks["sketch"]))
    assert task.keys() == {"task", "log", "signatures", "notes"}
    assert task["signatures"] == [SIGNATURE]


@pytest.mark.parametrize("value", [object(), float("nan")])
def test_what_belongs_in_no_result_is_an_error(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        json_text({"value": value})


def test_equal_footnotes_have_one_number_in_the_order_of_the_cells() -> None:
    first, second = Cell(percent=1, notes=("b",)), Cell(percent=None, notes=("a", "c"))
    scores = [Column(title=title, kind="score") for title in "xy"]
    rows = [("one", first, second), ("two", None, first)]
    table = Table(columns=[*columns("model"), *scores], rows=rows)
    assert table.footnotes == {"b": 1, "a; c": 2}
    assert table.texts("({})".format) == [["one", "1.00(1)", "n/a(2)"], ["two", "-", "1.00(1)"]]
    assert rendered_table(table, "csv").splitlines()[1] == "one,1.00,,,,,b,,,,,,a; c"


def test_html_escapes_every_text_and_spans_the_columns_that_a_row_lacks() -> None:
    attack = "<img src=x onerror='x'>"
    cell = Cell(percent=50, interval=Interval(40, 60), notes=(attack,))
    whole = RichText(text=attack, lines=(attack,), badges=(attack,), link="#a")
    header = [
        Column(title=attack, group=RichText(text=attack, run=1), help=attack) for _ in range(3)
    ]
    content = Table(title=attack, columns=header, rows=[(whole, cell, 1_000), (None, attack)])
    shown = html(content, "style")
    assert "<img" not in shown
    assert shown.count("&lt;img src=x onerror=&#39;x&#39;&gt;") == 15
    for words in ('<table class="style">', "<b>50.00</b>", "40.00 – 60.00", "1,000", 'colspan="2"'):
        assert words in shown
