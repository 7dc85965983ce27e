"""Writes or checks what the task files have from tables of the code: metrics, MileBench's tasks.

python tools/task_yamls.py
python tools/task_yamls.py --check    # writes nothing; fails if a file differs
"""

from __future__ import annotations

import sys
from pathlib import Path

from mmie_tasks.benchmarks.mia_bench import metrics as mia_bench
from mmie_tasks.benchmarks.milebench import metrics as milebench
from mmie_tasks.benchmarks.milebench.sample import DATASETS, VARIANT_OF
from mmie_tasks.benchmarks.mmie import metrics as mmie
from mmie_tasks.benchmarks.opening import metrics as opening

FOLDER = Path(__file__).resolve().parents[1] / "task_yamls"
HEAD = "metric_list:\n"
TABLES = {  # the end of these files
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


def metric(path: str, name: str) -> str:
    """A metric of the task file at a path."""
    means = MEANS_OF_MEANS if path == "milebench/_milebench_all" else {}
    function = f"benchmarks.{path.partition('/')[0]}.benchmark.{means.get(name, 'percent')}"
    is_better = "true"
    if name == "coverage":
        function, is_better = "record.rows.coverage", "null"
    return (
        f"  - metric: {name}\n"
        f"    aggregation: !function mmie_tasks.{function}\n"
        f"    higher_is_better: {is_better}\n"
    )


def files() -> dict[str, str]:
    """Path below ``task_yamls/`` to the text of each file with generated parts."""
    texts = {}
    for path, table in TABLES.items():
        by_hand = (FOLDER / path).read_text(encoding="utf-8").partition(HEAD)[0]
        texts[path] = by_hand + HEAD + "".join(metric(path, name) for name in table.names)
    tasks = {task: ("all", f"all@{variant}") for task, variant in VARIANT_OF.items()}
    tasks |= {"milebench": ("all", "all")}
    tasks |= {f"milebench_{name}": ("shared", name) for name in DATASETS}
    for task, (shared, selection) in tasks.items():
        alias = task.replace("milebench", "MileBench").replace("_", " ")
        names = f"task: {task}\ntask_alias: {alias}\ndataset_name: {selection}\n"
        texts[f"milebench/{task}.yaml"] = f"include: _milebench_{shared}\n{names}"
    return texts


def main() -> None:
    """Write the files that differ; with ``--check``, end with their names and status 1."""
    texts = {FOLDER / path: text for path, text in files().items()}
    old = {path: path.read_text(encoding="utf-8") if path.is_file() else "" for path in texts}
    different = [path for path in texts if texts[path] != old[path]]
    if "--check" in sys.argv:
        sys.exit("\n".join(f"differs: {path}" for path in different) or 0)
    for path in different:
        path.write_text(texts[path], encoding="utf-8")


if __name__ == "__main__":
    main()
