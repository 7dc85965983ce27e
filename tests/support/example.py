"""The little MileBench under ``examples/``, and folders like it that tests may break."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "milebench"
DATA, ANSWERS = EXAMPLE / "data", EXAMPLE / "answers"


def copy_of(dataset: str, folder: Path) -> Path:
    """A folder with one dataset of the example in it."""
    shutil.copytree(DATA / dataset, folder / dataset)
    return folder


def change(root: Path, dataset: str, edit: Callable[[dict[str, Any]], None]) -> None:
    """Edit the annotation of a dataset in place."""
    path = root / dataset / f"{dataset}.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    edit(whole)
    path.write_text(json.dumps(whole), encoding="utf-8")
