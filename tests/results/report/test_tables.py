from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

import pytest
from support.report_runs import SCALE, run, sample

from mmie_tasks.core.verdict import Scored
from mmie_tasks.record.metrics import metric_value
from mmie_tasks.results.compare.comparison import compare
from mmie_tasks.results.report.samples import join_tasks
from mmie_tasks.results.report.tables import differences_of, metric_tables
from mmie_tasks.runs.run import Run

SAMPLES = [sample("1", 4, 3, "a"), sample("2", 2, 2, "b"), sample("3", 3, 3, "a")]
TEN = [*SAMPLES, *(sample(str(number), 4, 4, "a") for number in range(4, 11))]


def tables_of(*runs: object) -> list[dict]:
    (task,) = join_tasks(runs)  # type: ignore[arg-type]
    return metric_tables(task, differences_of(task))  # type: ignore[return-value]


def test_every_cell_equals_the_metric_value_of_its_run() -> None:
    one, two = run("one", TEN), run("two", [*TEN[1:], sample("11", 1, 1, "a")])
    headline = tables_of(one, two)[0]["rows"][0]
    for cell, source in zip(headline["cells"], (one, two), strict=True):
        task = source.tasks["sketch"]
        for reading in ("official", "robust"):
            figure = metric_value(task.samples, task.benchmark.metrics[0], reading, SCALE)
            assert figure is not None
            expected = asdict(figure)
            ends = (cell[reading]["low"], cell[reading]["high"])
            assert ends == pytest.approx(expected.pop("interval"))
            assert {key: cell[reading][key] for key in expected} == expected
    assert headline["cells"][0]["differ"] == 1


def test_only_a_run_with_expected_scores_has_a_cell_for_them() -> None:
    judged = [replace(entry, expected=Scored(1.5)) for entry in SAMPLES]
    headline, categories = tables_of(run("one", SAMPLES), run("two", judged))[:2]
    assert headline["has_expected"]
    assert categories["has_expected"]
    first, second = headline["rows"][0]["cells"]
    assert "expected" not in first
    assert (second["expected"]["percent"], second["expected"]["low"]) == (37.5, None)
    assert not any(table["has_expected"] for table in tables_of(run("one", SAMPLES)))


def test_a_run_without_samples_of_a_metric_has_an_empty_cell() -> None:
    tables = tables_of(run("one", SAMPLES), run("two", SAMPLES[1:2]))
    assert [cell is None for cell in tables[1]["rows"][0]["cells"]] == [False, True]


def test_a_component_counts_its_own_differences() -> None:
    parts = {"official": {"look": 1.0, "tell": 0.5}, "robust": {"look": 1.0, "tell": 1.0}}
    groups = {"component": ("look", "tell")}
    tables = tables_of(run("one", [sample("1", 4, 4, parts=parts, groups=groups)]))
    assert [row["cells"][0]["differ"] for row in tables[-1]["rows"]] == [0, 1]


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param({"official": 75.0, "robust": 66.67}, (None, None), id="the-same"),
        pytest.param({"official": 75.004}, (None, None), id="the-same-as-shown"),
        pytest.param({"official": 75.02, "robust": 60.0}, (75.02, 60.0), id="another"),
    ],
)
def test_a_stored_number_is_shown_if_it_differs(
    stored: Mapping[str, float], expected: tuple[float | None, float | None]
) -> None:
    cell = tables_of(run("one", SAMPLES, stored=stored))[0]["rows"][0]["cells"][0]
    assert (cell["official"]["stored"], cell["robust"]["stored"]) == expected


def test_the_difference_of_two_runs_is_that_of_compare() -> None:
    one, two = (
        run(name, [sample(str(n), points(n)) for n in range(12)])
        for name, points in DIFFERING.items()
    )
    rows = [row for table in tables_of(one, two) for row in table["rows"]]
    compared = compare(one.tasks["sketch"], two.tasks["sketch"]).metrics
    assert len(rows) == len(compared) == 2
    for row, expected in zip(rows, compared, strict=True):
        difference = row["difference"]
        assert expected.interval is not None
        assert difference["value"] == pytest.approx(expected.difference, abs=1e-6)
        assert (difference["low"], difference["high"]) == pytest.approx(expected.interval, abs=1e-6)
        assert (difference["may_be_chance"], difference["pairs"]) == (expected.may_be_chance, 12)


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
    assert [row["difference"] for table in tables_of(*runs) for row in table["rows"]] == [None] * 3
