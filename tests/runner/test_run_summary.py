from __future__ import annotations

from functools import partial

from mmie_tasks.core.verdict import Scored, as_row
from mmie_tasks.runner.run_summary import RunSummary
from mmie_tasks.runs import log_line
from mmie_tasks.runs.benchmark import Benchmark, Metric, Scale

BENCHMARK = Benchmark(
    name="sketch",
    title="Sketch",
    scale=Scale(full_marks=5, unit="points, 0 to 5", whole=True, percent=lambda points: 20 * points),
    metrics=(Metric(name="", title="All", kind="headline"),),
    read_line=partial(log_line.sample, full_marks=5),
    reread=lambda _: None,
    provenance=lambda _: "",
)


def test_points_off_the_scale_are_no_score_in_the_last_lines_of_a_run() -> None:
    summary = RunSummary()
    records = [{"id": str(n), "official": as_row(Scored(n)), "robust": as_row(Scored(5))} for n in (4, 5, 12)]
    summary.add("sketch", BENCHMARK, records, None)
    (last_line,) = [line for line in summary.block("stub", "", "").splitlines() if line.startswith("sketch ")]
    assert "n/a" in last_line
    assert "nan" not in last_line
    assert "100.00" in last_line
    assert "2 of 3" in last_line
