"""MMIE as a `datasets.Dataset` whose images are paths, from a folder or from the Hub."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loguru import logger

from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, BadSample, Segment
from mmie_tasks.errors import DataBroken, DataMissing, MmieTasksError, SettingWrong
from mmie_tasks.sources.mmie_file import ANNOTATION, content_of, local_file, values
from mmie_tasks.sources.mmie_hub import hub_folder
from mmie_tasks.sources.mmie_images import OutsideFolder, files_in, image_paths
from mmie_tasks.sources.mmie_rows import Row, read_rows

if TYPE_CHECKING:
    import datasets

SELECTIONS = ("all", "sa", "pbl", "msr", "1k")
PUBLISHED = {"SA": 5_005, "PBL": 11_482, "MSR": 3_616}
"""Rows in each category, by the project's site (index.html, 2287883)."""

SMALL_ROWS = 1_000

_REPAIR = f"fetch `{ANNOTATION}` again from MMIE/MMIE, or repair it"


def dataset(selection: str, environment: Mapping[str, str]) -> datasets.Dataset:
    """The samples, in the order of the data file.

    Columns: ``id``, ``index`` (the row in this dataset, from 0), ``category`` (by the id),
    ``field`` and ``subfield`` (may be empty), ``question`` and ``gold`` (lists of ``text`` and
    ``image``, either null; an image is the absolute path of a file that was not opened and need
    not be there) and ``data`` (the revision: ``MMIE/MMIE@<commit>``, or ``sha256:`` and 12 digits
    of a local data file).

    Args:
        selection: ``all``, one category (``sa``, ``pbl``, ``msr``), or ``1k``: the sample that
            `small` draws, which is ours and no published subset.
        environment: Read: ``MMIE_DATA``, and what the Hub download reads.

    Raises:
        DataMissing: The data is not there, or has no such rows.
        DataBroken: A row cannot be used; names row, id and field.
        SettingWrong: No such selection, or ``MMIE_REVISION`` cannot be a revision.
    """
    if selection not in SELECTIONS:
        hint = f"one of {', '.join(SELECTIONS)}"
        raise SettingWrong(f"MMIE has no selection `{selection}`.", hint=hint)
    if local := environment.get("MMIE_DATA"):
        path, revision = local_file(Path(local).expanduser().absolute()), ""
    else:
        fetched = hub_folder(environment)
        path, revision = fetched.folder / ANNOTATION, fetched.revision
    rows, digest = _read(path)
    _count(rows, revision)
    paths = _paths(path, rows, hub=bool(revision))
    return _dataset(_selected(rows, selection, path), paths, revision or digest)


