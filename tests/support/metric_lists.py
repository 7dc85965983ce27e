"""Writes the metrics into task files: ``python tests/support/metric_lists.py task_yamls``
(`make yamls`).

Tests compare, so the files always agree with the tables of the code.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from mmie_tasks.benchmarks.mia_bench import metrics as mia_bench
from mmie_tasks.benchmarks.mmie import metrics as mmie
from mmie_tasks.benchmarks.opening import metrics as opening
from mmie_tasks.record.rows import COVERAGE, RunnerTable

HEAD = "metric_list:\n"
ROWS = "mmie_tasks.record.rows"
MMIE, MIA_BENCH, OPENING = (
    f"mmie_tasks.benchmarks.{name}.task" for name in ("mmie", "mia_bench", "opening")
)


def metric_list(
    task_py: str, table: RunnerTable, functions: Mapping[str, str] | None = None
) -> str:
    """The last part of a task file.

    Args:
        task_py: The module of the benchmark's functions.
        table: Names the metrics.
        functions: Metric to its function in that module, unless that is ``percent``.
    """
    of_metric = {
        name: f"{task_py}.{(functions or {}).get(name, 'percent')}" for name in table.names
    }
    of_metric[COVERAGE] = f"{ROWS}.{COVERAGE}"
    return HEAD + "".join(
        f"  - metric: {name}\n"
        f"    aggregation: !function {function}\n"
        f"    higher_is_better: {'null' if name == COVERAGE else 'true'}\n"
        for name, function in of_metric.items()
    )


def files() -> dict[str, str]:
    """Path below ``task_yamls/`` to the last part of the file."""
    return {
        "mmie/_mmie_all": metric_list(MMIE, mmie.TABLE),
        "mmie/_mmie_category": metric_list(MMIE, mmie.CATEGORY_TABLE),
        "mia_bench/mia_bench.yaml": metric_list(MIA_BENCH, mia_bench.TABLE),
        "opening/_opening_shared": metric_list(OPENING, opening.TABLE),
    }


def with_metrics(text: str, metrics: str) -> str:
    """A task file whose last part is the metrics, instead of those it has, if any."""
    return text.partition(HEAD)[0] + metrics


if __name__ == "__main__":
    for name, metrics in files().items():
        path = Path(sys.argv[1]) / name
        path.write_text(with_metrics(path.read_text(encoding="utf-8"), metrics), encoding="utf-8")
