"""A small MIA-Bench on a loopback Hub, as parquet with the pictures inside."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet

from support.hub_server import HubServer

REPO = "lmms-lab-encoder/MIA-Bench"
FILE = "data/test-00000-of-00001.parquet"
DATA = Path(__file__).resolve().parents[2] / "examples" / "mia_bench" / "data"
ANNOTATION = "instruction_benchmark_all.json"

Rows = list[dict[str, Any]]


def example_rows() -> Rows:
    """The samples of the example, each picture its file's bytes."""
    rows = json.loads((DATA / ANNOTATION).read_text(encoding="utf-8"))
    pictures = [(DATA / row["image"]).read_bytes() for row in rows]
    parts = [{"bytes": picture, "path": None} for picture in pictures]
    return [{**row, "image": part} for row, part in zip(rows, parts, strict=True)]


def parquet(rows: Rows) -> bytes:
    """A parquet file with the columns of the dataset on the Hub."""
    text, number = datasets.Value("string"), datasets.Value("int32")
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "instruction": text,
            "type": text,
            "num_of_component": number,
            "components": [text],
            "component_weight": [number],
            "component_type": [text],
        }
    )
    content = io.BytesIO()
    table = datasets.Dataset.from_list(rows, features=features)
    pyarrow.parquet.write_table(table.data.table, content)
    return content.getvalue()


@contextmanager
def mia_bench_hub(edit: Callable[[Rows], object] = lambda _: None) -> Iterator[HubServer]:
    """A Hub with the example, edited."""
    rows = example_rows()
    edit(rows)
    with HubServer() as hub:
        hub.holds(REPO, "README.md", b"---\nlicense: other\n---\n")
        hub.holds(REPO, FILE, parquet(rows))
        yield hub
