"""Writes what the task files have from tables of the code: their metrics, and MileBench's tasks.

    python tools/task_yamls.py    # or `make yamls`

A test compares, so files and code agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mmie_tasks.benchmarks.mia_bench import metrics as mia_bench
from mmie_tasks.benchmarks.milebench import metrics as milebench
from mmie_tasks.benchmarks.milebench.sample import DATASETS, VARIANT_OF
from mmie_tasks.benchmarks.mmie import metrics as mmie
from mmie_tasks.benchmarks.opening import metrics as opening
from mmie_tasks.record.rows import COVERAGE, RunnerTable

FOLDER = Path(__file__).resolve().parents[1] / "task_yamls"
HEAD = "metric_list:\n"
TABLES = {
    "mia_bench/mia_bench.yaml": mia_bench.TABLE,
    "milebench/_milebench_all": milebench.TABLE,
    "milebench/_milebench_shared": milebench.DATASET_TABLE,
    "mmie/_mmie_all": mmie.TABLE,
    "mmie/_mmie_shared": mmie.CATEGORY_TABLE,
    "opening/opening.yaml": opening.TABLE,
}
MEANS_OF_MEANS = {"official": "real", "robust": "real", "official_real": "real"} | {
    "official_diag": "diag"
}


def metric_list(
    benchmark: str, table: RunnerTable, functions: Mapping[str, str] | None = None
) -> str:
    """The last part of a task file; `functions` are those of metrics that are not ``percent``."""
    module = f"mmie_tasks.benchmarks.{benchmark}.benchmark"
    lines = [HEAD]
    for name in table.names:
        function = f"{module}.{(functions or {}).get(name, 'percent')}"
        if name == COVERAGE:
            function = f"mmie_tasks.record.rows.{COVERAGE}"
        lines += [
            f"  - metric: {name}\n",
            f"    aggregation: !function {function}\n",
            f"    higher_is_better: {'null' if name == COVERAGE else 'true'}\n",
        ]
    return "".join(lines)


def files() -> dict[str, str]:
    """Path below ``task_yamls/`` to the text of each file with generated parts."""
    texts = {}
    for path, table in TABLES.items():
        by_hand = (FOLDER / path).read_text(encoding="utf-8").partition(HEAD)[0]
        functions = MEANS_OF_MEANS if table is milebench.TABLE else None
        texts[path] = by_hand + metric_list(path.partition("/")[0], table, functions)
    for task, variant in VARIANT_OF.items():
        selection = "all" if variant == "test" else f"all@{variant}"
        texts[f"milebench/{task}.yaml"] = _milebench_task("_milebench_all", task, selection)
    for name in DATASETS:
        task = f"milebench_{name}"
        texts[f"milebench/{task}.yaml"] = _milebench_task("_milebench_shared", task, name)
    return texts


def _milebench_task(shared: str, task: str, selection: str) -> str:
    alias = task.replace("milebench", "MileBench").replace("_", " ")
    return f"include: {shared}\ntask: {task}\ntask_alias: {alias}\ndataset_name: {selection}\n"


if __name__ == "__main__":
    for path, text in files().items():
        (FOLDER / path).write_text(text, encoding="utf-8")
