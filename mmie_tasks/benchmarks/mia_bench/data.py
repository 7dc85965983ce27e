"""MIA-Bench's samples as a `datasets.Dataset` whose images are paths, from a local folder or the
Hub.

The dataset on the Hub is a table with the images inside. It is downloaded into the Hub's own cache,
and written once as files below `mmie_tasks.core.files.cache_dir`::

    mia_bench/<commit>/instruction_benchmark_all.json, images/000.jpg, ...
    mia_bench/commits/<revision>.txt               see `mmie_tasks.hub.commits`

Images are the bytes from the Hub, never re-encoded, because the judge is shown the file.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loguru import logger

from mmie_tasks.benchmarks.json_file import read_json_file
from mmie_tasks.benchmarks.mia_bench.sample import BadSample, Sample
from mmie_tasks.benchmarks.odd_rows import OddRows
from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.core.files import cache_dir, file_lock
from mmie_tasks.hub.asset import Asset, DownloadPlan, data_asset, hub_cache
from mmie_tasks.hub.commits import HubDataset, HubFolder
from mmie_tasks.hub.download import HubFile, download_errors, download_failure
from mmie_tasks.hub.images import check_images, image_suffix, inside

if TYPE_CHECKING:
    import datasets

REPO = "lmms-lab-encoder/MIA-Bench"  # the one that the runner's own task loads
ANNOTATION = "instruction_benchmark_all.json"

DataRow = dict[str, object]
_TEXTS = ("id", "image", "url", "instruction", "type", "data")
_LAYOUT = (
    f"the layout is `{ANNOTATION}`, the file of apple/ml-mia-bench, beside `images/`; "
    "point `MIA_BENCH_DATA` at their folder, or unset it to download from the Hub"
)
_REPAIR = (
    "repair it, or replace it by the file of apple/ml-mia-bench; if a run has downloaded it, "
    "delete its folder and run again"
)

# Of `words_digest`, for the 400 rows of apple/ml-mia-bench at 5422852d.
OFFICIAL_WORDS = "e10f5c3ce6e86aebcff39671923b815f4d215aef6d9fdce97702a9e4efbecca6"

MAX_ROWS = 10_000  # the benchmark has 400
MAX_IMAGE_BYTES = 64 * 1024 * 1024
NUMBERED = "`images/<row>.<ext>`, the row from 0 and in three digits, such as `images/007.jpg`"

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HOST = re.compile(r"[\w-]+(\.[\w-]+)+/", re.ASCII)  # row 193 has no scheme
_DATASET = HubDataset(
    repo=REPO, name="mia_bench", variable="MIA_BENCH_REVISION", required=(ANNOTATION,)
)
_ALTERNATIVE = f"set `MIA_BENCH_DATA` to a folder with `{ANNOTATION}` and `images/`"
_PAGE = f"https://huggingface.co/datasets/{REPO}"
_FIELDS = ("instruction", "type", "components", "component_weight", "component_type")
_TABLES = "*test*.parquet"  # the split `test`
_LISTING_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One row of the annotation, checked."""

    sample: Sample
    image: str  # as annotated: an address, or a file's name


def dataset(environment: Mapping[str, str]) -> datasets.Dataset:
    """The samples, in the order of the official file.

    Columns: ``id`` (the row, from 0, as text), ``image`` (path of a file that was not opened and
    may be missing), ``url`` (the image as annotated),
    ``instruction``, ``type``, ``components``, ``component_weight`` (points), ``component_type`` and
    ``data`` (the revision: ``sha256:`` and 12 digits of a local annotation, or repository and
    commit; and the rows that were left out: see `OddRows`).

    Args:
        environment: ``MIA_BENCH_DATA``, ``MMIE_TASKS_ODD_ROWS``, and the variables of the Hub
            download.

    Raises:
        DataMissing: The data is missing.
        DataBroken: Too many rows cannot be used (see `OddRows`); names row and field.
        SettingWrong: A variable has an invalid value.
    """
    import datasets

    odd_rows = OddRows("MIA-Bench", _REPAIR, environment)
    if local := environment.get("MIA_BENCH_DATA"):
        folder, revision = _local_folder(Path(local).expanduser()), ""
    else:
        fetched = hub_folder(environment)
        folder, revision = fetched.folder, fetched.revision
    file = read_json_file(folder / ANNOTATION, layout=_LAYOUT, repair=_REPAIR)
    entries = _entries(folder / ANNOTATION, file.value, odd_rows)
    odd_rows.log()
    paths = image_paths(folder, {int(entry.sample.id): entry.image for entry in entries})
    if len(entries) == 400 and words_digest([e.sample for e in entries]) != OFFICIAL_WORDS:
        logger.info(
            "MIA-Bench: instructions or components of these 400 rows differ from those of the "
            "official file."
        )
    data = f"{revision or file.digest}{odd_rows.suffix}"
    rows = [_row(entry, paths[int(entry.sample.id)], data) for entry in entries]
    text, whole_number = datasets.Value("string"), datasets.Value("int32")
    features = dict.fromkeys(_TEXTS, text)
    features |= {"components": [text], "component_weight": [whole_number], "component_type": [text]}
    return datasets.Dataset.from_list(rows, features=datasets.Features(features))


