from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from mmie_tasks.record.verdict_row import as_row

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.core.verdict import Scored
from mmie_tasks.record import log_line
from mmie_tasks.record.metrics import Metric, Scale
from mmie_tasks.runner.run_summary import RunSummary

BENCHMARK = Benchmark(
    name="sketch",
    title="Sketch",
    scale=Scale(
        full_marks=5, unit="points, 0 to 5", whole=True, percent=lambda points: 20 * points
    ),
    metrics=(Metric(name="", title="All", kind="headline"),),
    read_line=partial(log_line.sample, full_marks=5),
    reread=lambda _: None,
    provenance=lambda _: "",
)


def test_points_off_the_scale_are_no_score_in_the_last_lines_of_a_run() -> None:
    summary = RunSummary()
    records = [
        {"id": str(n), "official": as_row(Scored(n)), "robust": as_row(Scored(5))}
        for n in (4, 5, 12)
    ]
    summary.add("sketch", BENCHMARK, records, {})
    (last_line,) = [
        line for line in summary.block("stub", "", "").splitlines() if line.startswith("sketch ")
    ]
    assert "n/a" in last_line
    assert "nan" not in last_line
    assert "100.00" in last_line
    assert "2 of 3" in last_line


def test_the_expected_score_has_a_column_where_a_task_has_one() -> None:
    summary = RunSummary()
    record: dict[str, object] = {
        "id": "1",
        "official": as_row(Scored(4)),
        "robust": as_row(Scored(4)),
    }
    summary.add("sketch", BENCHMARK, [record], {})
    assert "expected" not in summary.block("stub", "", "")
    summary.add("sketch_other", BENCHMARK, [{**record, "expected": as_row(Scored(4.5))}], {})
    header, first, other = summary.block("stub", "", "").splitlines()[3:6]
    assert header.split()[:6] == ["task", "model", "official", "[95", "%]", "robust"]
    assert header.split()[6] == "expected"
    assert first.split()[2:5] == ["80.00", "80.00", "n/a"]
    assert other.split()[2:5] == ["80.00", "80.00", "90.00"]


@pytest.mark.parametrize(
    ("read_line", "reason"),
    [
        pytest.param(lambda line: line["filtered_resps"], "KeyError: 'filtered_resps'", id="bug"),
        pytest.param(
            partial(log_line.sample, full_marks=5), "BadRecord: `id` is missing", id="bad-record"
        ),
    ],
)
def test_a_benchmark_that_cannot_read_its_records_costs_no_run(
    logs: list[str], read_line: Any, reason: str
) -> None:
    summary = RunSummary()
    summary.add("sketch", replace(BENCHMARK, read_line=read_line), [{"official": {}}], {})
    assert summary.block("stub", "", "") == ""
    assert len(logs) == 1
    assert logs[0].startswith("Sketch: no summary of `sketch`: ")
    assert reason in logs[0]
