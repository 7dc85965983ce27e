"""Downloads MIA-Bench: a table on the Hub that contains the images.

The table is written once as ``instruction_benchmark_all.json``, ``images/000.jpg``, ... Images are
the bytes from the Hub, never re-encoded, because the judge gets the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from loguru import logger

from mmie_tasks.core.errors import DataBroken
from mmie_tasks.hub.asset import Asset, Check, local_asset
from mmie_tasks.hub.dataset import HubDataset
from mmie_tasks.hub.images import image_suffix

ANNOTATION = "instruction_benchmark_all.json"
REPO = "lmms-lab-encoder/MIA-Bench"  # the one that the runner's own task loads

_ALTERNATIVE = f"set `MIA_BENCH_DATA` to a folder with `{ANNOTATION}` and `images/`"
_FIELDS = ("instruction", "type", "components", "component_weight", "component_type")
_TABLES = "*test*.parquet"  # the split `test`


def _fill(snapshot: Path, folder: Path) -> None:
    """Writes annotation and images into an empty folder."""
    names = sorted(path.relative_to(snapshot).as_posix() for path in snapshot.rglob("*.parquet"))
    tables = [snapshot / name for name in names if fnmatch(name, _TABLES)]
    (folder / "images").mkdir()
    annotation = [_written(row, fields, folder) for row, fields in enumerate(_table_rows(tables))]
    (folder / ANNOTATION).write_text(json.dumps(annotation, indent=1) + "\n", encoding="utf-8")
    logger.info(f"MIA-Bench: {len(annotation)} samples written below `{folder.parent}`.")


def _table_rows(tables: Sequence[Path]) -> Iterator[Mapping[str, Any]]:
    import pyarrow.parquet  # type: ignore[import-untyped]

    columns = ["image", *_FIELDS]
    try:
        for path in tables:
            with pyarrow.parquet.ParquetFile(path) as table:
                if absent := [name for name in columns if name not in table.schema_arrow.names]:
                    raise _other_dataset(f"no column {', '.join(absent)}")
                for batch in table.iter_batches(batch_size=16, columns=columns):
                    yield from batch.to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        hint = f"delete it and run again, or {_ALTERNATIVE}"
        raise DataBroken(f"`{path}` of `{REPO}` cannot be read: {error}.", hint=hint) from error


def _written(row: int, fields: Mapping[str, Any], folder: Path) -> Mapping[str, object]:
    """Writes a row's image, and returns the row with the file's name in its place."""
    content = (fields["image"] or {}).get("bytes") or b""
    if not content:
        raise _other_dataset(f"row {row}: `image` is empty")
    # Decoding is checked later.
    name = f"images/{row:03d}{image_suffix(content) or '.bin'}"
    (folder / name).write_bytes(content)
    return {"image": name, **{field: fields[field] for field in _FIELDS}}


def _other_dataset(difference: str) -> DataBroken:
    return DataBroken(
        f"The dataset `{REPO}` on the Hub is no longer MIA-Bench as published: {difference}.",
        hint=_ALTERNATIVE,
    )


DATASET = HubDataset(repo=REPO, files=(_TABLES,), fill=_fill, alternative=_ALTERNATIVE)


def asset(environment: Mapping[str, str], describe: Callable[[], str]) -> Asset:
    """The samples with their images; `describe` checks them (see `Check`)."""
    name = "mia_bench: data"
    check = Check(subject=name, describe=describe)
    local = local_asset(name, "MIA_BENCH_DATA", environment.get("MIA_BENCH_DATA"), (check,))
    return local or DATASET.asset(name, check)
