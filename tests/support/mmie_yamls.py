"""Writes the metrics into a task file: ``python tests/support/mmie_yamls.py task_yamls/mmie``.

A test compares, so the files cannot drift from the room's table.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mmie_tasks.benchmarks.mmie.metrics import AGGREGATIONS, COUNTED, REASONS

SHARED = "_mmie_shared"  # no .yaml: not a task
TASK_PY = "mmie_tasks.benchmarks.mmie.task"
HEAD = "metric_list:\n"


def higher_is_better(name: str) -> str:
    if name in COUNTED or name in {f"unscored_{reason}" for reason in REASONS}:
        return "false"
    if name.removeprefix("points_").isdigit():
        return "null"  # how often these points are given: neither is
    return "true"


def metric(name: str, aggregation: str) -> str:
    return (
        f"  - metric: {name}\n"
        f"    aggregation: !function {TASK_PY}.{aggregation}\n"
        f"    higher_is_better: {higher_is_better(name)}\n"
    )


def metric_list() -> str:
    """The last part of a task file."""
    return HEAD + "".join(metric(*fields) for fields in AGGREGATIONS.items())


def with_metrics(text: str) -> str:
    """A task file whose last part is `metric_list`, in place of the one it has, if any."""
    before, _, _ = text.partition(HEAD)
    return before + metric_list()


def write(folder: Path) -> None:
    path = folder / SHARED
    path.write_text(with_metrics(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
