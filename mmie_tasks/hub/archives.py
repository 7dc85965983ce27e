"""Unpacks downloaded archives safely."""

from __future__ import annotations

import lzma
import posixpath
import tarfile
import zlib
from pathlib import Path

from loguru import logger
from tqdm import tqdm  # type: ignore[import-untyped]

from mmie_tasks.core.errors import DataBroken
from mmie_tasks.core.files import readable_size
from mmie_tasks.hub.images import inside

MAX_UNPACKED_BYTES = 200 * 1024**3
MAX_MEMBERS = 1_000_000

_CHUNK_BYTES = 1024 * 1024

# gzip and bz2 raise OSErrors without a number, Python's filter a TarError, and `inside` DataBroken.
_BROKEN = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, ValueError, DataBroken, OSError)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive, plain or compressed (gzip, bzip2, xz), into a folder.

    Raises:
        DataBroken: The archive is damaged or too large, or has a member that leaves the folder.
        OSError: It cannot be read, or the folder cannot be written.
    """
    logger.info(f"Unpacking `{archive}`.")
    size_bytes = archive.stat().st_size
    members = unpacked_bytes = 0
    bar = tqdm(total=size_bytes, unit="B", unit_scale=True, desc=f"unpacking {archive.name}")
    try:
        with bar, archive.open("rb") as raw, tarfile.open(fileobj=raw) as tar:
            for member in tar:
                members += 1
                unpacked_bytes += member.size
                if members > MAX_MEMBERS or unpacked_bytes > MAX_UNPACKED_BYTES:
                    raise ValueError("it has too many or too large files for this dataset")
                _extract(tar, member, folder)
                bar.update(raw.tell() - bar.n)
            while tar.fileobj is not None and tar.fileobj.read(_CHUNK_BYTES):
                pass  # after the last member gzip stores its checksum
            bar.update(raw.tell() - bar.n)
    except _BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        path, reason = archive.resolve(), " ".join(str(error).split("\n\n")[0].split())
        raise DataBroken(
            f"The archive `{path}` ({readable_size(size_bytes)}) cannot be unpacked: {reason}.",
            hint=f"delete it and run again, so that it is downloaded: `rm '{path}'`",
        ) from error


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write a member, unless it would leave the folder."""
    if posixpath.normpath(member.name) != ".":
        inside(folder, member.name)
    if hasattr(tarfile, "data_filter"):
        tar.extract(member, folder, filter="data")
    elif member.isreg() or member.isdir():  # Python before 3.10.12 and 3.11.4, as in Debian 12
        tar.extract(member, folder)
    else:
        raise ValueError(
            f"{member.name!r} is a link or a special file, which needs Python 3.11.4 or later"
        )
