"""The small MileBench in ``examples/``, and copies of it that tests may change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "milebench"
DATA, ANSWERS = EXAMPLE / "data", EXAMPLE / "answers"


def copy_of(dataset: str, folder: Path) -> Path:
    """Copy one dataset of the example into a folder."""
    shutil.copytree(DATA / dataset, folder / dataset)
    return folder


def change(root: Path, dataset: str, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edit the annotation of a dataset in place."""
    path = root / dataset / f"{dataset}.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    edit(content)
    path.write_text(json.dumps(content), encoding="utf-8")