def check_data(docs: datasets.Dataset) -> None:
    """Check the header of every image, before anything is generated or judged.

    Raises:
        DataMissing: Files are missing or are no images; gives their number and the first name.
    """
    hint = f"the images are {NUMBERED}; complete them, or unset `MIA_BENCH_DATA` to download them"
    check_images("MIA-Bench", {doc["image"]: doc["id"] for doc in docs}, hint)


def words_digest(samples: Sequence[Sample]) -> str:
    """SHA-256, in hex, of the instructions and components, in order."""
    words = [[sample.instruction, list(sample.components)] for sample in samples]
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


def _entries(path: Path, value: object, odd_rows: OddRows) -> list[_Entry]:
    if not isinstance(value, list) or not value:
        raise DataBroken(f"`{path}`: not a list with rows in it.", hint=_REPAIR)
    entries = []
    for row, fields in enumerate(value):
        try:
            entries.append(_entry(row, fields, path.parent))
        except BadSample as error:  # noqa: PERF203 - the other rows are read
            odd_rows.add(path, row, str(error))
    odd_rows.check(path, len(entries))
    return entries


def _entry(row: int, fields: object, folder: Path) -> _Entry:
    if not isinstance(fields, Mapping):
        raise BadSample(f"row {row} is {type(fields).__name__}, not an object")
    image = fields.get("image")
    if not isinstance(image, str) or not image.strip() or not image.isprintable():
        raise BadSample(f"row {row}: `image` is {image!r}, not an address or a file's name")
    if not is_address(image.strip()):
        try:
            inside(folder, image.strip())
        except DataBroken as error:
            raise BadSample(f"row {row}: {error.message.rstrip('.')}") from error
    return _Entry(sample=Sample.from_doc({**fields, "id": str(row)}), image=image.strip())


def _row(entry: _Entry, path: Path, data: str) -> DataRow:
    return {
        "id": entry.sample.id,
        "image": str(path),
        "url": entry.image,
        "instruction": entry.sample.instruction,
        "type": entry.sample.type,
        "components": list(entry.sample.components),
        "component_weight": list(entry.sample.weights),
        "component_type": list(entry.sample.categories),
        "data": data,
    }


# Images


