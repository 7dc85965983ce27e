"""Unpacks downloaded archives safely."""

from __future__ import annotations

import lzma
import tarfile
import zlib
from pathlib import Path

from loguru import logger

from mmie_tasks.core.errors import DataBroken, first_line
from mmie_tasks.hub.images import inside

_CHUNK_BYTES = 1024 * 1024

# gzip and bz2 raise OSErrors without a number, Python's filter a TarError, and `inside` DataBroken.
_BROKEN = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, ValueError, DataBroken, OSError)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar archive, plain or compressed (gzip, bzip2, xz), into a folder.

    Raises:
        DataBroken: The archive is damaged, or has a member that leaves the folder.
        OSError: It cannot be read, or the folder cannot be written.
    """
    logger.info(f"Unpacking `{archive}`.")
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                _extract(tar, member, folder)
            while tar.fileobj is not None and tar.fileobj.read(_CHUNK_BYTES):
                pass  # after the last member gzip stores its checksum
    except _BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        path = archive.resolve()
        raise DataBroken(
            f"The archive `{path}` cannot be unpacked: {first_line(error).rstrip('.')}.",
            hint=f"delete it and run again, so that it is downloaded: `rm '{path}'`",
        ) from error


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """Write a member; Python's filter refuses those that leave the folder, or are devices."""
    if hasattr(tarfile, "data_filter"):
        tar.extract(member, folder, filter="data")
    elif member.isdir():  # Python before 3.10.12 and 3.11.4, as in Debian 12
        (folder / member.name).resolve().relative_to(folder.resolve())
        tar.extract(member, folder)
    elif member.isreg():
        inside(folder, member.name)
        tar.extract(member, folder)
    else:
        raise ValueError(f"{member.name!r} is a link, which needs Python 3.11.4 or later")
