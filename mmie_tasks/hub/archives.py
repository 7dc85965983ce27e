"""Unpacking a downloaded archive: safely, whole or not at all, once.

A finished folder is one that exists under its final name. While an archive is being unpacked, its
members lie in ``<name>.unpacking`` beside it; a process that dies leaves that folder, and the next
one removes it and begins again.
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


def unpack_once(
    archive: Path, destination: Path, check: Callable[[Path], None] | None = None
) -> Path:
    """Unpack a tar archive into `destination`, unless that folder is there already.

    One process unpacks while others that want the same folder wait for it.

    Args:
        archive: A tar file, plain or compressed (gzip, bzip2, xz).
        destination: The folder to make. That it exists means that it is complete.
        check: Called with `archive` right before unpacking, by the process that unpacks; what it
            raises comes out and nothing is unpacked.

    Returns:
        `destination`.

    Raises:
        DataBroken: The archive is cut off or damaged, absurdly large, or has a member that would
            be written, or would point, outside the folder.
        DataMissing: There is no such archive, or no room or no right to write.
    """
    if destination.is_dir():
        return destination
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        lock_file = destination.with_name(f"{destination.name}.lock")
        with file_lock(lock_file, f"unpacking `{destination}`"):
            if not destination.is_dir():
                if check is not None:
                    check(archive)
                _unpack(archive, destination)
    except OSError as error:
        raise _disk_trouble(error, archive, destination) from error
    return destination


def _unpack(archive: Path, destination: Path) -> None:
    unfinished = destination.with_name(f"{destination.name}.unpacking")
    if unfinished.exists():
        logger.info(f"Removing `{unfinished}`, which was left half unpacked.")
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
    rules = _Rules(archive)
    size_bytes = archive.stat().st_size
    bar = tqdm(total=size_bytes, unit="B", unit_scale=True, desc=f"unpacking {archive.name}")
    try:
        with bar, archive.open("rb") as raw, tarfile.open(fileobj=raw, tarinfo=_Member) as tar:
            for member in tar:
                rules.check(member)
                _extract(tar, member, folder)
                bar.update(raw.tell() - bar.n)
            _read_to_the_end(tar)
            bar.update(raw.tell() - bar.n)
    except _Refused as error:
        raise _unsafe(archive, error.name, str(error)) from error
    except _BROKEN as error:
        raise _damaged(archive, error) from error
    except OSError as error:
        if error.errno is None:
            raise _damaged(archive, error) from error
        raise


class _Refused(Exception):
    """A member that would be written, or would point, outside the folder, or is no file."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write a member that `_Rules` let pass.

    Python before 3.10.12 and 3.11.4 (Debian 12 has 3.11.2) knows no filter. There a link is
    refused, and without links a name that `_Rules` let pass stays inside.

    Raises:
        _Refused: It is unsafe.
    """
    if hasattr(tarfile, "data_filter"):
        try:
            tar.extract(member, folder, filter="data")
        except tarfile.FilterError as error:
            raise _Refused(error.tarinfo.name, str(error)) from error
        return
    target = folder / member.name
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    content = tar.extractfile(member) if member.isreg() else None
    if content is None:
        raise _Refused(member.name, "it is no file, and this Python unpacks only files safely")
    target.parent.mkdir(parents=True, exist_ok=True)
    with content, target.open("wb") as file:
        shutil.copyfileobj(content, file)


def _read_to_the_end(tar: tarfile.TarFile) -> None:
    """Past the last member, where gzip keeps its checksum."""
    while tar.fileobj is not None and tar.fileobj.read(_CHUNK_BYTES):
        pass


class _Member(tarfile.TarInfo):
    """A header; one that is damaged or missing is an error.

    `tarfile` takes a bad header after the first member for the end of the archive.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Member:
        if not buf:
            raise tarfile.ReadError("it stops without an end mark")
        is_end_mark = len(buf) == tarfile.BLOCKSIZE and not any(buf)
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if is_end_mark:
                raise
            raise tarfile.ReadError(f"a member's header is damaged ({error})") from error


class _Rules:
    """What a member must satisfy beyond `tarfile`'s ``data`` filter, which knows one at a time."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._links: set[PurePosixPath] = set()
        self._members = 0
        self._bytes = 0

    def check(self, member: tarfile.TarInfo) -> None:
        """Raise `DataBroken` unless this member may be unpacked after those before it."""
        self._count(member)
        name = PurePosixPath(member.name)
        if "\0" in member.name + member.linkname:
            raise _unsafe(self._archive, member.name, "its name holds a NUL")
        if name.is_absolute():
            raise _unsafe(self._archive, member.name, "its name is absolute")
        ways = [name, PurePosixPath(member.linkname)] if member.islnk() else [name]
        if any(".." in way.parts for way in ways):
            raise _unsafe(self._archive, member.name, "its path has `..`")
        if any(self._passes_a_link(way) for way in ways):
            raise _unsafe(self._archive, member.name, "its path leads through a link")
        if member.issym():
            self._links.add(name)

    def _count(self, member: tarfile.TarInfo) -> None:
        self._members += 1
        self._bytes += member.size
        if self._members > MAX_MEMBERS or self._bytes > MAX_UNPACKED_BYTES:
            raise DataBroken(
                f"The archive `{self._archive.resolve()}` would unpack to more than"
                f" {MAX_MEMBERS:,} files or {readable_size(MAX_UNPACKED_BYTES)}.",
                hint="this is not the dataset's archive: delete that file and run again",
            )

    def _passes_a_link(self, name: PurePosixPath) -> bool:
        return not self._links.isdisjoint((name, *name.parents))


def _unsafe(archive: Path, member: str, reason: str) -> DataBroken:
    return DataBroken(
        f"The archive `{archive.resolve()}` holds {member!r}, which is not unpacked: {reason}.",
        hint="this is not the dataset's archive as published: delete that file and run again",
    )


def _damaged(archive: Path, error: Exception) -> DataBroken:
    whole = archive.resolve()
    size, found = readable_size(whole.stat().st_size), " ".join(str(error).split())
    return DataBroken(
        f"The archive `{whole}` ({size}) is cut off or damaged: {found}.",
        hint=f"delete that file and run again: `rm '{whole}'`",
    )


def _disk_trouble(error: OSError, archive: Path, destination: Path) -> DataMissing:
    if not archive.is_file():
        message = f"There is no archive `{archive}` to unpack."
        return DataMissing(message, hint="run again, so that it is downloaded")
    size = readable_size(archive.stat().st_size)
    return DataMissing(
        f"The archive `{archive}` could not be unpacked into `{destination}`: {error}.",
        hint=f"that folder's disk needs at least {size} free (what is packed is mostly images,"
        " which take as much room unpacked) and must be writable; `MMIE_TASKS_CACHE` names another",
    )
