"""Where MIA-Bench's files come from: a local folder, or the Hub in the same layout.

The dataset on the Hub is a table with the images inside. `datasets` loads it once, and it is
written as files below `mmie_tasks.core.paths.cache_dir`::

    mia_bench/<commit>/instruction_benchmark_all.json, images/000.jpg, ...
    mia_bench/commits/<revision>.txt               see `mmie_tasks.hub.revisions`

Images are the bytes from the Hub, never re-encoded, because the judge is shown the file.
"""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote

from loguru import logger

from mmie_tasks.core.errors import DataBroken, DataMissing, MmieTasksError
from mmie_tasks.core.files import file_lock
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.hub.asset import Asset, DownloadPlan, data_asset, hub_cache, installed_asset
from mmie_tasks.hub.download import (
    DISK_FULL,
    Explanation,
    HubFile,
    download_errors,
    download_failure,
    explain,
    http_status,
    without_urls,
)
from mmie_tasks.hub.images import inside
from mmie_tasks.hub.revisions import HubDataset, HubFolder, is_commit

if TYPE_CHECKING:
    import datasets

REPO = "lmms-lab-encoder/MIA-Bench"  # the one that the runner's own task loads
ANNOTATION = "instruction_benchmark_all.json"
MAX_ROWS = 10_000  # the benchmark has 400
MAX_IMAGE_BYTES = 64 * 1024 * 1024
NUMBERED = "`images/<row>.<ext>`, the row from 0 and in three digits, such as `images/007.jpg`"

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HOST = re.compile(r"[\w-]+(\.[\w-]+)+/", re.ASCII)  # row 193 has no scheme
_EXTENSIONS = frozenset((".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".jfif", ".avif"))
_DATASET = HubDataset(repo=REPO, name="mia_bench", variable="MIA_BENCH_REVISION", required=(ANNOTATION,))
_ALTERNATIVE = f"set `MIA_BENCH_DATA` to a folder with `{ANNOTATION}` and `images/`"
_PAGE = f"https://huggingface.co/datasets/{REPO}"
_FIELDS = ("instruction", "type", "components", "component_weight", "component_type")
_FORMAT_EXTENSIONS = {"JPEG": "jpg", "MPO": "jpg"}  # MPO, written by cameras, begins as a JPEG
_LISTING_TIMEOUT_S = 10.0

# Images


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reference:
    """A row's image as the annotation names it.

    Attributes:
        text: The complete reference.
        name: The last path part, without the query; empty if the address has no path.
        query: The query, from the question mark on.
        is_address: Whether it is a URL; otherwise it is a file name.
    """

    text: str
    name: str
    query: str
    is_address: bool

    @property
    def is_file_name(self) -> bool:
        """Whether the last part names a file: not a folder (row 205), not nothing (row 181)."""
        return bool(self.name) and not self.text.partition("?")[0].endswith("/")


def image_paths(folder: Path, references: Mapping[int, str]) -> dict[int, Path | None]:
    """Row to its image file; if it does not exist, the path that it should have.

    The file is the first of these that exists:

    1. ``folder/images/<row>.<ext>``, the row from 0 and in three digits: ``images/007.jpg``; unless
       another row's image has that name.
    2. ``folder/<reference>``, if the reference is a file name and not an address.
    3. ``folder/images/<name>``, the last part of the address: as it is, percent-decoded, or with
       the query, as ``wget`` saves it; a name without an image extension may have got one.

    None if the file cannot be identified: different addresses that end in the same name (rows 207
    to 210 of the official file), or in a slash (rows 181 and 205). Such rows are named in the log;
    a guess would show some of them another row's image.

    Args:
        folder: The folder of the annotation.
        references: Row, from 0, to its ``image``.

    Raises:
        DataMissing: There is no folder ``images``, and the files are not elsewhere.
        DataBroken: A name leaves the folder, or several files belong to one row.
    """
    finder = _Finder(folder, {row: _parse_reference(text) for row, text in references.items()})
    paths = {row: finder.path(row) for row in references}
    if not finder.images.is_dir() and not all(path and _is_file(path) for path in paths.values()):
        raise DataMissing(
            f"`{finder.images}`, the folder with the images of MIA-Bench, does not exist.",
            hint=f"put them there as {NUMBERED}, or under the last part of their addresses; "
            "or unset `MIA_BENCH_DATA` to download them from the Hub",
        )
    if unknown := [str(row) for row, path in paths.items() if path is None]:
        logger.warning(
            f"MIA-Bench: the addresses of rows {', '.join(unknown)} do not identify their files in "
            f"`{finder.images}`, so they will have no score. hint: name them {NUMBERED}"
        )
    return paths


def numbered(row: int, extension: str) -> str:
    """The file name that identifies a row.

    >>> numbered(7, "jpg")
    'images/007.jpg'
    """
    return f"images/{row:03d}.{extension}"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as a name longer than the file system allows
        return False


def is_address(reference: str) -> bool:
    """Whether the image is named by a URL, and not by a file's name.

    >>> is_address("farm8.staticflickr.com/1.jpg"), is_address("images/3.png")
    (True, False)
    """
    return bool(_SCHEME.match(reference) or _HOST.match(reference))


def _parse_reference(text: str) -> _Reference:
    scheme = _SCHEME.match(text)
    if not is_address(text):
        name = PurePosixPath(text.replace("\\", "/")).name
        return _Reference(text=text, name=name, query="", is_address=False)
    address = text[scheme.end() if scheme else 0 :].partition("#")[0]
    path, question_mark, query = address.partition("?")
    name = path.partition("/")[2].rstrip("/").rpartition("/")[2]
    return _Reference(text=text, name=name, query=question_mark + query, is_address=True)


class _Finder:
    """Finds the files of rows in ``images``, and the rows that could use the same file."""

    def __init__(self, folder: Path, references: Mapping[int, _Reference]) -> None:
        self.images = folder / "images"
        self._folder = folder
        self._references = references
        paths = self.images.iterdir() if self.images.is_dir() else ()
        self._files = frozenset(path.name for path in paths)
        self._rows_by_name: dict[str, list[int]] = {}
        self._names_by_stem: dict[str, list[str]] = {}
        for row, reference in references.items():
            for name in dict.fromkeys((reference.name, unquote(reference.name))):
                self._rows_by_name.setdefault(name, []).append(row)
        for name in sorted(self._files):
            self._names_by_stem.setdefault(name.rpartition(".")[0] or name, []).append(name)

    def path(self, row: int) -> Path | None:
        """The row's image; None if it cannot be identified."""
        reference = self._references[row]
        names = self._names_by_stem.get(f"{row:03d}", [])
        if name := self._single(row, [name for name in names if not self._other_rows(name, row)]):
            return inside(self.images, name)
        if not reference.is_address:
            path = inside(self._folder, reference.text)
            if _is_file(path) or reference.name not in self._files:
                return path
        names = [reference.name, unquote(reference.name), reference.name + reference.query]
        candidates = [name for name in names if name and name in self._files][:1]
        if not candidates and reference.name and not _has_extension(reference.name):
            names = self._names_by_stem.get(reference.name, [])
            candidates = [name for name in names if _has_extension(name)]
        if name := self._single(row, candidates):
            plain = name if name in self._rows_by_name else name.removesuffix(reference.query)
            return None if self._other_rows(plain, row) else inside(self.images, name)
        is_unique = reference.is_file_name and not self._other_rows(reference.name, row)
        return inside(self.images, reference.name) if is_unique else None

    def _other_rows(self, name: str, row: int) -> list[int]:
        """The rows with other images that have this name too."""
        text = self._references[row].text
        return [other for other in self._rows_by_name.get(name, ()) if self._references[other].text != text]

    def _single(self, row: int, names: Sequence[str]) -> str | None:
        if len(names) > 1:
            raise DataBroken(
                f"`{self.images}` contains several images for row {row}: {', '.join(names)}.", hint="keep one of them"
            )
        return names[0] if names else None


def _has_extension(name: str) -> bool:
    return PurePosixPath(name).suffix.lower() in _EXTENSIONS


# The Hub


def hub_folder(environment: Mapping[str, str]) -> HubFolder:
    """The folder with annotation and images, downloaded and written first if necessary.

    If the Hub does not answer, the cache of `datasets` is used. ``HF_ENDPOINT``, ``HF_HOME``,
    ``HF_TOKEN`` and ``HF_HUB_OFFLINE`` are read by the libraries themselves.

    Args:
        environment: Read: ``MIA_BENCH_REVISION`` (branch, tag or commit; by default ``main``), and
            what `mmie_tasks.core.paths.cache_dir` reads.

    Raises:
        DataMissing: No access, no such repository or revision, no connection, or a full disk.
        DataBroken: The dataset on the Hub is not MIA-Bench.
        SettingWrong: ``MIA_BENCH_REVISION`` cannot be a revision.
    """
    if cached := _DATASET.cached(environment):
        return cached
    return _DATASET.stored(_download(_DATASET.revision(environment), _DATASET.root(environment)), environment)


def _download(revision: str, root: Path) -> str:
    """Load the table and write its files, unless another process has; returns the commit."""
    import datasets

    try:
        # With the scheme, because a folder of that name in the working directory would be used.
        builder = datasets.load_dataset_builder(f"hf://datasets/{REPO}", revision=revision)
        commit = _commit(builder, revision)
        root.mkdir(parents=True, exist_ok=True)
        with file_lock(root / f"{commit}.lock", "downloading MIA-Bench"):
            if not (root / commit).is_dir():
                builder.download_and_prepare()
                _write_folder(builder.as_dataset(split="test"), root / commit)
    except (*download_errors(), datasets.exceptions.DatasetsError, ValueError) as error:
        raise _download_failure(revision, error) from error
    return commit


def _commit(builder: datasets.DatasetBuilder, revision: str) -> str:
    """The commit that was loaded; `datasets` logs if it took it from its cache."""
    commit = str(builder.hash)
    if not is_commit(commit):
        raise DataBroken(f"The server's answer for `{REPO}` has no valid commit: {commit!r}.", hint=_ALTERNATIVE)
    if builder.name == "cache" and revision not in ("main", commit):
        raise DataMissing(
            f"`{REPO}` at `{revision}` could not be downloaded: the Hub did not answer, and the "
            f"cache of `datasets` has commit {commit}.",
            hint=f"connect, unset `MIA_BENCH_REVISION` to use that commit, or {_ALTERNATIVE}",
        )
    return commit


def _write_folder(rows: datasets.Dataset, folder: Path) -> None:
    """Write annotation and images beside `folder`, and rename the result when it is complete."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
    (unfinished / "images").mkdir(parents=True)
    annotation = list(_write_images(rows, unfinished))
    (unfinished / ANNOTATION).write_text(json.dumps(annotation, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(folder)
    logger.info(f"MIA-Bench: {len(annotation)} samples written to `{folder}`.")


def _write_images(rows: datasets.Dataset, folder: Path) -> Iterator[dict[str, object]]:
    """Write every row's image; yields the rows with the file names in place of the images."""
    import datasets
    from PIL import Image

    if absent := [name for name in ("image", *_FIELDS) if name not in rows.column_names]:
        raise _other_dataset(f"no column {', '.join(absent)}")
    if len(rows) > MAX_ROWS:
        raise _other_dataset(f"{len(rows):,} rows")
    for row, fields in enumerate(rows.cast_column("image", datasets.Image(decode=False))):
        content = (fields["image"] or {}).get("bytes") or b""
        if not 0 < len(content) <= MAX_IMAGE_BYTES:
            raise _other_dataset(f"row {row}: `image` has {len(content):,} bytes")
        try:  # whether the image can be decoded is checked later
            with Image.open(io.BytesIO(content)) as image:
                image_format = str(image.format)
        except (OSError, SyntaxError, ValueError):
            image_format = "bin"
        name = numbered(row, _FORMAT_EXTENSIONS.get(image_format, image_format.lower()))
        (folder / name).write_bytes(content)
        yield {"image": name, **{field: fields[field] for field in _FIELDS}}


def _other_dataset(difference: str) -> DataBroken:
    return DataBroken(
        f"The dataset `{REPO}` on the Hub is no longer MIA-Bench as published: {difference}.",
        hint=f"set `MIA_BENCH_REVISION` to an older commit of {_PAGE}/commits, or {_ALTERNATIVE}",
    )


def _download_failure(revision: str, error: BaseException) -> MmieTasksError:
    from datasets.exceptions import DatasetBuildError

    name = f"`{REPO}` at `{revision}`"
    causes = [error]
    while cause := causes[-1].__cause__ or causes[-1].__context__:
        causes.append(cause)
    if any(isinstance(cause, OSError) and cause.errno in DISK_FULL for cause in causes):
        hint = "free some space, or set `HF_HOME` and `MMIE_TASKS_CACHE` to folders on another disk"
        return DataMissing(f"{name} could not be downloaded: the disk is full.", hint=hint)
    if isinstance(error, (DatasetBuildError, ValueError)):
        hint = f"delete it in the caches below `HF_HOME` and run again, or {_ALTERNATIVE}"
        return DataBroken(f"{name} cannot be read: {without_urls(error.__cause__ or error)}", hint=hint)
    why = _explain(revision, causes)
    return DataMissing(f"{name} could not be downloaded: {why.reason}.", hint=f"{why.hint}, or {_ALTERNATIVE}")


def _explain(revision: str, causes: Sequence[BaseException]) -> Explanation:
    """Why `datasets` could not download; it hides most refusals of the Hub behind errors of its own."""
    from datasets.exceptions import DatasetNotFoundError
    from huggingface_hub import constants

    hint = "connect, or copy the caches (`HF_HOME`) from a machine that has it"
    match causes[0]:
        case DatasetNotFoundError() if revision != "main":
            reason = "there is no such revision, or no access for this account"
            hint = f"set `MIA_BENCH_REVISION` to one of {_PAGE}/commits"
        case DatasetNotFoundError():
            reason = "there is no such dataset, or no access for this account"
            hint = f"open {_PAGE} and accept its terms, if any, then `hf auth login`"
        case PermissionError(filename=str(path)):
            reason, hint = f"`{path}` cannot be written", "make it writable, or set `HF_HOME` or `MMIE_TASKS_CACHE`"
        case _ if refusals := [cause for cause in causes if http_status(cause) is not None]:
            return explain(refusals[0], repo=REPO, revision=revision)
        case _ if constants.HF_HUB_OFFLINE:
            reason = "it is not in the caches, and downloads are switched off (`HF_HUB_OFFLINE`)"
        case _:
            reason = "it is not in the caches, and the Hub cannot be reached"
    return Explanation(reason=reason, hint=hint)


# Assets


def assets(_tasks: Sequence[str], environment: Mapping[str, str]) -> Sequence[Asset]:
    """The samples with their images, and the judge prompt, which is installed with the runner.

    Raises:
        SettingWrong: ``MIA_BENCH_REVISION`` cannot be a revision.
    """
    cached = _DATASET.cached(environment)
    data = data_asset(
        name="mia_bench: data",
        variables=["MIA_BENCH_DATA"],
        source=cached.revision if cached else REPO,
        is_here=lambda: _DATASET.cached(environment) is not None,
        plan=lambda: _plan(environment),
        fetch=lambda: f"{hub_folder(environment).revision} is here",
        environment=environment,
        describe=lambda: _describe_data(environment),
    )
    return [data, installed_asset("mia_bench: judge prompt", "lmms-eval", _describe_prompt)]


def _plan(environment: Mapping[str, str]) -> DownloadPlan:
    """The size of the table, from the Hub's list of files.

    Raises:
        DataMissing: No access, no such repository or revision, or no answer.
    """
    from huggingface_hub import HfApi

    revision = _DATASET.revision(environment)
    try:
        info = HfApi().dataset_info(REPO, revision=revision, files_metadata=True, timeout=_LISTING_TIMEOUT_S)
    except download_errors() as error:
        table = HubFile(repo=REPO, filename="the table", revision=revision, alternative=_ALTERNATIVE)
        raise download_failure(table, error) from error
    files = [file for file in info.siblings or [] if file.rfilename.endswith(".parquet")]
    size_bytes = sum(file.size or 0 for file in files)
    # `datasets` stores the file and a table of its own; ours are the images as files.
    return DownloadPlan(
        source=f"{REPO}@{info.sha or revision}",
        file_bytes=tuple(file.size for file in files),
        disk_bytes={cache_dir(environment).absolute(): size_bytes, hub_cache(): 2 * size_bytes},
    )


def _describe_data(environment: Mapping[str, str]) -> str:
    from mmie_tasks.benchmarks.mia_bench import data, task

    docs = data.dataset(environment)
    task.check_data(docs)
    return f"{len(docs):,} samples of {docs[0]['data']}; no image is missing"


def _describe_prompt() -> str:
    from mmie_tasks.benchmarks.mia_bench import task

    task.check_prompt()
    return "unchanged, as in lmms-eval's own task"
