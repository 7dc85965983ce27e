"""MIA-Bench from the Hub: loaded once by `datasets`, and laid down as files in the local layout.

Below `mmie_tasks.paths.cache_dir` there is then::

    mia_bench/<commit>/instruction_benchmark_all.json, images/000.jpg, ...
    mia_bench/commits/<what was asked>.txt                 the commit, in words

Pictures are the bytes the Hub has, never encoded anew, because the judge is shown the file. The
text file is written last. With it and the folder nobody is asked again, and the machine may be
offline. To follow a branch that has moved, delete the text file.
"""

from __future__ import annotations

import errno
import io
import json
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger
from PIL import Image

from mmie_tasks.errors import DataBroken, DataMissing, MmieTasksError, SettingWrong
from mmie_tasks.paths import cache_dir
from mmie_tasks.sources.archives import whole
from mmie_tasks.sources.hub_file import download_errors, without_urls
from mmie_tasks.sources.locks import turn
from mmie_tasks.sources.mia_bench_images import numbered

if TYPE_CHECKING:
    import datasets

REPO = "lmms-lab-encoder/MIA-Bench"  # the one the runner's own task loads
ANNOTATION = "instruction_benchmark_all.json"
MAX_ROWS = 10_000  # there are 400
MAX_IMAGE_BYTES = 64 * 1024 * 1024

_INSTEAD = f"set `MIA_BENCH_DATA` to a folder with `{ANNOTATION}` and `images/`"
_PAGE = f"https://huggingface.co/datasets/{REPO}"
_FIELDS = ("instruction", "type", "components", "component_weight", "component_type")
_REVISION = re.compile(r"[\w][\w.\-/]*", re.ASCII)
_FOLDER_NAME = re.compile(r"[\w-]{1,128}", re.ASCII)
_ENDINGS = {"JPEG": "jpg", "MPO": "jpg"}  # MPO, as cameras write it, begins as a JPEG
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFolder:
    """A folder in the local layout, and what it is a copy of: ``<repository>@<commit>``."""

    folder: Path
    revision: str


def hub_folder(environment: Mapping[str, str]) -> HubFolder:
    """The folder with annotation and pictures, downloaded and written first if it is not there.

    When the Hub gives no answer, what the cache of `datasets` holds is taken. ``HF_ENDPOINT``,
    ``HF_HOME``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE`` are obeyed by the libraries themselves.

    Args:
        environment: ``MIA_BENCH_REVISION`` (branch, tag or commit; by default ``main``), and what
            `mmie_tasks.paths.cache_dir` reads.

    Raises:
        DataMissing: No access, no such repository or revision, no connection, or no room to write.
        DataBroken: What the Hub has is not MIA-Bench.
        SettingWrong: ``MIA_BENCH_REVISION`` cannot be a revision.
    """
    if there := kept(environment):
        return there
    asked, root = revision_asked(environment), cache_dir(environment) / "mia_bench"
    commit = _fetched(asked, root)
    with whole(_note(root, asked)) as unfinished:
        unfinished.write_text(f"{commit}\n", encoding="ascii")
    return HubFolder(folder=root / commit, revision=f"{REPO}@{commit}")


def kept(environment: Mapping[str, str]) -> HubFolder | None:
    """What an earlier call brought, if it is there; nobody is asked.

    Raises:
        SettingWrong: ``MIA_BENCH_REVISION`` cannot be a revision.
    """
    root = cache_dir(environment) / "mia_bench"
    note = _note(root, revision_asked(environment))
    commit = note.read_text(encoding="ascii").strip() if note.is_file() else ""
    if not (commit and (root / commit).is_dir()):
        return None
    return HubFolder(folder=root / commit, revision=f"{REPO}@{commit}")


def revision_asked(environment: Mapping[str, str]) -> str:
    """``MIA_BENCH_REVISION``, by default ``main``.

    Raises:
        SettingWrong: It cannot be a revision.
    """
    asked = environment.get("MIA_BENCH_REVISION") or "main"
    if ".." in asked or not _REVISION.fullmatch(asked):
        raise SettingWrong(
            f"`MIA_BENCH_REVISION` is {asked!r}: not a branch, tag or commit.",
            hint=f"name one that is listed on {_PAGE}/commits",
        )
    return asked


def _note(root: Path, asked: str) -> Path:
    return root / "commits" / f"{asked.replace('/', '%2F')}.txt"


