"""MMIE's samples as a `datasets.Dataset` whose images are paths, from a local folder or the gated
Hub dataset (`mmie_tasks.benchmarks.mmie.download`).
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

from loguru import logger

from mmie_tasks.benchmarks.json_file import read_json_file
from mmie_tasks.benchmarks.mmie.download import ANNOTATION, IMAGES, hub_folder
from mmie_tasks.benchmarks.mmie.rows import DataRow, read_row
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES
from mmie_tasks.benchmarks.odd_rows import OddRows
from mmie_tasks.benchmarks.order import fair_order
from mmie_tasks.core.errors import DataBroken, DataMissing, SettingWrong
from mmie_tasks.core.options import choice_setting

if TYPE_CHECKING:
    import datasets

LAYOUT = (
    f"the layout is `{ANNOTATION}`, the file of MMIE/MMIE or one in the official judge's form, "
    f"beside `{IMAGES}/`; point `MMIE_DATA` at their folder, or unset it to download from the Hub"
)
_EXAMPLE = "overview.json"  # of the same repository
_MISSING = "MMIE_MISSING_IMAGES"

TASKS = {"all": "mmie", "sa": "mmie_sa", "pbl": "mmie_pbl", "msr": "mmie_msr", "1k": "mmie_1k"}
"""Values of ``dataset_name``, to the tasks that have them."""

PUBLISHED = {"SA": 5_005, "PBL": 11_482, "MSR": 3_616}
"""Published rows in each category (index.html of the project's site, 2287883)."""

SMALL_ROWS = 1_000

_REPAIR = (
    "repair it, or replace it by the file of MMIE/MMIE; if a run has downloaded it, delete "
    "it and run again"
)


def dataset(selection: str, environment: Mapping[str, str]) -> datasets.Dataset:
    """The samples, in an order in which every prefix has categories and fields in their proportions
    (`fair_order`).

    Columns: ``id``, ``index`` (position among these samples in the order of the data file, from 0),
    ``row`` (position in this dataset, from 0), ``category`` (by the id), ``field`` and ``subfield``
    (may be empty), ``question`` and ``gold`` (lists of ``text`` and ``image``, either null; an
    image is the absolute path of a file that was not opened and may be missing) and ``data`` (the
    revision: ``MMIE/MMIE@<commit>``, or ``sha256:`` and 12 digits of a local data file; and the
    rows that were left out: see `OddRows`).

    Args:
        selection: ``all``, one category (``sa``, ``pbl``, ``msr``), or ``1k``: the sample that
            `ids_of_1k` draws, which is ours and no published subset.
        environment: ``MMIE_DATA``, ``MMIE_TASKS_ODD_ROWS``, and the variables of the Hub download.

    Raises:
        DataMissing: The data is missing, or has no such rows.
        DataBroken: Too many rows cannot be used (see `OddRows`); names row, id and field.
        SettingWrong: No such selection, or a variable has an invalid value.
    """
    if selection not in TASKS:
        raise SettingWrong(
            f"MMIE has no selection `{selection}`.", hint=f"one of {', '.join(TASKS)}"
        )
    odd_rows = OddRows("MMIE", _REPAIR, environment)
    if local := environment.get("MMIE_DATA"):
        path, revision = _local_file(Path(local).expanduser().absolute()), ""
    else:
        fetched = hub_folder(environment)
        path, revision = fetched.folder / ANNOTATION, fetched.revision
    file = read_json_file(path, layout=LAYOUT, repair=_REPAIR)
    if not isinstance(file.value, list) or not file.value:
        raise DataBroken(f"`{path}`: not a list with rows in it.", hint=_REPAIR)
    rows = odd_rows.usable(path, file.value, read_row, lambda row: row.id)
    segments = (segment for row in rows for segment in (*row.question, *row.gold))
    references = [segment.image for segment in segments if segment.image is not None]
    paths = image_paths(path.parent, references, hub=bool(revision))
    rows = _without_outside_images(rows, paths, path, odd_rows)
    odd_rows.check(path, len(rows))
    data = f"{revision or file.digest}{odd_rows.report()}"
    _count(rows, revision)
    return _dataset(_selected(rows, selection, path), paths, data)


def missing_images(docs: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Images of questions without a file, each with the id of a sample that has it."""
    missing: dict[str, str] = {}
    for doc in docs:
        for segment in doc["question"]:
            if (path := segment["image"]) and not os.path.isfile(path):  # noqa: PTH113 - quicker
                missing.setdefault(path, doc["id"])
    return missing


def check_data(docs: datasets.Dataset) -> None:
    """Check that the images of the questions exist, before anything is generated or judged.

    Raises:
        DataMissing: Files are missing, and ``MMIE_MISSING_IMAGES`` is not ``count``.
        SettingWrong: ``MMIE_MISSING_IMAGES`` is neither ``stop`` nor ``count``.
    """
    hint = f"`export {_MISSING}=count` continues without the images and counts them"
    setting = choice_setting(os.environ, _MISSING, "stop", "count", hint=hint)
    if not (missing := missing_images(docs)):
        return
    path, sample_id = next(iter(missing.items()))
    message = (
        f"{len(missing)} images of MMIE's questions are missing. The first, of sample {sample_id}: "
        f"`{path}`"
    )
    if setting == "stop":
        hint = f"unpack `images.tar.gz` beside `data.json`, or `export {_MISSING}=count` to run"
        raise DataMissing(f"{message}.", hint=f"{hint} without them, as the official script does")
    logger.warning(f"{message}. The samples are generated and judged without them, and counted.")


def ids_of_1k(ids_by_category: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """The ids of the thousand samples of ``mmie_1k``, or all ids if there are fewer.

    Each category has its share, rounded by largest remainder; in it, the ids whose
    ``mmie_1k:<id>`` has the smallest SHA-256. So the ids alone decide, not their order.

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


def _count(rows: Sequence[DataRow], revision: str) -> None:
    """Log counts other than the published ones: a warning for the Hub's data, else a note."""
    counts = Counter(row.category for row in rows)
    if counts != PUBLISHED:
        sizes = " + ".join(f"{counts[category]:,} {category}" for category in CATEGORIES)
        published = " + ".join(f"{count:,} {category}" for category, count in PUBLISHED.items())
        logger.log(
            "WARNING" if revision else "INFO",
            f"MMIE: {len(rows):,} samples ({sizes}); published are 20,103 ({published}).",
        )


def _without_outside_images(
    rows: Sequence[DataRow], paths: Mapping[str, str | None], path: Path, odd_rows: OddRows
) -> list[DataRow]:
    """The rows whose questions name no path outside the folder of the data file.

    A gold answer may name one: its images are shown to no judge, so the row is judged without.
    """
    usable: list[DataRow] = []
    for row in rows:
        images = [s.image for s in row.question if s.image is not None and paths[s.image] is None]
        if images:
            problem = f"its question names {images[0]!r}, not a file inside `{path.parent}`"
            odd_rows.add(path, row.number, f"row {row.number}, id {row.id!r}: {problem}")
        else:
            usable.append(row)
    return usable


def _selected(rows: Sequence[DataRow], selection: str, path: Path) -> Sequence[DataRow]:
    if selection == "all":
        return rows
    if selection != "1k":
        if not (chosen := [row for row in rows if row.category == selection.upper()]):
            raise DataMissing(
                f"`{path}` has no row of the category {selection.upper()}.",
                hint="take the task `mmie`, or point `MMIE_DATA` at data that has some",
            )
        return chosen
    if len(rows) < SMALL_ROWS:
        logger.info(f"MMIE: `mmie_1k` has all samples, as there are only {len(rows):,}.")
    drawn = ids_of_1k(
        {name: [row.id for row in rows if row.category == name] for name in CATEGORIES}
    )
    return [row for row in rows if row.id in drawn]


def _dataset(
    rows: Sequence[DataRow], paths: Mapping[str, str | None], data: str
) -> datasets.Dataset:
    import datasets

    positions = {row.id: position for position, row in enumerate(rows)}
    rows = fair_order(rows, lambda row: row.id, lambda row: row.category, lambda row: row.field)
    text, whole_number = datasets.Value("string"), datasets.Value("int32")
    features = dict.fromkeys(("id", "category", "field", "subfield", "data"), text)
    features |= {"index": whole_number, "row": whole_number}
    features |= {name: [{"text": text, "image": text}] for name in ("question", "gold")}
    columns: dict[str, list[object]] = {
        name: [getattr(row, name) for row in rows]
        for name in ("id", "category", "field", "subfield")
    }
    for name in ("question", "gold"):
        columns[name] = [
            [{"text": s.text, "image": s.image and paths[s.image]} for s in getattr(row, name)]
            for row in rows
        ]
    columns |= {"index": [positions[row.id] for row in rows], "row": list(range(len(rows)))}
    columns["data"] = [data] * len(rows)
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


# The data file


def _local_file(path: Path) -> Path:
    """The data file that ``MMIE_DATA`` names: the file itself, or the folder that contains it."""
    if not path.exists():
        raise DataMissing(f"`MMIE_DATA` is `{path}`: there is no such folder or file.", hint=LAYOUT)
    file = path / ANNOTATION if path.is_dir() else path
    if file.is_file() and file.name != _EXAMPLE:
        return file
    names = ", ".join(sorted(entry.name for entry in file.parent.iterdir())[:20]) or "nothing"
    message = f"`{file.parent}` contains no `{ANNOTATION}`; it contains: {names}."
    if (file.parent / _EXAMPLE).is_file():
        message += f" `{_EXAMPLE}` shows the form with a few rows, and is not the benchmark."
    raise DataMissing(message, hint=LAYOUT)


# Images


def image_paths(folder: Path, references: Iterable[str], *, hub: bool) -> dict[str, str | None]:
    """Reference to the path of its file; ``folder/<reference>`` if there is no such file.

    None for a reference that leaves the folder, such as ``../0.png``.

    The file is the first of these that exists:

    1. ``folder/<reference>``, as the official script joins them;
    2. ``folder/images/<reference>``, as in papers that read the dataset's file;
    3. the last part of the reference in ``folder/images``, or in the innermost folder that the
       archive has around its images; only if no other reference ends in it.

    Links are followed and must end in `folder`, or in its ``images``, which may itself be a link.

    Args:
        folder: The folder of the data file, absolute.
        references: As in the data file. In a local folder, absolute references stay as they are.
        hub: Whether everything came from the Hub.
    """
    innermost = _innermost(folder / IMAGES)
    real_roots = tuple(f"{os.path.realpath(root)}/" for root in (folder, folder / IMAGES))
    names = {reference: _relative(reference) for reference in references}
    uses = Counter(posixpath.basename(name) for name in set(names.values()) if name)

    def path_of(name: str) -> str | None:
        last = posixpath.basename(name)
        candidates = [f"{folder}/{name}", f"{folder}/{IMAGES}/{name}"]
        if uses[last] == 1:
            candidates.append(f"{innermost}/{last}")
        path = next(filter(os.path.isfile, candidates), candidates[0])
        return path if os.path.realpath(path).startswith(real_roots) else None

    paths: dict[str, str | None] = {}
    for reference, name in names.items():
        paths[reference] = path_of(name) if name else None
        if not hub and posixpath.isabs(reference):
            paths[reference] = reference
    return paths


def _innermost(folder: Path) -> Path:
    """The folder, or the one that is reached from it while a folder holds nothing but a folder."""
    while folder.is_dir():
        entries = list(islice(folder.iterdir(), 2))
        if len(entries) != 1 or not entries[0].is_dir():
            break
        folder = entries[0]
    return folder


def _relative(reference: str) -> str | None:
    """The reference with slashes, and without ``.`` and ``..``; None if it leaves its folder."""
    name = posixpath.normpath(reference.replace("\\", "/"))
    is_outside = name in (".", "..") or name.startswith("../") or "\0" in reference
    return None if is_outside or PureWindowsPath(reference).anchor else name


def describe(environment: Mapping[str, str]) -> str:
    """A sentence about samples and images, after a check of both.

    Raises:
        MmieTasksError: As `dataset` and `check_data`.
    """
    docs = dataset("all", environment)
    check_data(docs)
    missing = missing_images(docs)
    count = f"{len(missing):,} images are" if missing else "no image is"
    return f"{len(docs):,} samples of {docs[0]['data']}; {count} missing"
