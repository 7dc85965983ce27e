"""Unpacks downloaded archives: safely, completely or not at all, and once.

A folder that exists under its final name is complete. While an archive is unpacked, its members are in
``<name>.unpacking`` beside it. A killed process leaves that folder; the next one deletes it and starts again.
"""

from __future__ import annotations

import lzma
import shutil
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from loguru import logger
from tqdm import tqdm  # type: ignore[import-untyped]

from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.core.files import file_lock, readable_size

MAX_UNPACKED_BYTES = 200 * 1024**3
MAX_MEMBERS = 1_000_000

_CHUNK_BYTES = 1024 * 1024

# `gzip.BadGzipFile` is an OSError without a number; so is what `bz2` raises.
_BROKEN = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError)


def unpack_once(archive: Path, destination: Path, check: Callable[[Path], None] | None = None) -> Path:
    """Unpack a tar archive into `destination`, unless that folder exists.

    One process unpacks; others that need the same folder wait.

    Args:
        archive: A tar file, plain or compressed (gzip, bzip2, xz).
        destination: The folder to create. If it exists, it is complete.
        check: Called with `archive` right before unpacking, by the process that unpacks. If it
            raises, nothing is unpacked.

    Returns:
        `destination`.

    Raises:
        DataBroken: The archive is truncated, damaged or absurdly large, or has a member that would
            be written, or would link, outside the folder.
        DataMissing: There is no such archive, the disk is full, or the folder is not writable.
    """
    if destination.is_dir():
        return destination
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(destination.with_name(f"{destination.name}.lock"), f"unpacking `{destination}`"):
            if not destination.is_dir():
                if check is not None:
                    check(archive)
                _unpack(archive, destination)
    except OSError as error:
        raise _disk_error(error, archive, destination) from error
    return destination


def _unpack(archive: Path, destination: Path) -> None:
    unfinished = destination.with_name(f"{destination.name}.unpacking")
    if unfinished.exists():
        logger.info(f"Deleting `{unfinished}` of an interrupted run.")
        shutil.rmtree(unfinished)
    logger.info(f"Unpacking `{archive}` into `{destination}`.")
    unfinished.mkdir()
    try:
        _extract_all(archive, unfinished)
        unfinished.replace(destination)
    finally:
        if unfinished.exists():
            shutil.rmtree(unfinished)


def _extract_all(archive: Path, folder: Path) -> None:
    rules = _MemberRules(archive)
    size_bytes = archive.stat().st_size
    bar = tqdm(total=size_bytes, unit="B", unit_scale=True, desc=f"unpacking {archive.name}")
    try:
        with bar, archive.open("rb") as raw, tarfile.open(fileobj=raw, tarinfo=_StrictHeader) as tar:
            for member in tar:
                rules.check(member)
                _extract(tar, member, folder, archive)
                bar.update(raw.tell() - bar.n)
            while tar.fileobj is not None and tar.fileobj.read(_CHUNK_BYTES):
                pass  # behind the last member gzip stores its checksum
            bar.update(raw.tell() - bar.n)
    except (*_BROKEN, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        path, reason = archive.resolve(), " ".join(str(error).split())
        raise DataBroken(
            f"The archive `{path}` ({readable_size(size_bytes)}) is truncated or damaged: {reason}.",
            hint=f"delete that file and run again: `rm '{path}'`",
        ) from error


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, archive: Path) -> None:
    """Write a member that passed `_MemberRules`.

    Python before 3.10.12 and 3.11.4 (Debian 12 has 3.11.2) has no extraction filters. There, links
    are refused; without links, a name that passed `_MemberRules` stays inside the folder.
    """
    if hasattr(tarfile, "data_filter"):
        try:
            tar.extract(member, folder, filter="data")
        except tarfile.FilterError as error:
            raise _unsafe(archive, error.tarinfo.name, str(error)) from error
        return
    target = folder / member.name
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    content = tar.extractfile(member) if member.isreg() else None
    if content is None:
        raise _unsafe(archive, member.name, "it is not a file, and this version of Python unpacks only files safely")
    target.parent.mkdir(parents=True, exist_ok=True)
    with content, target.open("wb") as file:
        shutil.copyfileobj(content, file)


class _StrictHeader(tarfile.TarInfo):
    """A header that raises if it is damaged or missing.

    `tarfile` itself takes a damaged header behind the first member for the end of the archive.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _StrictHeader:
        if not buf:
            raise tarfile.ReadError("it ends without an end marker")
        is_end_marker = len(buf) == tarfile.BLOCKSIZE and not any(buf)
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if is_end_marker:
                raise
            raise tarfile.ReadError(f"a member's header is damaged ({error})") from error


class _MemberRules:
    """Rules beyond `tarfile`'s ``data`` filter, which sees one member at a time."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._links: set[PurePosixPath] = set()
        self._members = 0
        self._bytes = 0

    def check(self, member: tarfile.TarInfo) -> None:
        """Raise `DataBroken` if a member must not be unpacked, given the members before it."""
        self._members += 1
        self._bytes += member.size
        if self._members > MAX_MEMBERS or self._bytes > MAX_UNPACKED_BYTES:
            raise DataBroken(
                f"The archive `{self._archive.resolve()}` would unpack to more than"
                f" {MAX_MEMBERS:,} files or {readable_size(MAX_UNPACKED_BYTES)}.",
                hint="this is not the dataset's archive: delete it and run again",
            )
        name = PurePosixPath(member.name)
        paths = [name, PurePosixPath(member.linkname)] if member.islnk() else [name]
        folders = {folder for path in paths for folder in (path, *path.parents)}
        reasons = {
            "its name contains a NUL": "\0" in member.name + member.linkname,
            "its name is absolute": name.is_absolute(),
            "its path contains `..`": any(".." in path.parts for path in paths),
            "its path leads through a link": not self._links.isdisjoint(folders),
        }
        for reason in (reason for reason, applies in reasons.items() if applies):
            raise _unsafe(self._archive, member.name, reason)
        if member.issym():
            self._links.add(name)


def _unsafe(archive: Path, member: str, reason: str) -> DataBroken:
    return DataBroken(
        f"The archive `{archive.resolve()}` contains {member!r}, which is not unpacked: {reason}.",
        hint="this is not the dataset's archive as published: delete that file and run again",
    )


def _disk_error(error: OSError, archive: Path, destination: Path) -> DataMissing:
    if not archive.is_file():
        return DataMissing(f"There is no archive `{archive}` to unpack.", hint="run again, so that it is downloaded")
    size = readable_size(archive.stat().st_size)
    return DataMissing(
        f"The archive `{archive}` could not be unpacked into `{destination}`: {error}.",
        hint=f"make the folder writable, with at least {size} free (images need as much space "
        "unpacked as packed), or set `MMIE_TASKS_CACHE` to another folder",
    )
