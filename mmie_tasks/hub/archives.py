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
    bar = tqdm(total=archive.stat().st_size, unit="B", unit_scale=True, desc=archive.name)
    try:
        with bar, archive.open("rb") as raw, tarfile.open(fileobj=raw) as tar:
            for member in tar:
                _extract(tar, member, folder)
                bar.update(raw.tell() - bar.n)
            while tar.fileobj is not None and tar.fileobj.read(_CHUNK_BYTES):
                pass  # after the last member gzip stores its checksum
    except _BROKEN as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        path, reason = archive.resolve(), " ".join(str(error).split("\n\n")[0].split())
        raise DataBroken(
            f"The archive `{path}` cannot be unpacked: {reason}.",
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
        raise ValueError(f"{member.name!r} is a link, which needs Python 3.11.4 or later")
