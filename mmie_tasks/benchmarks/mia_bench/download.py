"""Where MIA-Bench's data comes from: a table on the Hub with the images inside.

It is downloaded into the Hub's own cache, and written once as files below
`mmie_tasks.core.files.cache_dir`::

    mia_bench/<commit>/instruction_benchmark_all.json, images/000.jpg, ...
    mia_bench/commits/<revision>.txt               see `mmie_tasks.hub.commits`

Images are the bytes from the Hub, never re-encoded, because the judge is shown the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

from loguru import logger

from mmie_tasks.core.errors import DataBroken
from mmie_tasks.core.files import cache_dir, create_folder_once
from mmie_tasks.hub.asset import Asset, DownloadPlan, data_asset, hub_cache
from mmie_tasks.hub.commits import HubDataset, HubFolder
from mmie_tasks.hub.download import HubFile, download_failure
from mmie_tasks.hub.failures import download_errors
from mmie_tasks.hub.images import image_suffix

ANNOTATION = "instruction_benchmark_all.json"
REPO = "lmms-lab-encoder/MIA-Bench"  # the one that the runner's own task loads

_DATASET = HubDataset(
    repo=REPO, name="mia_bench", variable="MIA_BENCH_REVISION", required=(ANNOTATION,)
)
_ALTERNATIVE = f"set `MIA_BENCH_DATA` to a folder with `{ANNOTATION}` and `images/`"
_PAGE = f"https://huggingface.co/datasets/{REPO}"
_FIELDS = ("instruction", "type", "components", "component_weight", "component_type")
_TABLES = "*test*.parquet"  # the split `test`
_LISTING_TIMEOUT_S = 10.0


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
        names = sorted(str(path.relative_to(snapshot)) for path in snapshot.rglob("*.parquet"))
        tables = [snapshot / name for name in names if fnmatch(name, _TABLES)]
        create_folder_once(folder, partial(_write_folder, tables), "downloading MIA-Bench")
    except download_errors() as error:
        raise download_failure(_table(revision), error) from error
    return _DATASET.stored(folder.name, environment)


def _table(revision: str) -> HubFile:
    return HubFile(repo=REPO, filename=_TABLES, revision=revision, alternative=_ALTERNATIVE)


def _write_folder(tables: Sequence[Path], folder: Path) -> None:
    """Write annotation and images into an empty folder."""
    (folder / "images").mkdir()
    annotation = [_written(row, fields, folder) for row, fields in enumerate(_table_rows(tables))]
    (folder / ANNOTATION).write_text(json.dumps(annotation, indent=1) + "\n", encoding="utf-8")
    logger.info(f"MIA-Bench: {len(annotation)} samples written below `{folder.parent}`.")


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
    if not content:
        raise _other_dataset(f"row {row}: `image` is empty")
    # Whether it can be decoded is checked later.
    name = f"images/{row:03d}{image_suffix(content) or '.bin'}"
    (folder / name).write_bytes(content)
    return {"image": name, **{field: fields[field] for field in _FIELDS}}


def _other_dataset(difference: str) -> DataBroken:
    return DataBroken(
        f"The dataset `{REPO}` on the Hub is no longer MIA-Bench as published: {difference}.",
        hint=f"set `MIA_BENCH_REVISION` to an older commit of {_PAGE}/commits, or {_ALTERNATIVE}",
    )


def asset(environment: Mapping[str, str], describe: Callable[[], str]) -> Asset:
    """The samples with their images; `describe` checks them (see `Check`).

    Raises:
        SettingWrong: ``MIA_BENCH_REVISION`` cannot be a revision.
    """
    cached = _DATASET.cached(environment)

    return data_asset(
        name="mia_bench: data",
        variables=["MIA_BENCH_DATA"],
        source=cached.revision if cached else REPO,
        is_here=lambda: _DATASET.cached(environment) is not None,
        plan=lambda: _plan(environment),
        fetch=lambda: f"{hub_folder(environment).revision} is here",
        environment=environment,
        describe=describe,
        settings=(_DATASET.variable,),
    )


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
