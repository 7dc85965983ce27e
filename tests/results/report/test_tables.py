from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from support.report_runs import run, sample

from mmie_tasks.record.signature import Signature
from mmie_tasks.results.compare import compare
from mmie_tasks.results.report.render import Cell, PageTable, RichText
from mmie_tasks.results.report.samples import join_tasks
from mmie_tasks.results.report.tables import metric_tables, signature_table, task_scores
from mmie_tasks.results.run import Run

SAMPLES = [sample("1", 4, 3, "a"), sample("2", 2, 2, "b"), sample("3", 3, 3, "a")]
TEN = [*SAMPLES, *(sample(str(number), 4, 4, "a") for number in range(4, 11))]


def tables_of(*runs: Any) -> list[PageTable]:
    (task,) = join_tasks(runs)
    return list(metric_tables(task_scores(task, [one.name for one in runs])))


def cells(table: PageTable, title: str, row: int = 0) -> list[Any]:
    """The values of a row in the columns with this title."""
    of_row: Sequence[Any] = table.rows[row]
    return [value for value, name in zip(of_row, table.header, strict=True) if name == title]


def test_every_cell_equals_the_metric_value_of_its_run() -> None:
    one, two = run("one", TEN), run("two", [*TEN[1:], sample("11", 1, 1, "a")])
    headline = tables_of(one, two)[0]
    for kind in ("official", "robust"):
        of_runs = cells(headline, kind.capitalize())[:2]
        for cell, source in zip(of_runs, (one, two), strict=True):
            task = source.tasks["sketch"]
            metric = task.benchmark.metrics[0]
            value = task.score(metric, kind)  # type: ignore[arg-type]
            assert value is not None
            assert (cell.percent, cell.interval) == (value.percent, value.interval)
            assert (cell.scored, cell.total) == (value.scored, value.total)
    assert cells(headline, "Differ") == [1, 0]
    assert [text.text for text in cells(headline, "Scored")] == ["10 of 10", "10 of 10"]


def test_a_run_without_samples_of_a_metric_has_an_empty_cell() -> None:
    tables = tables_of(run("one", SAMPLES), run("two", SAMPLES[1:2]))
    assert [cell is None for cell in cells(tables[1], "Robust")] == [False, True]


def test_a_component_counts_its_own_differences() -> None:
    shares = {"official": {"look": 1.0, "tell": 0.5}, "robust": {"look": 1.0, "tell": 1.0}}
    groups = {"component": ("look", "tell")}
    tables = tables_of(run("one", [sample("1", 4, 4, shares=shares, groups=groups)]))
    assert [cells(tables[-1], "Differ", row) for row in (0, 1)] == [[0], [1]]


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param({"official": 75.0, "robust": 66.67}, ["", ""], id="the-same"),
        pytest.param({"official": 75.004}, ["", ""], id="the-same-as-shown"),
        pytest.param(
            {"official": 75.02, "robust": 60.0},
            ["results file: 75.02", "results file: 60.00"],
            id="another",
        ),
    ],
)
def test_a_stored_number_is_shown_if_it_differs(
    stored: Mapping[str, float], expected: list[str]
) -> None:
    headline = tables_of(run("one", SAMPLES, stored=stored))[0]
    shown = [cell for cell in headline.rows[0] if isinstance(cell, Cell)]
    assert [cell.footnote for cell in shown] == expected


def test_the_difference_of_two_runs_is_that_of_compare() -> None:
    one, two = (
        run(name, [sample(str(n), points(n)) for n in range(12)])
        for name, points in DIFFERING.items()
    )
    tables = tables_of(one, two)
    compared = compare(one.tasks["sketch"], two.tasks["sketch"]).metrics
    for table, expected in zip(tables, compared, strict=True):
        difference, pairs = table.rows[0][-2:]
        assert isinstance(difference, RichText)
        assert expected.interval is not None
        assert expected.difference is not None
        assert difference.text == f"{expected.difference:+.2f}"
        ends = " to ".join(f"{end:+.2f}" for end in expected.interval)
        assert difference.lines == (ends,)
        assert difference.badges == (("may well be chance",) if expected.may_be_chance else ())
        assert pairs == 12


DIFFERING = {"one": lambda n: n % 4, "two": lambda n: (n + 1) % 4}


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param([run("one", SAMPLES)], id="one-run"),
        pytest.param([run(name, SAMPLES) for name in "abc"], id="three-runs"),
        pytest.param(
            [run("one", SAMPLES), run("two", [sample("1", 4, signature="judge:another")])],
            id="another-judge",
        ),
    ],
)
def test_only_two_runs_that_were_scored_alike_have_a_difference(runs: list[Run]) -> None:
    assert not any("Pairs" in table.header for table in tables_of(*runs))


def test_keys_in_which_signatures_differ_are_marked_also_where_values_are_cut() -> None:
    long = "m" * 3_000
    table = signature_table(Signature.parse(f"judge:a|model:{long}|t:{t}") for t in (0, 1))
    assert table.header == ["Key", "Signature 1", "Signature 2"]
    marked = {row[0].text: row[0].badges for row in table.rows if isinstance(row[0], RichText)}
    assert marked == {"judge": (), "model": (), "t": ("differs",)}
    model = table.rows[1][1]
    assert isinstance(model, RichText)
    assert "more characters in the log" in model.text
