"""Writes ``task_yamls/milebench``: ``python tests/support/milebench_yamls.py`` (or `make yamls`).

A test writes them elsewhere and compares, so the files always agree with the tables of the code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from mmie_tasks.benchmarks.milebench.metrics import DATASET_TABLE, TABLE
from mmie_tasks.benchmarks.milebench.sample import (
    REALISTIC,
    TASK_OF,
    VARIANTS,
    Variant,
    selections,
    task_name,
)
from support.metric_lists import metric_list

OF_DATASET, OF_ALL = "_milebench_dataset", "_milebench_all"  # no .yaml: not tasks
TASK_PY = "mmie_tasks.benchmarks.milebench.task"


def dataset_template() -> str:
    head = f"include: _milebench_shared\nprocess_results: !function {TASK_PY}.process_results\n"
    return head + metric_list(TASK_PY, DATASET_TABLE)


def all_template() -> str:
    functions = {
        "official": "real",
        "robust": "real",
        "official_real": "real",
        "official_diag": "diag",
    }
    head = f"include: _milebench_shared\nprocess_results: !function {TASK_PY}.process_results_all\n"
    return head + metric_list(TASK_PY, TABLE, functions)


def task(name: str, variant: Variant) -> tuple[str, str]:
    """File name and content of one task; `name` is a dataset, or ``all``."""
    full = task_name(name, variant)
    selection = name if variant == "test" else f"{name}@{variant}"
    alias = " ".join(part for part in ("MileBench", name, variant) if part not in ("all", "test"))
    lines = [
        f"include: {OF_ALL if name == 'all' else OF_DATASET}",
        f"task: {full}",
        f"task_alias: {alias}",
        f"dataset_name: {selection}",
    ]
    if name != "all" and variant == "test":
        kind = "realistic" if TASK_OF[name] in REALISTIC else "diagnostic"
        lines.append(f"tag: [milebench_{TASK_OF[name]}, milebench_{kind}]")
    return f"{full}.yaml", "\n".join(lines) + "\n"


def files() -> Iterator[tuple[str, str]]:
    yield OF_DATASET, dataset_template()
    yield OF_ALL, all_template()
    for variant in VARIANTS:
        yield from (task(name, variant) for name in selections(variant))


def write(folder: Path) -> None:
    for name, content in files():
        (folder / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
