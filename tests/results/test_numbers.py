"""Every number of a run in the results file, held against those of an earlier version.

A changed name or number here is a change for scripts that read results files.
"""

from __future__ import annotations

import pytest
from support.golden import vectors
from support.logged_runs import mia_lines, milebench_lines, mmie_lines

from mmie_tasks.benchmarks.registry import benchmark_of_task
from mmie_tasks.results.run import TaskRun
from mmie_tasks.results.summary import numbers_of

LINES = {
    "mmie": lambda: mmie_lines(120, unscored=0.05, in_proportion=True),
    "mmie_sa": lambda: (line for line in mmie_lines(90) if line["id"].startswith("SA")),
    "milebench": lambda: milebench_lines(2),
    "mia_bench": lambda: mia_lines(60),
}


def numbers(task: str) -> dict[str, float]:
    benchmark = benchmark_of_task(task)
    assert benchmark is not None
    lines = list(LINES[task]())
    records = tuple(map(benchmark.read_line, lines))
    run = TaskRun(task=task, benchmark=benchmark, records=records)
    return numbers_of(run, list(map(benchmark.read_record, lines)))


@pytest.mark.parametrize("task", LINES)
def test_the_results_file_has_the_names_and_numbers_of_before(task: str) -> None:
    assert numbers(task) == pytest.approx(vectors("results_numbers")[task], abs=1e-9)