def missing_images(docs: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The images of questions that are no files, each with the id of a sample that has it.

    Folders are listed once each; nothing is opened.

    Raises:
        DataMissing: A folder cannot be listed.
    """
    listed: dict[str, dict[str, bool]] = {}
    missing: dict[str, str] = {}
    for doc in docs:
        for path in (segment["image"] for segment in doc["question"] if segment["image"]):
            folder, name = os.path.split(path)
            if folder not in listed:
                listed[folder] = files_in(folder)
            if name not in listed[folder]:
                missing.setdefault(path, doc["id"])
    return missing


def small(ids_by_category: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """The ids of a thousand samples, or of all where there are fewer.

    As many of a category as its share, rounded by largest remainder; in it those whose
    ``mmie_1k:<id>`` has the smallest SHA-256. So the ids alone decide, not their order.

    >>> len(small({"SA": ["SA-1", "SA-2"], "PBL": [], "MSR": ["MSR-1"]}))
    3
    """
    counts = {category: len(ids) for category, ids in ids_by_category.items()}
    total = sum(counts.values())
    shares = {category: divmod(SMALL_ROWS * n, total or 1) for category, n in counts.items()}
    places = {category: whole for category, (whole, _) in shares.items()}
    by_remainder = sorted(shares, key=lambda category: -shares[category][1])
    for category in by_remainder[: SMALL_ROWS - sum(places.values())]:
        places[category] += 1
    drawn = (sorted(ids, key=_lot)[: places[name]] for name, ids in ids_by_category.items())
    return frozenset(one for ids in drawn for one in ids)


def _lot(sample_id: str) -> bytes:
    return hashlib.sha256(f"mmie_1k:{sample_id}".encode()).digest()


def _read(path: Path) -> tuple[list[Row], str]:
    """The rows, and a digest of the file."""
    content = content_of(path)
    digest = f"sha256:{hashlib.sha256(content).hexdigest()[:12]}"
    try:
        rows = read_rows(values(content.decode("utf-8-sig")))
    except BadSample as error:
        raise _broken(path, str(error)) from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested without end
        raise _broken(path, f"not JSON ({error})") from error
    if not rows:
        raise _broken(path, "no rows in it")
    return rows, digest


def _broken(path: Path, found: str) -> DataBroken:
    return DataBroken(f"`{path}`: {found}.", hint=_REPAIR)


def _count(rows: Sequence[Row], revision: str) -> None:
    """Say so where these are not the published counts; a local folder may hold what it likes."""
    counts = Counter(row.category for row in rows)
    if counts != PUBLISHED:
        found = " + ".join(f"{counts[category]:,} {category}" for category in CATEGORIES)
        published = " + ".join(f"{count:,} {category}" for category, count in PUBLISHED.items())
        logger.log(
            "WARNING" if revision else "INFO",
            f"MMIE: {len(rows):,} samples ({found}); published are 20,103 ({published}).",
        )


def _paths(path: Path, rows: Sequence[Row], *, hub: bool) -> Mapping[str, str]:
    references = (image for row in rows for _, image in _images(row))
    try:
        return image_paths(path.parent, references, hub=hub)
    except OutsideFolder as error:
        row, name = next(
            (number, f"id {row.id!r}: `{name}.image`")
            for number, row in enumerate(rows)
            for name, image in _images(row)
            if image == error.reference
        )
        raise _broken(path, f"row {row}, {name}: {error}") from error


def _images(row: Row) -> Iterable[tuple[str, str]]:
    """The references of a row, each with its place."""
    for name, segments in (("question", row.question), ("gold", row.gold)):
        for i, segment in enumerate(segments):
            if segment.image is not None:
                yield f"{name}[{i}]", segment.image


def _selected(rows: Sequence[Row], selection: str, path: Path) -> Sequence[Row]:
    if selection == "all":
        return rows
    if selection != "1k":
        chosen = [row for row in rows if row.category == selection.upper()]
        if not chosen:
            raise _no_rows(selection, path)
        return chosen
    if len(rows) < SMALL_ROWS:
        logger.info(f"MMIE: the sample of {SMALL_ROWS:,} is all there is: {len(rows):,}.")
    ids = {name: [row.id for row in rows if row.category == name] for name in CATEGORIES}
    drawn = small(ids)
    return [row for row in rows if row.id in drawn]


def _no_rows(selection: str, path: Path) -> MmieTasksError:
    return DataMissing(
        f"`{path}` has no row of the category {selection.upper()}.",
        hint="take the task `mmie`, or point `MMIE_DATA` at data that has some",
    )


def _dataset(rows: Sequence[Row], paths: Mapping[str, str], data: str) -> datasets.Dataset:
    import datasets

    text = datasets.Value("string")
    features = dict.fromkeys(("id", "category", "field", "subfield", "data"), text)
    features |= {"index": datasets.Value("int32")}
    features |= {name: [{"text": text, "image": text}] for name in ("question", "gold")}
    columns = {
        "id": [row.id for row in rows],
        "index": list(range(len(rows))),
        "category": [row.category for row in rows],
        "field": [row.field for row in rows],
        "subfield": [row.subfield for row in rows],
        "question": [_column(row.question, paths) for row in rows],
        "gold": [_column(row.gold, paths) for row in rows],
        "data": [data] * len(rows),
    }
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


def _column(segments: Iterable[Segment], paths: Mapping[str, str]) -> list[dict[str, str | None]]:
    return [{"text": one.text, "image": one.image and paths[one.image]} for one in segments]
