"""MIA-Bench's samples as a `datasets.Dataset` of image paths, from a local folder or the Hub.

On the Hub is a table that contains the images. It is written once in the official form, as
``instruction_benchmark_all.json`` and ``images/000.jpg``, ... Images are the bytes from the Hub,
never re-encoded, because the judge gets the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmie_tasks.benchmarks.data_file import DataFile, entries_of
from mmie_tasks.benchmarks.mia_bench.sample import MiaSample
from mmie_tasks.benchmarks.order import fair_order
from mmie_tasks.core.errors import BadSample, DataBroken, DataMissing
from mmie_tasks.hub.asset import Asset, Check, local_asset
from mmie_tasks.hub.dataset import HubDataset
from mmie_tasks.hub.images import image_suffix, inside
from mmie_tasks.hub.run_images import check_images

if TYPE_CHECKING:
    import datasets

REPO = "lmms-lab-encoder/MIA-Bench"  # the one that the runner's own task loads
_TABLES = "*test*.parquet"  # the split `test`
_ANNOTATION = "instruction_benchmark_all.json"
_TEXTS = ("id", "image", "url", "instruction", "type", "data")
_LISTS = ("components", "component_weight", "component_type")
_FOLDER = (
    f"set `MIA_BENCH_DATA` to a folder with `{_ANNOTATION}`, the file of apple/ml-mia-bench, and "
    "its images as `images/<row>.<ext>`, the row from 0 and in three digits, such as "
    "`images/007.jpg`"
)
_LAYOUT = f"{_FOLDER}, or leave it out to download from the Hub"
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://|[\w-]+(\.[\w-]+)+/", re.ASCII | re.IGNORECASE)


def dataset(environment: Mapping[str, str]) -> datasets.Dataset:
    """The samples, in an order in which every prefix has the types in their proportions
    (`fair_order`).

    Columns: ``id`` (the row of the file, from 0, as text), ``image`` (path of a file that may be
    missing), ``url`` (the image as annotated), ``instruction``, ``type``, ``components``,
    ``component_weight`` (points), ``component_type`` and ``data`` (the revision: ``sha256:`` and 12
    digits for a local annotation, or repository and commit).

    Args:
        environment: ``MIA_BENCH_DATA``, and the variables of the Hub download.

    Raises:
        DataMissing: The data is missing.
        DataBroken: A row is unusable; names row and field.
        SettingWrong: A variable has an invalid value.
    """
    import datasets

    if local := environment.get("MIA_BENCH_DATA"):
        folder, revision = _local_folder(Path(local).expanduser()), ""
    else:
        fetched = DATASET.fetch()
        folder, revision = fetched.folder, fetched.source
    file, images = DataFile.read(folder / _ANNOTATION, _LAYOUT), NumberedImages(folder)

    def read(number: int, row: object) -> dict[str, Any]:
        if not isinstance(row, dict):
            raise BadSample(f"row {number}: not an object")
        reference = row.get("image")
        if not isinstance(reference, str) or not reference.strip():
            raise BadSample(f"row {number}: `image` is {reference!r}, not an address or a file")
        sample = MiaSample.from_doc({**row, "id": str(number)}).model_dump(by_alias=True)
        path = images.path(number, reference.strip())
        data = revision or file.digest
        return {**sample, "url": reference.strip(), "image": str(path), "data": data}

    rows = file.samples(file.json(), read, itemgetter("id"))
    text, whole_number = datasets.Value("string"), datasets.Value("int32")
    features = dict.fromkeys(_TEXTS, text)
    features |= {"components": [text], "component_weight": [whole_number], "component_type": [text]}
    return datasets.Dataset.from_list(
        fair_order(rows, itemgetter("id"), itemgetter("type")), features=datasets.Features(features)
    )


def check_data(docs: datasets.Dataset) -> None:
    """Checks that every image exists.

    Raises:
        DataMissing: Files are missing; gives the number and the first name.
    """
    check_images("MIA-Bench", {doc["image"]: doc["id"] for doc in docs}, _LAYOUT)


class NumberedImages:
    """Finds the image files that the annotation in a folder names."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._images = folder, folder / "images"
        names = sorted(self._images.iterdir(), reverse=True) if self._images.is_dir() else []
        self._by_number = {path.name.partition(".")[0]: path for path in names}

    def path(self, row: int, reference: str) -> Path:
        """The file of a row, which may be missing: ``images/<row>.<ext>`` for an address, because
        official addresses may share their last name or have none; else the named file.

        Raises:
            DataBroken: The name leads out of the folder.
        """
        if _ADDRESS.match(reference):
            number = f"{row:03d}"
            return self._by_number.get(number, self._images / f"{number}.jpg")
        return inside(self._folder, reference)


# The files


def _local_folder(root: Path) -> Path:
    if not root.is_dir():
        raise DataMissing(f"`MIA_BENCH_DATA` is `{root}`: no such folder.", hint=_LAYOUT)
    if not ((root / "images").is_dir() and (root / _ANNOTATION).is_file()):
        raise DataMissing(
            f"`{root}` should contain `{_ANNOTATION}` and `images`; it contains: "
            f"{entries_of(root)}.",
            hint=_LAYOUT,
        )
    return root


def _fill(snapshot: Path, folder: Path) -> None:
    """Writes annotation and images into an empty folder."""
    import pyarrow.parquet  # type: ignore[import-untyped]

    (folder / "images").mkdir()
    fields = ("instruction", "type", *_LISTS)
    annotation: list[Mapping[str, object]] = []
    try:
        for path in sorted(snapshot.rglob(_TABLES)):
            with pyarrow.parquet.ParquetFile(path) as table:
                for batch in table.iter_batches(batch_size=16, columns=["image", *fields]):
                    for row in batch.to_pylist():
                        content = _image_bytes(row)
                        name = f"images/{len(annotation):03d}{image_suffix(content) or '.bin'}"
                        (folder / name).write_bytes(content)
                        annotation.append({"image": name, **{key: row[key] for key in fields}})
    except (pyarrow.ArrowException, OSError, KeyError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        why = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise DataBroken(
            f"Row {len(annotation)} of `{path}` of `{REPO}` cannot be read: {why}.",
            hint=f"delete it and run again, or {_LAYOUT}",
        ) from error
    (folder / _ANNOTATION).write_text(json.dumps(annotation, indent=1) + "\n", encoding="utf-8")


def _image_bytes(row: Mapping[str, Any]) -> bytes:
    """The bytes of a row's image, which are decoded later; raises `KeyError` without any."""
    content = (row["image"] or {}).get("bytes")
    if not isinstance(content, bytes) or not content:
        raise KeyError("image")
    return content


DATASET = HubDataset(repo=REPO, files=(_TABLES,), fill=_fill, alternative=_FOLDER)


def asset(environment: Mapping[str, str]) -> Asset:
    """The samples with their images."""

    def describe() -> str:
        docs = dataset(environment)
        check_data(docs)
        return f"{len(docs):,} samples of {docs[0]['data']}; no image is missing"

    name = "mia_bench: data"
    check = Check(subject=name, describe=describe)
    local = local_asset(name, "MIA_BENCH_DATA", environment.get("MIA_BENCH_DATA"), (check,))
    return local or DATASET.asset(name, check)
