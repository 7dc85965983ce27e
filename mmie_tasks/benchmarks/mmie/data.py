"""MMIE's samples as a `datasets.Dataset` of image paths, from a local folder or the gated Hub."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from mmie_tasks.benchmarks.image_data import described, image_dataset, missing_images
from mmie_tasks.benchmarks.json_file import read_json_file, read_samples
from mmie_tasks.benchmarks.mmie.download import ANNOTATION, DATASET, IMAGES
from mmie_tasks.benchmarks.mmie.image_folder import ImageFolder
from mmie_tasks.benchmarks.mmie.published import CATEGORY_SIZES
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, Sample
from mmie_tasks.benchmarks.mmie.settings import MmieSettings
from mmie_tasks.benchmarks.order import fair_order
from mmie_tasks.core.errors import BadSample, DataBroken, DataMissing, SettingWrong

if TYPE_CHECKING:
    import datasets

LAYOUT = (
    f"the layout is `{ANNOTATION}`, the file of MMIE/MMIE or one in the official judge's form, "
    f"beside `{IMAGES}/`; point `MMIE_DATA` at their folder, or unset it to download from the Hub"
)
_EXAMPLE = "overview.json"  # a few rows in the same repository that show the form

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

_REPAIR = (
    "repair it, or replace it by the file of MMIE/MMIE; if a run has downloaded it, delete "
    "it and run again"
)


def dataset(selection: str, environment: Mapping[str, str]) -> datasets.Dataset:
    """The samples, in an order in which every prefix has categories and fields in their proportions
    (`fair_order`).

    Columns: those of `image_dataset`, ``id``, ``index`` (position among these samples in the
    order of the data file, from 0), ``category`` (from the id), ``field`` and ``subfield`` (may be
    empty). An image is an absolute path that was not opened and may be missing. ``data`` is the
    revision: ``MMIE/MMIE@<commit>``, or ``sha256:`` and 12 digits of a local data file.

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
        path, revision = fetched.folder / ANNOTATION, fetched.source
    file = read_json_file(path, layout=LAYOUT, repair=_REPAIR)
    if not isinstance(file.value, list) or not file.value:
        raise DataBroken(f"`{path}`: not a list with rows in it.", hint=_REPAIR)
    images = ImageFolder(path.parent, hub=bool(revision), references=_references(file.value))
    read = partial(_read_row, images)
    samples = read_samples(path, file.value, read, lambda s: s.id, repair=_REPAIR)
    _count(samples, revision)
    selected = _selected(samples, selection, path)
    numbered = [replace(sample, index=index) for index, sample in enumerate(selected)]
    return image_dataset(
        fair_order(numbered, lambda s: s.id, lambda s: s.category, lambda s: s.field),
        revision or file.digest,
        texts=("id", "category", "field", "subfield"),
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
        hint = "unpack `images.tar.gz` beside `data.json`, or run without them, as the official"
        raise DataMissing(f"{message}.", hint=f"{hint} script does: `missing_images=count`")
    logger.warning(f"{message}. The samples are generated and judged without them, and counted.")


def describe(environment: Mapping[str, str], settings: MmieSettings) -> str:
    """A sentence about samples and images, after a check of both."""
    docs = dataset("all", environment)
    check_data(docs, settings)
    return described(docs)


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


def _count(samples: Sequence[Sample], revision: str) -> None:
    """Log counts that differ from the published ones: a warning for the Hub's data, else a note."""
    counts = Counter(sample.category for sample in samples)
    if counts != CATEGORY_SIZES:
        sizes = " + ".join(f"{counts[category]:,} {category}" for category in CATEGORIES)
        published = " + ".join(
            f"{count:,} {category}" for category, count in CATEGORY_SIZES.items()
        )
        logger.log(
            "WARNING" if revision else "INFO",
            f"MMIE: {len(samples):,} samples ({sizes}); published are 20,103 ({published}).",
        )


def _selected(samples: Sequence[Sample], selection: str, path: Path) -> Sequence[Sample]:
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
        raise DataMissing(f"`MMIE_DATA` is `{path}`: there is no such folder or file.", hint=LAYOUT)
    file = path / ANNOTATION if path.is_dir() else path
    if file.is_file() and file.name != _EXAMPLE:
        return file
    names = ", ".join(sorted(entry.name for entry in file.parent.iterdir())[:20]) or "nothing"
    raise DataMissing(
        f"`{file.parent}` contains no `{ANNOTATION}`; it contains: {names}.", hint=LAYOUT
    )


def _references(value: object) -> Iterator[str]:
    """Every value of ``image`` in a data file."""
    match value:
        case list():
            yield from chain.from_iterable(map(_references, value))
        case dict():
            if isinstance(reference := value.get("image"), str):
                yield reference
            yield from _references(list(value.values()))


def _read_row(images: ImageFolder, position: int, row: object) -> Sample:
    """The row's sample; gold images outside the folder are left out, as no judge sees them."""
    sample = Sample.from_row(row, f"row {position}")
    question, gold = map(images.resolved, (sample.question, sample.gold))
    for segment, resolved in zip(sample.question, question, strict=True):
        if segment.image and resolved.image is None:
            raise BadSample(
                f"row {position}, id {sample.id!r}: its question names {segment.image!r}, not a "
                f"file inside `{images.root}`"
            )
    return replace(sample, question=question, gold=gold)
