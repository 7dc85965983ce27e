"""MMIE's samples as a `datasets.Dataset` of image paths, from a local folder or the gated Hub.

On the Hub are a data file and an archive of images, which are unpacked into ``images/`` beside it.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
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
from mmie_tasks.benchmarks.mmie.published import CATEGORY_SIZES
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, MmieSample
from mmie_tasks.benchmarks.mmie.settings import MmieSettings
from mmie_tasks.benchmarks.order import fair_order
from mmie_tasks.core.errors import BadSample, DataMissing, SettingWrong
from mmie_tasks.hub.archives import unpack
from mmie_tasks.hub.asset import Asset, Check, local_asset
from mmie_tasks.hub.dataset import HubDataset
from mmie_tasks.record.segment import Segments

if TYPE_CHECKING:
    import datasets

REPO, ARCHIVE = "MMIE/MMIE", "images.tar.gz"
_ANNOTATION, _IMAGES = "data.json", "images"
_EXAMPLE = "overview.json"  # a few rows in the same repository that show the form
_FOLDER = f"set `MMIE_DATA` to a folder with `{_ANNOTATION}`, the file of {REPO}, and `{_IMAGES}/`"
_LAYOUT = f"{_FOLDER}, or leave it out to download from the Hub"

STEP_TASK = "mmie_step"
"""All samples, asked for images by the step protocol."""

TASKS = {
    "all": "mmie",
    "sa": "mmie_sa",
    "pbl": "mmie_pbl",
    "msr": "mmie_msr",
    "1k": "mmie_1k",
    "step": STEP_TASK,
}
"""Value of ``dataset_name`` to its task."""

SMALL_ROWS = 1_000


def dataset(selection: str, environment: Mapping[str, str]) -> datasets.Dataset:
    """The samples, in an order in which every prefix has categories and fields in their proportions
    (`fair_order`).

    Columns: those of `image_dataset`, ``id``, ``index`` (position among these samples in the
    order of the data file, from 0), ``category`` (from the id) and ``field`` (may be empty). An
    image is an absolute path that was not opened and may be missing. ``data`` is the revision:
    ``MMIE/MMIE@<commit>``, or ``sha256:`` and 12 digits of a local data file.

    Args:
        selection: ``all``, a category (``sa``, ``pbl``, ``msr``), or ``1k``: our own sample, drawn
            by `ids_of_1k`, not a published subset.
        environment: ``MMIE_DATA``, and the variables of the Hub download.

    Raises:
        DataMissing: The data is missing, or has no such rows.
        DataBroken: A row cannot be used; names row, id and field.
        SettingWrong: The selection does not exist, or a variable has an invalid value.
    """
    if selection not in TASKS:
        raise SettingWrong(
            f"MMIE has no selection `{selection}`.", hint=f"one of {', '.join(TASKS)}"
        )
    if local := environment.get("MMIE_DATA"):
        path, revision = _local_file(Path(local).expanduser().absolute()), ""
    else:
        fetched = DATASET.fetch()
        path, revision = fetched.folder / _ANNOTATION, fetched.source
    file, images = DataFile.read(path, _LAYOUT), ImageFolder.of(path.parent, hub=bool(revision))

    def read(position: int, row: object) -> MmieSample:
        sample = MmieSample.from_row(row, f"row {position}")
        return images.resolved(sample, f"row {position}, id {sample.id!r}")

    samples = file.samples(file.json(), read, lambda s: s.id)
    _count(samples, revision)
    selected = _selected(samples, selection, path)
    numbered = [replace(sample, index=index) for index, sample in enumerate(selected)]
    return image_dataset(
        fair_order(numbered, lambda s: s.id, lambda s: s.category, lambda s: s.field),
        revision or file.digest,
        texts=("id", "category", "field"),
        numbers=("index",),
    )


def task_dataset(selection: str, environment: Mapping[str, str]) -> datasets.Dataset:
    """`dataset` with a column ``task``, the name of the selection's task."""
    samples = dataset(selection, environment)
    return samples.add_column("task", [TASKS[selection]] * len(samples))


def check_data(docs: datasets.Dataset, settings: MmieSettings) -> None:
    """Check that the images of the questions exist, before anything is generated or judged.

    Raises `DataMissing` if images are missing, unless ``missing_images`` is ``count``.
    """
    if not (missing := missing_images(docs)):
        return
    path, sample_id = next(iter(missing.items()))
    message = (
        f"{len(missing)} images of MMIE's questions are missing. The first, of sample {sample_id}: "
        f"`{path}`"
    )
    if settings.missing_images == "stop":
        hint = f"unpack `{ARCHIVE}` beside `{_ANNOTATION}`, or run without them, as the official"
        raise DataMissing(f"{message}.", hint=f"{hint} script does: `missing_images=count`")
    logger.warning(f"{message}. The samples are generated and judged without them, and counted.")


