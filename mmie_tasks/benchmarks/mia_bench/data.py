"""Reads MIA-Bench from a local folder or the Hub into a `datasets.Dataset` with image paths."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loguru import logger
from pydantic import ConfigDict

from mmie_tasks.benchmarks.data_row import DataRow, DataWords, read_row
from mmie_tasks.benchmarks.json_file import read_json_file, read_samples
from mmie_tasks.benchmarks.mia_bench.download import ANNOTATION, DATASET
from mmie_tasks.benchmarks.mia_bench.sample import Sample
from mmie_tasks.benchmarks.order import fair_order
from mmie_tasks.core.errors import BadSample, DataBroken, DataMissing
from mmie_tasks.hub.images import inside
from mmie_tasks.hub.run_images import check_images

if TYPE_CHECKING:
    import datasets

_TEXTS = ("id", "image", "url", "instruction", "type", "data")
_LAYOUT = (
    f"the layout is `{ANNOTATION}`, the file of apple/ml-mia-bench, beside `images/`; "
    "point `MIA_BENCH_DATA` at their folder, or unset it to download from the Hub"
)
_REPAIR = (
    "repair it, or replace it by the file of apple/ml-mia-bench; if a run has downloaded it, "
    "delete its folder and run again"
)

# `words_digest` of the 400 rows of apple/ml-mia-bench at 5422852d.
OFFICIAL_WORDS = "e10f5c3ce6e86aebcff39671923b815f4d215aef6d9fdce97702a9e4efbecca6"
NUMBERED = "`images/<row>.<ext>`, the row from 0 and in three digits, such as `images/007.jpg`"

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HOST = re.compile(r"[\w-]+(\.[\w-]+)+/", re.ASCII)  # row 193 has no scheme


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
    path = folder / ANNOTATION
    file = read_json_file(path, layout=_LAYOUT, repair=_REPAIR)
    if not isinstance(file.value, list) or not file.value:
        raise DataBroken(f"`{path}`: not a list with rows in it.", hint=_REPAIR)
    read = partial(_row, folder=folder)
    rows = read_samples(path, file.value, read, itemgetter("id"), repair=_REPAIR)
    data = revision or file.digest
    paths = image_paths(folder, {int(row["id"]): row["url"] for row in rows})
    if len(rows) == 400 and words_digest(rows) != OFFICIAL_WORDS:
        logger.info(
            "MIA-Bench: instructions or components of these 400 rows differ from those of the "
            "official file."
        )
    ordered = fair_order(rows, itemgetter("id"), itemgetter("type"))
    docs = [{**row, "image": str(paths[int(row["id"])]), "data": data} for row in ordered]
    text, whole_number = datasets.Value("string"), datasets.Value("int32")
    features = dict.fromkeys(_TEXTS, text)
    features |= {"components": [text], "component_weight": [whole_number], "component_type": [text]}
    return datasets.Dataset.from_list(docs, features=datasets.Features(features))


def check_data(docs: datasets.Dataset) -> None:
    """Checks that every image exists.

    Raises:
        DataMissing: Files are missing; gives the number and the first name.
    """
    hint = f"the images are {NUMBERED}; complete them, or unset `MIA_BENCH_DATA` to download them"
    check_images("MIA-Bench", {doc["image"]: doc["id"] for doc in docs}, hint)


def words_digest(rows: Sequence[Mapping[str, Any]]) -> str:
    """SHA-256, in hex, of the instructions and components, in order."""
    words = [[row["instruction"], row["components"]] for row in rows]
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


def _local_folder(root: Path) -> Path:
    if not root.is_dir():
        raise DataMissing(f"`MIA_BENCH_DATA` is `{root}`: there is no such folder.", hint=_LAYOUT)
    if not (root / "images").is_dir():
        raise DataMissing(f"`{root / 'images'}` does not exist.", hint=f"{_LAYOUT}: {NUMBERED}")
    if not (root / ANNOTATION).is_file():
        names = ", ".join(sorted(path.name for path in root.iterdir())[:20]) or "nothing"
        raise DataMissing(
            f"`{root}` contains no `{ANNOTATION}`; it contains: {names}.", hint=_LAYOUT
        )
    return root


class _MiaImage(DataRow):
    model_config = ConfigDict(extra="allow")

    image: DataWords


def _row(number: int, fields: object, folder: Path) -> dict[str, Any]:
    """A checked row, with the image's address or file name as annotated."""
    row = read_row(_MiaImage, fields, f"row {number}")
    image = row.image.strip()
    if not image.isprintable():
        raise BadSample(f"row {number}: `image` is {image!r}, not an address or a file's name")
    if not is_address(image):
        try:
            inside(folder, image)
        except DataBroken as error:
            raise BadSample(f"row {number}: {error.message.rstrip('.')}") from error
    sample = Sample.from_doc({**row.model_dump(), "id": str(number)})
    return {
        "id": sample.id,
        "url": image,
        "instruction": sample.instruction,
        "type": sample.type,
        "components": list(sample.components),
        "component_weight": list(sample.weights),
        "component_type": list(sample.categories),
    }


def image_paths(folder: Path, references: Mapping[int, str]) -> dict[int, Path]:
    """Row to the path of its image file, which may be missing.

    The image of row 7 is ``folder/images/007.<ext>`` if the row has an address: official addresses
    may share their last name, or end in a slash or without an extension. Otherwise it is
    ``folder/<name>``.

    `folder` is that of the annotation; `references` has the ``image`` of each row, from 0.

    Raises:
        DataBroken: A name leads out of the folder, or a row has several files.
    """
    images = folder / "images"
    names = sorted(path.name for path in images.iterdir()) if images.is_dir() else []
    numbered: dict[str, list[str]] = {}
    for name in names:
        numbered.setdefault(name.partition(".")[0], []).append(name)
    paths = {}
    for row, reference in references.items():
        candidates = numbered.get(f"{row:03d}", [f"{row:03d}.jpg"])
        if not is_address(reference):
            paths[row] = inside(folder, reference)
        elif len(candidates) > 1:
            raise DataBroken(
                f"`{images}` contains several images for row {row}: {', '.join(candidates)}.",
                hint="keep one of them",
            )
        else:
            paths[row] = images / candidates[0]
    return paths


def is_address(reference: str) -> bool:
    """Whether an image reference is a URL, not a file name.

    >>> is_address("farm8.staticflickr.com/1.jpg"), is_address("images/3.png")
    (True, False)
    """
    return bool(_SCHEME.match(reference) or _HOST.match(reference))


def describe(environment: Mapping[str, str]) -> str:
    """Checks samples and images, and describes them in a sentence.

    Raises:
        MmieTasksError: Samples or images are missing or unusable.
    """
    docs = dataset(environment)
    check_data(docs)
    return f"{len(docs):,} samples of {docs[0]['data']}; no image is missing"
