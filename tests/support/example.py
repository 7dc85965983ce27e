"""The small MileBench in ``examples/``, and copies of it that tests may change."""

import io
import json
import shutil
import tarfile
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "milebench"
DATA, ANSWERS = EXAMPLE / "data", EXAMPLE / "answers"


def copy_of(dataset, folder):
    shutil.copytree(DATA / dataset, folder / dataset)
    return folder


def archive(datasets):
    """Datasets of the example in a ``tar.gz``, as on the Hub."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for dataset in datasets:
            tar.add(DATA / dataset, arcname=dataset)
    return content.getvalue()


def change(root, dataset, edit):
    path = root / dataset / f"{dataset}.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    edit(content)
    path.write_text(json.dumps(content), encoding="utf-8")