def ids_of_1k(ids_by_category: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """The ids of the thousand samples of ``mmie_1k``, or all ids if there are fewer.

    Each category has its share, rounded by largest remainder: its ids whose ``mmie_1k:<id>`` has
    the smallest SHA-256. The ids alone decide, not their order.

    >>> len(ids_of_1k({"SA": ["SA-1", "SA-2"], "PBL": [], "MSR": ["MSR-1"]}))
    3
    """
    from mmie_tasks.record.intervals import allocation  # numpy, which few commands need

    counts = [len(ids) for ids in ids_by_category.values()]
    sizes = allocation(counts, min(SMALL_ROWS, sum(counts)))

    def lot(sample_id: str) -> bytes:
        return hashlib.sha256(f"mmie_1k:{sample_id}".encode()).digest()

    drawn = (
        sorted(ids, key=lot)[:size]
        for ids, size in zip(ids_by_category.values(), sizes, strict=True)
    )
    return frozenset(sample_id for ids in drawn for sample_id in ids)


def _count(samples: Sequence[MmieSample], revision: str) -> None:
    """Log counts that differ from the published ones: a warning for the Hub's data, else a note."""
    counts = Counter(sample.category for sample in samples)
    if counts != CATEGORY_SIZES:
        sizes, published = (
            " + ".join(f"{sizes[category]:,} {category}" for category in CATEGORIES)
            for sizes in (counts, CATEGORY_SIZES)
        )
        logger.log(
            "WARNING" if revision else "INFO",
            f"MMIE: {len(samples):,} samples ({sizes}); published are 20,103 ({published}).",
        )


def _selected(samples: Sequence[MmieSample], selection: str, path: Path) -> Sequence[MmieSample]:
    if selection in ("all", "step"):
        return samples
    if selection != "1k":
        chosen = [sample for sample in samples if sample.category == selection.upper()]
        if not chosen:
            raise DataMissing(
                f"`{path}` has no row of the category {selection.upper()}.",
                hint="take the task `mmie`, or point `MMIE_DATA` at data that has some",
            )
        return chosen
    if len(samples) < SMALL_ROWS:
        logger.info(f"MMIE: `mmie_1k` has all samples, as there are only {len(samples):,}.")
    drawn = ids_of_1k({name: [s.id for s in samples if s.category == name] for name in CATEGORIES})
    return [sample for sample in samples if sample.id in drawn]


def _local_file(path: Path) -> Path:
    """The data file that ``MMIE_DATA`` names, directly or by its folder."""
    if not path.exists():
        raise DataMissing(f"`MMIE_DATA` is `{path}`: no such folder or file.", hint=_LAYOUT)
    file = path / _ANNOTATION if path.is_dir() else path
    if file.is_file() and file.name != _EXAMPLE:
        return file
    raise DataMissing(
        f"`{file.parent}` contains no `{_ANNOTATION}`; it contains: {entries_of(file.parent)}.",
        hint=_LAYOUT,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFolder:
    """Finds the image files that a data file names.

    The file of a reference is the first of these that exists, or the first if none does:

    1. ``<root>/<reference>``, as the official script joins them;
    2. ``<root>/images/<reference>``, as in papers that read the dataset's file;
    3. the reference, without a leading ``images/``, in the innermost folder that the archive has
       around its images: its layout is not published.

    Attributes:
        root: The absolute folder of the data file.
        innermost: The innermost folder around the images.
        hub: Whether the data is from the Hub. Only in a local folder do absolute references stay as
            they are, as in the official script.
    """

    root: Path
    innermost: Path
    hub: bool

    @classmethod
    def of(cls, root: Path, *, hub: bool) -> ImageFolder:
        """The images beside a data file in the folder `root`."""
        folder = root / _IMAGES
        while folder.is_dir():
            entries = list(islice(folder.iterdir(), 2))
            if len(entries) != 1 or not entries[0].is_dir():
                break
            folder = entries[0]
        return cls(root=root, innermost=folder, hub=hub)

    def resolved(self, sample: MmieSample, location: str) -> MmieSample:
        """The sample with paths of its images, without gold images that are outside the root.

        Raises:
            BadSample: An image of the question is outside the root.
        """

        def with_paths(segments: Segments) -> Segments:
            return tuple(replace(s, image=s.image and self.path(s.image)) for s in segments)

        question = with_paths(sample.question)
        for segment, with_path in zip(sample.question, question, strict=True):
            if segment.image and with_path.image is None:
                problem = f"{segment.image!r}, not a file inside `{self.root}`"
                raise BadSample(f"{location}: its question names {problem}")
        return replace(sample, question=question, gold=with_paths(sample.gold))

    def path(self, reference: str) -> str | None:
        """The path of a reference; None if it leaves the root, as ``../0.png`` does."""
        if posixpath.isabs(reference) and not self.hub:
            return reference
        name = posixpath.normpath(reference.replace("\\", "/"))
        if name in (".", "..") or name.startswith(("../", "/")) or "\0" in name:
            return None
        candidates = [
            f"{self.root}/{name}",
            f"{self.root}/{_IMAGES}/{name}",
            f"{self.innermost}/{name.removeprefix(f'{_IMAGES}/')}",
        ]
        return next(filter(os.path.isfile, candidates), candidates[0])


# The files


def _fill(snapshot: Path, folder: Path) -> None:
    shutil.copyfile(snapshot / _ANNOTATION, folder / _ANNOTATION)
    unpack(snapshot / ARCHIVE, folder / _IMAGES)


DATASET = HubDataset(repo=REPO, files=(_ANNOTATION, ARCHIVE), fill=_fill, alternative=_FOLDER)


def asset(environment: Mapping[str, str], settings: MmieSettings) -> Asset:
    """Data file and images."""

    def describe() -> str:
        docs = dataset("all", environment)
        check_data(docs, settings)
        return described(docs)

    name = "mmie: data"
    check = Check(subject=name, describe=describe)
    local = local_asset(name, "MMIE_DATA", environment.get("MMIE_DATA"), (check,))
    return local or DATASET.asset(name, check)
