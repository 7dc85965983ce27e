"""OpenING's samples as a `datasets.Dataset` whose pictures are paths.

The questions come from a local folder or a pinned file. Their pictures are only in archives that
people download by hand into a local folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from mmie_tasks.benchmarks.data_file import (
    DataFile,
    described,
    entries_of,
    image_dataset,
    missing_images,
)
from mmie_tasks.benchmarks.opening.official_files import (
    DATA,
    PINS,
    QUESTIONS,
    REPO,
    REVISION,
    cache_folder,
    files_asset,
    official_bytes,
)
from mmie_tasks.benchmarks.opening.sample import OpeningSample
from mmie_tasks.benchmarks.order import fair_order
from mmie_tasks.core.errors import BadSample, DataMissing
from mmie_tasks.core.files import json_problem
from mmie_tasks.hub.asset import Asset
from mmie_tasks.hub.images import inside
from mmie_tasks.record.segment import Segments

if TYPE_CHECKING:
    import datasets

_ANNOTATION = "test_data.jsonl"
_FOLDERS = ("", "OpenING-benchmark", "OpenING-Benchmark", "OpenING")
_LAYOUT = (
    f"`{DATA}` is a clone of {REPO}, or a folder with `{_ANNOTATION}` and `images/`; the pictures "
    "are in `OpenING_TEST.zip`, which its README links, and are unpacked beside that file"
)


def dataset(environment: Mapping[str, str]) -> datasets.Dataset:
    """The samples, in an order in which every prefix has topics and tasks in their proportions
    (`fair_order`).

    Columns: those of `image_dataset`, ``id``, ``topic`` and ``subtask``. An image is an absolute
    path that was not opened and may be missing. ``data`` is the revision:
    ``LanceZPF/OpenING@56b663b``, or ``sha256:`` and 12 digits of another file.

    Args:
        environment: ``OPENING_DATA``, and the variables of a download.

    Raises:
        DataMissing: The data is missing.
        DataBroken: A row cannot be used; names row, id and field.
        SettingWrong: A variable has an invalid value.
    """
    folders = _folders(environment)
    file = _data_file(folders, environment)

    def with_paths(segments: Segments) -> Segments:
        return tuple(replace(s, image=s.image and _path(folders, s.image)) for s in segments)

    def read(position: int, line: object) -> OpeningSample:
        try:
            fields: object = json.loads(line) if isinstance(line, bytes) else None
        except (ValueError, RecursionError) as error:
            raise BadSample(f"row {position}: not JSON ({json_problem(error)})") from error
        sample = OpeningSample.from_row(fields, f"row {position}")
        question, gold = with_paths(sample.question), with_paths(sample.gold)
        return replace(sample, question=question, gold=gold)

    lines = file.content.removeprefix(b"\xef\xbb\xbf").splitlines()
    samples = file.samples([line for line in lines if line.strip()], read, lambda s: s.id)
    official = PINS[QUESTIONS].holds(file.content)
    if not official:
        logger.info(f"OpenING: {len(samples):,} samples; published are 2,160, in another file.")
    return image_dataset(
        fair_order(samples, lambda s: s.id, lambda s: s.topic, lambda s: s.subtask),
        REVISION if official else file.digest,
        texts=("id", "topic", "subtask"),
    )


def check_data(docs: datasets.Dataset) -> None:
    """Warn about questions without their pictures, before anything is generated."""
    if missing := missing_images(docs):
        path, sample_id = next(iter(missing.items()))
        samples = sum(any(s["image"] in missing for s in question) for question in docs["question"])
        logger.warning(
            f"OpenING: {len(missing):,} pictures of {samples:,} questions are missing, the first, "
            f"of sample {sample_id}: `{path}`. {_LAYOUT}."
        )


def asset(environment: Mapping[str, str]) -> Asset:
    """The questions, and their pictures in a local folder."""

    def describe() -> str:
        docs = dataset(environment)
        check_data(docs)
        return described(docs)

    local = environment.get(DATA)
    return files_asset("opening: data", DATA, local, (QUESTIONS,), environment, describe)


def _folders(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders in which people unpack data and pictures."""
    if not (local := environment.get(DATA)):
        return (cache_folder(environment),)
    root = Path(local).expanduser().absolute()
    if not root.is_dir():
        raise DataMissing(f"`{DATA}` is `{root}`: no such folder.", hint=_LAYOUT)
    folders = [root / outer / inner for inner in ("", "OpenING") for outer in _FOLDERS]
    existing = tuple(folder for folder in folders if folder.is_dir())
    if not any((f / name).exists() for f in existing for name in (_ANNOTATION, "images")):
        raise DataMissing(
            f"`{root}` has neither `{_ANNOTATION}` nor `images/`; it contains: {entries_of(root)}.",
            hint=_LAYOUT,
        )
    return existing


def _data_file(folders: tuple[Path, ...], environment: Mapping[str, str]) -> DataFile:
    """The data file in the user's folders, else the official one."""
    for path in (folder / _ANNOTATION for folder in folders if environment.get(DATA)):
        if path.is_file():
            return DataFile.read(path, _LAYOUT)
    content = official_bytes(QUESTIONS, environment)
    return DataFile(path=folders[0] / _ANNOTATION, content=content)


def _path(folders: tuple[Path, ...], reference: str) -> str:
    """The file of a picture, or where it should be."""
    paths = [inside(folder, reference) for folder in folders]
    return str(next(filter(os.path.isfile, paths), paths[0]))
