"""Writes OpenING's task files: ``python tests/support/opening_yamls.py task_yamls/opening``
(`make yamls`).

A test compares, so the files always agree with the table of topics.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mmie_tasks.benchmarks.opening.data import TASKS
from mmie_tasks.benchmarks.opening.sample import TOPICS
from mmie_tasks.record.metrics import slug


def files() -> dict[str, str]:
    """Name of each task file to its text."""
    titles = {"all": "OpenING"} | {slug(title): f"OpenING {title}" for title in TOPICS.values()}
    return {
        f"{TASKS[selection]}.yaml": "include: _opening_shared\n"
        f"task: {TASKS[selection]}\n"
        f"task_alias: {title}\n"
        f"dataset_name: {selection}\n"
        for selection, title in titles.items()
    }


if __name__ == "__main__":
    for name, text in files().items():
        Path(sys.argv[1], name).write_text(text, encoding="utf-8")