def image_paths(folder: Path, references: Mapping[int, str]) -> dict[int, Path]:
    """Row to its image file, or to the path that it should have.

    An address is not a file name: the official file has addresses that end in the same name, in a
    slash, or in no extension. So the image of row 7 is ``folder/images/007.<ext>``, whatever its
    address is. A row that names a file, and no address, has ``folder/<name>``.

    Args:
        folder: The folder of the annotation.
        references: Row, from 0, to its ``image``.

    Raises:
        DataBroken: A name leaves the folder, or several files belong to one row.
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
    """Whether the image is named by a URL, and not by a file's name.

    >>> is_address("farm8.staticflickr.com/1.jpg"), is_address("images/3.png")
    (True, False)
    """
    return bool(_SCHEME.match(reference) or _HOST.match(reference))


# The Hub


def hub_folder(environment: Mapping[str, str]) -> HubFolder:
    """The folder with annotation and images, downloaded and written first if necessary.

    If the Hub does not answer, its cache is used, into which the runner's own task downloads the
    same table. ``HF_ENDPOINT``, ``HF_HOME``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE`` are read by
    `huggingface_hub` itself.

    Args:
        environment: Read: ``MIA_BENCH_REVISION`` (branch, tag or commit; by default ``main``), and
            what `mmie_tasks.core.files.cache_dir` reads.

    Raises:
        DataMissing: No access, no such repository or revision, no connection, or a full disk.
        DataBroken: The dataset on the Hub is not MIA-Bench.
        SettingWrong: ``MIA_BENCH_REVISION`` cannot be a revision.
    """
    from huggingface_hub import snapshot_download

    if cached := _DATASET.cached(environment):
        return cached
    revision, root = _DATASET.revision(environment), _DATASET.root(environment)
    try:
        snapshot = Path(
            snapshot_download(REPO, repo_type="dataset", revision=revision, allow_patterns=_TABLES)
        )
        folder = root / snapshot.name  # the commit
        root.mkdir(parents=True, exist_ok=True)
        with file_lock(root / f"{folder.name}.lock", "downloading MIA-Bench"):
            if not folder.is_dir():
                names = sorted(
                    str(path.relative_to(snapshot)) for path in snapshot.rglob("*.parquet")
                )
                _write_folder([snapshot / name for name in names if fnmatch(name, _TABLES)], folder)
    except download_errors() as error:
        raise download_failure(_table(revision), error) from error
    return _DATASET.stored(folder.name, environment)


def _table(revision: str) -> HubFile:
    return HubFile(repo=REPO, filename=_TABLES, revision=revision, alternative=_ALTERNATIVE)


def _write_folder(tables: Sequence[Path], folder: Path) -> None:
    """Write annotation and images beside `folder`, and rename the result when it is complete."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
    (unfinished / "images").mkdir(parents=True)
    annotation = [
        _written(row, fields, unfinished) for row, fields in enumerate(_table_rows(tables))
    ]
    (unfinished / ANNOTATION).write_text(json.dumps(annotation, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(folder)
    logger.info(f"MIA-Bench: {len(annotation)} samples written to `{folder}`.")


def _table_rows(tables: Sequence[Path]) -> Iterator[Mapping[str, Any]]:
    import pyarrow.parquet  # type: ignore[import-untyped]

    if not tables:
        raise _other_dataset(f"no file {_TABLES}")
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
    """Write a row's image; returns the row with the file's name in place of the image."""
    content = (fields["image"] or {}).get("bytes") or b""
    if row >= MAX_ROWS:
        raise _other_dataset(f"more than {MAX_ROWS:,} rows")
    if not 0 < len(content) <= MAX_IMAGE_BYTES:
        raise _other_dataset(f"row {row}: `image` has {len(content):,} bytes")
    # Whether it can be decoded is checked later.
    name = f"images/{row:03d}{image_suffix(content) or '.bin'}"
    (folder / name).write_bytes(content)
    return {"image": name, **{field: fields[field] for field in _FIELDS}}


def _other_dataset(difference: str) -> DataBroken:
    return DataBroken(
        f"The dataset `{REPO}` on the Hub is no longer MIA-Bench as published: {difference}.",
        hint=f"set `MIA_BENCH_REVISION` to an older commit of {_PAGE}/commits, or {_ALTERNATIVE}",
    )


# Assets


def _plan(environment: Mapping[str, str]) -> DownloadPlan:
    """The size of the table, from the Hub's list of files.

    Raises:
        DataMissing: No access, no such repository or revision, or no answer.
    """
    from huggingface_hub import HfApi

    revision = _DATASET.revision(environment)
    try:
        info = HfApi().dataset_info(
            REPO, revision=revision, files_metadata=True, timeout=_LISTING_TIMEOUT_S
        )
    except download_errors() as error:
        raise download_failure(_table(revision), error) from error
    files = [file for file in info.siblings or [] if fnmatch(file.rfilename, _TABLES)]
    size_bytes = sum(file.size or 0 for file in files)
    return DownloadPlan(
        source=f"{REPO}@{info.sha or revision}",
        file_bytes=tuple(file.size for file in files),
        disk_bytes={cache_dir(environment).absolute(): size_bytes, hub_cache(): size_bytes},
    )


def asset(environment: Mapping[str, str]) -> Asset:
    """The samples with their images.

    Raises:
        SettingWrong: ``MIA_BENCH_REVISION`` cannot be a revision.
    """
    cached = _DATASET.cached(environment)

    def describe() -> str:
        docs = dataset(environment)
        check_data(docs)
        return f"{len(docs):,} samples of {docs[0]['data']}; no image is missing"

    return data_asset(
        name="mia_bench: data",
        variables=["MIA_BENCH_DATA"],
        source=cached.revision if cached else REPO,
        is_here=lambda: _DATASET.cached(environment) is not None,
        plan=lambda: _plan(environment),
        fetch=lambda: f"{hub_folder(environment).revision} is here",
        environment=environment,
        describe=describe,
    )