def _fetched(asked: str, root: Path) -> str:
    """Load the rows and lay them down, unless another process has; their commit."""
    import datasets

    try:
        # With the scheme, because a folder of that name in the working directory would win.
        builder = datasets.load_dataset_builder(f"hf://datasets/{REPO}", revision=asked)
        commit = _commit(builder, asked)
        root.mkdir(parents=True, exist_ok=True)
        with turn(root / f"{commit}.lock", "downloading MIA-Bench"):
            if not (root / commit).is_dir():
                builder.download_and_prepare()
                _lay_down(builder.as_dataset(split="test"), root / commit)
    except (*download_errors(), datasets.exceptions.DatasetsError, ValueError) as error:
        raise _not_had(asked, error) from error
    return commit


def _commit(builder: datasets.DatasetBuilder, asked: str) -> str:
    """The commit that was found. `datasets` says so, in a log line, where it is a cached one."""
    commit = str(builder.hash)
    if not _FOLDER_NAME.fullmatch(commit):
        raise DataBroken(
            f"`{REPO}` on the Hub names its commit {commit!r}, as no Hub does.", hint=_INSTEAD
        )
    if builder.name == "cache" and asked not in ("main", commit):
        raise DataMissing(
            f"`{REPO}` at `{asked}` cannot be had: the Hub gave no answer, and the cache of "
            f"`datasets` holds commit {commit}.",
            hint=f"connect, unset `MIA_BENCH_REVISION` to take what is there, or {_INSTEAD}",
        )
    return commit


def _lay_down(rows: datasets.Dataset, folder: Path) -> None:
    """Write annotation and pictures beside `folder`, and give them its name when all are there."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
    (unfinished / "images").mkdir(parents=True)
    annotation = list(_written(rows, unfinished))
    (unfinished / ANNOTATION).write_text(json.dumps(annotation, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(folder)
    logger.info(f"MIA-Bench: {len(annotation)} samples written to `{folder}`.")


def _written(rows: datasets.Dataset, folder: Path) -> Iterator[dict[str, object]]:
    """Write every row's picture, and give the row with the picture's name in its place."""
    import datasets

    if absent := [name for name in ("image", *_FIELDS) if name not in rows.column_names]:
        raise _not_the_benchmark(f"no column {', '.join(absent)}")
    if len(rows) > MAX_ROWS:
        raise _not_the_benchmark(f"{len(rows):,} rows")
    as_bytes = rows.cast_column("image", datasets.Image(decode=False))
    for row, fields in enumerate(as_bytes):
        content = (fields["image"] or {}).get("bytes") or b""
        if not 0 < len(content) <= MAX_IMAGE_BYTES:
            raise _not_the_benchmark(f"row {row}: `image` holds {len(content):,} bytes")
        name = numbered(row, _ending(content))
        (folder / name).write_bytes(content)
        yield {"image": name, **{field: fields[field] for field in _FIELDS}}


def _ending(content: bytes) -> str:
    """What the file's name ends with, by its content; whether it can be decoded is asked later."""
    try:
        with Image.open(io.BytesIO(content)) as image:
            kind = str(image.format)
    except (OSError, SyntaxError, ValueError):
        return "bin"
    return _ENDINGS.get(kind, kind.lower())


def _not_the_benchmark(found: str) -> DataBroken:
    return DataBroken(
        f"The dataset `{REPO}` on the Hub is not MIA-Bench as it was: {found}.",
        hint=f"set `MIA_BENCH_REVISION` to an older commit of {_PAGE}/commits, or {_INSTEAD}",
    )


def _not_had(asked: str, error: BaseException) -> MmieTasksError:
    from datasets.exceptions import DatasetBuildError, DatasetNotFoundError

    name = f"`{REPO}` at `{asked}`"
    found = f"{type(error).__name__}: {without_urls(error)}".rpartition(" either: ")[2]
    if _disk_is_full(error):
        hint = "make room, or set `HF_HOME` and `MMIE_TASKS_CACHE` to folders on a bigger disk"
        return DataMissing(f"{name} cannot be had: the disk is full.", hint=hint)
    match error:
        case DatasetBuildError() | ValueError():
            cause = without_urls(error.__cause__) if error.__cause__ else found
            hint = f"delete it in the caches below `HF_HOME` and run again, or {_INSTEAD}"
            return DataBroken(f"{name} cannot be read: {cause}", hint=hint)
        case DatasetNotFoundError() if asked != "main":
            hint = f"let `MIA_BENCH_REVISION` be one of {_PAGE}/commits"
        case DatasetNotFoundError():
            hint = f"look at {_PAGE} and accept its terms, if any, then `hf auth login`"
        case PermissionError(filename=str(path)):
            hint = f"make `{path}` writable, or set `HF_HOME` or `MMIE_TASKS_CACHE`"
        case _:
            hint = "connect, or copy the caches (`HF_HOME`) from a machine that has it"
    return DataMissing(f"{name} cannot be had: {found}", hint=f"{hint}, or {_INSTEAD}")


def _disk_is_full(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        error = error.__cause__ or error.__context__
    return False
