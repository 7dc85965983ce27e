"""OpenING's samples as a `datasets.Dataset` whose pictures are paths.

The questions come from a local folder or a pinned file. Their pictures are only in archives that
people download by hand into a local folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from mmie_tasks.benchmarks.image_data import described, image_dataset, missing_images
from mmie_tasks.benchmarks.json_file import digest_of, read_data_file, read_samples
from mmie_tasks.benchmarks.opening.official_files import (
    DATA,
    PINS,
    QUESTIONS,
    REPO,
    REVISION,
    cache_folder,
    official_bytes,
)
from mmie_tasks.benchmarks.opening.sample import Sample
from mmie_tasks.benchmarks.order import fair_order
from mmie_tasks.core.errors import BadSample, DataBroken, DataMissing
from mmie_tasks.core.files import json_problem
from mmie_tasks.hub.images import inside
from mmie_tasks.record.segment import Segments

if TYPE_CHECKING:
    import datasets

ANNOTATION = "test_data.jsonl"
_FOLDERS = ("", "OpenING-benchmark", "OpenING-Benchmark", "OpenING")
_LAYOUT = (
    f"`{DATA}` is a clone of {REPO}, or a folder with `{ANNOTATION}` and `images/`; the pictures "
    "are in `OpenING_TEST.zip`, which its README links, and are unpacked beside that file"
)
_REPAIR = f"repair it, or replace it by the file of {REPO}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _DataSource:
    """The data file (a name for messages, if downloaded); `folders` may have ``images``."""

    path: Path
    content: bytes
    folders: tuple[Path, ...]


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
    source = _source(environment)
    lines = source.content.removeprefix(b"\xef\xbb\xbf").splitlines()
    samples = read_samples(
        source.path,
        [line for line in lines if line.strip()],
        partial(_read_row, source),
        lambda sample: sample.id,
        repair=_REPAIR,
    )
    if not samples:
        raise DataBroken(f"`{source.path}` has no row.", hint=_REPAIR)
    official = PINS[QUESTIONS].holds(source.content)
    if not official:
        logger.info(f"OpenING: {len(samples):,} samples; published are 2,160, in another file.")
    return image_dataset(
        fair_order(samples, lambda s: s.id, lambda s: s.topic, lambda s: s.subtask),
        REVISION if official else digest_of(source.content),
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


def describe(environment: Mapping[str, str]) -> str:
    """A sentence about samples and pictures, after a check of both."""
    docs = dataset(environment)
    check_data(docs)
    return described(docs)


def _source(environment: Mapping[str, str]) -> _DataSource:
    """The data file in the user's folder, or the official one with the user's pictures."""
    if not (local := environment.get(DATA)):
        folder = cache_folder(environment)
        content = official_bytes(QUESTIONS, environment)
        return _DataSource(path=folder / ANNOTATION, content=content, folders=(folder,))
    root = Path(local).expanduser().absolute()
    if not root.is_dir():
        raise DataMissing(f"`{DATA}` is `{root}`: there is no such folder.", hint=_LAYOUT)
    outer = [root / name for name in _FOLDERS]
    folders = tuple(f for f in (*outer, *(f / "OpenING" for f in outer[:3])) if f.is_dir())
    files = [folder / ANNOTATION for folder in folders if (folder / ANNOTATION).is_file()]
    if files:
        return _DataSource(
            path=files[0], content=read_data_file(files[0], _LAYOUT), folders=folders
        )
    if not any((folder / "images").is_dir() for folder in folders):
        names = ", ".join(sorted(path.name for path in root.iterdir())[:20]) or "nothing"
        raise DataMissing(
            f"`{root}` has neither `{ANNOTATION}` nor `images/`; it contains: {names}.",
            hint=_LAYOUT,
        )
    content = official_bytes(QUESTIONS, environment)
    return _DataSource(path=root / ANNOTATION, content=content, folders=folders)


def _read_row(source: _DataSource, position: int, line: object) -> Sample:
    """The sample of a line, with absolute paths of its pictures."""
    location = f"row {position}"
    try:
        fields: object = json.loads(line) if isinstance(line, bytes) else None
    except (ValueError, RecursionError) as error:
        raise BadSample(f"{location}: not JSON ({json_problem(error)})") from error
    sample = Sample.from_row(fields, location)

    def resolved(segments: Segments) -> Segments:
        return tuple(replace(s, image=s.image and _path(source, s.image)) for s in segments)

    try:
        return replace(sample, question=resolved(sample.question), gold=resolved(sample.gold))
    except DataBroken as error:
        problem = error.message.rstrip(".")
        raise BadSample(f"{location}, id {sample.id}: {problem}") from error


def _path(source: _DataSource, reference: str) -> str:
    """The file of a picture, or where it should be."""
    paths = [inside(folder, reference) for folder in source.folders]
    return str(next(filter(os.path.isfile, paths), paths[0]))
