"""MIA-Bench from the Hub: loaded once by `datasets`, and laid down as files in the local layout.

Below `mmie_tasks.core.paths.cache_dir` there is then::

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote

from loguru import logger
from PIL import Image

from mmie_tasks.core.errors import DataBroken, DataMissing, MmieTasksError, SettingWrong
from mmie_tasks.core.files import atomic_write, file_lock
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.hub.download import HubFile, download_errors, unanswered, without_urls
from mmie_tasks.hub.images import inside

if TYPE_CHECKING:
    import datasets


# Which file belongs to which row of MIA-Bench, whose annotation names pictures by address.
#
# A row's picture is the first of these that is there, in a folder ``DATA``:
#
# 1. ``DATA/images/<row>.<ext>``, the row from 0 and in three digits: ``images/007.jpg``. Not where
#    that is what another row's picture is called.
# 2. ``DATA/<image>``, where the row's ``image`` is a file's name and not an address.
# 3. ``DATA/images/<name>``, the last part of the address: as it is, with ``%20`` and the like
#    decoded, or with the query behind it, as ``wget`` saves it. A name without an image's ending may
#    have got one.
#
# Different addresses that end in one name (rows 207 to 210 of the official file) say nothing by it,
# nor does an address that ends in a slash (rows 181 and 205): their files must be numbered.

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HOST = re.compile(r"[\w-]+(\.[\w-]+)+/", re.ASCII)  # row 193 has no scheme
_ENDINGS_MIA_BENCH_IMAGES = frozenset(
    (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".jfif", ".avif")
)

NUMBERED = "`images/<row>.<ext>`, the row from 0 and in three digits, such as `images/007.jpg`"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """A row's picture as the annotation names it.

    Attributes:
        whole: All of it.
        name: The last part, without a query; empty where the address has no path.
        query: What stands behind the name, from the question mark on.
        is_address: Whether it is one; else it is a file's name.
    """

    whole: str
    name: str
    query: str
    is_address: bool

    @property
    def is_file_name(self) -> bool:
        """Whether the last part is a file's, and not a folder's (row 205) or nothing (row 181)."""
        return bool(self.name) and not self.whole.partition("?")[0].endswith("/")


def image_paths(folder: Path, named: Sequence[str]) -> list[Path | None]:
    """The file of every row's picture; one that is not there has the path it should have.

    None where nothing says which file it is: addresses that end alike, or in nothing. These rows
    are named in the log; a guess would show some of them another's picture.

    Args:
        folder: The folder of the annotation.
        named: ``image`` of every row, in order.

    Raises:
        DataMissing: There is no folder ``images``, and the files are not elsewhere.
        DataBroken: A name leaves the folder, or several files are a row's own.
    """
    finder = _Finder(folder, [_parsed(value) for value in named])
    paths = [finder.path(row) for row in range(len(named))]
    if not finder.images.is_dir() and not all(path and _is_file(path) for path in paths):
        raise DataMissing(
            f"`{finder.images}` is not there: no folder with the pictures of MIA-Bench.",
            hint=f"put them there as {NUMBERED}, or under the last part of their addresses; "
            "or unset `MIA_BENCH_DATA` to download them from the Hub",
        )
    if unknown := [str(row) for row, path in enumerate(paths) if path is None]:
        logger.warning(
            f"MIA-Bench: the addresses of rows {', '.join(unknown)} do not say which files in "
            f"`{finder.images}` are theirs, so they will have no score. hint: name them {NUMBERED}"
        )
    return paths


def numbered(row: int, ending: str) -> str:
    """The name that is a row's own: ``images/007.jpg``.

    >>> numbered(7, "jpg")
    'images/007.jpg'
    """
    return f"images/{row:03d}.{ending}"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # such as a name longer than the file system takes
        return False


def _parsed(value: str) -> _Named:
    scheme = _SCHEME.match(value)
    if not scheme and not _HOST.match(value):
        name = PurePosixPath(value.replace("\\", "/")).name
        return _Named(whole=value, name=name, query="", is_address=False)
    address = value[scheme.end() if scheme else 0 :].partition("#")[0]
    below, question_mark, query = address.partition("?")
    name = below.partition("/")[2].rstrip("/").rpartition("/")[2]
    return _Named(whole=value, name=name, query=question_mark + query, is_address=True)


class _Finder:
    """What lies in ``images``, and who claims which name in it."""

    def __init__(self, folder: Path, named: Sequence[_Named]) -> None:
        self.images = folder / "images"
        self._folder = folder
        self._named = named
        there = self.images.iterdir() if self.images.is_dir() else ()
        self._there = frozenset(path.name for path in there)
        self._claims: dict[str, list[int]] = {}
        self._by_stem: dict[str, list[str]] = {}
        for row, one in enumerate(named):
            for name in dict.fromkeys((one.name, unquote(one.name))):
                self._claims.setdefault(name, []).append(row)
        for name in sorted(self._there):
            self._by_stem.setdefault(name.rpartition(".")[0] or name, []).append(name)

    def path(self, row: int) -> Path | None:
        """The row's picture; None where that cannot be told."""
        one = self._named[row]
        if own := self._own(row):
            return inside(self.images, own)
        if not one.is_address:
            path = inside(self._folder, one.whole)
            if _is_file(path) or one.name not in self._there:
                return path
        if found := self._only(row, list(self._spelled(one))[:1] or self._with_ending(one)):
            return None if self._is_claimed(row, found) else inside(self.images, found)
        free = one.is_file_name and not self._rivals(one.name, row)
        return inside(self.images, one.name) if free else None

    def _own(self, row: int) -> str | None:
        """The numbered file, unless another row's picture is called so."""
        names = self._by_stem.get(f"{row:03d}", [])
        return self._only(row, [name for name in names if not self._rivals(name, row)])

    def _spelled(self, one: _Named) -> Iterator[str]:
        for name in (one.name, unquote(one.name), one.name + one.query):
            if name and name in self._there:
                yield name

    def _with_ending(self, one: _Named) -> list[str]:
        if not one.name or PurePosixPath(one.name).suffix.lower() in _ENDINGS_MIA_BENCH_IMAGES:
            return []
        names = self._by_stem.get(one.name, [])
        return [
            name
            for name in names
            if PurePosixPath(name).suffix.lower() in _ENDINGS_MIA_BENCH_IMAGES
        ]

    def _rivals(self, name: str, row: int) -> list[int]:
        """The rows with other pictures that are called so too."""
        mine = self._named[row].whole
        return [other for other in self._claims.get(name, ()) if self._named[other].whole != mine]

    def _is_claimed(self, row: int, found: str) -> bool:
        """Whether another row's address ends in this name as well."""
        query = self._named[row].query
        name = found if found in self._claims else found.removesuffix(query)
        return bool(self._rivals(name, row))

    def _only(self, row: int, names: Sequence[str]) -> str | None:
        if len(names) > 1:
            raise DataBroken(
                f"`{self.images}` holds several pictures for row {row}: {', '.join(names)}.",
                hint="keep one of them",
            )
        return names[0] if names else None


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
            `mmie_tasks.core.paths.cache_dir` reads.

    Raises:
        DataMissing: No access, no such repository or revision, no connection, or no room to write.
        DataBroken: What the Hub has is not MIA-Bench.
        SettingWrong: ``MIA_BENCH_REVISION`` cannot be a revision.
    """
    if there := kept(environment):
        return there
    asked, root = revision_asked(environment), cache_dir(environment) / "mia_bench"
    commit = _fetched(asked, root)
    with atomic_write(_note(root, asked)) as unfinished:
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
        with file_lock(root / f"{commit}.lock", "downloading MIA-Bench"):
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


# MIA-Bench on the Hub, asked for its size before it is downloaded.

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What the Hub has.

    Attributes:
        commit: Of the revision that was asked for.
        size_bytes: Of the table with the pictures in it; None where that is not told.
    """

    commit: str
    size_bytes: int | None


def listing(environment: Mapping[str, str]) -> Listing:
    """Ask the Hub, once and without patience.

    Args:
        environment: ``MIA_BENCH_REVISION``.

    Raises:
        DataMissing: No access, no such repository or revision, or no answer.
        SettingWrong: ``MIA_BENCH_REVISION`` cannot be a revision.
    """
    from huggingface_hub import HfApi

    revision = revision_asked(environment)
    try:
        told = HfApi().dataset_info(
            REPO, revision=revision, files_metadata=True, timeout=_TIMEOUT_S
        )
    except download_errors() as error:
        instead = f"set `MIA_BENCH_DATA` to a folder with `{ANNOTATION}` and `images/`"
        wanted = HubFile(repo=REPO, filename="the table", revision=revision, instead=instead)
        raise unanswered(wanted, error) from error
    sizes = [file.size for file in told.siblings or [] if file.rfilename.endswith(".parquet")]
    known = [size for size in sizes if size is not None]
    return Listing(
        commit=told.sha or revision,
        size_bytes=sum(known) if known and len(known) == len(sizes) else None,
    )
