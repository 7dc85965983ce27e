"""Downloading a file from the Hub so that a killed download goes on where it stopped.

`huggingface_hub` 2 takes a broken connection up within one call, and begins anew in the next
process. Here what has arrived stays, below a folder of ours::

    <etag>/<filename>.part      unfinished; the next process asks for the rest
    <etag>/<filename>           whole, and not unpacked yet
    <filename>.lock             held by the one process that downloads and unpacks

The etag names the content: a file that has changed on the Hub begins at zero, and what there was of
the older one is removed.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from loguru import logger

from mmie_tasks.errors import DataMissing
from mmie_tasks.sources import locks
from mmie_tasks.sources.hub import OnHub
from mmie_tasks.sources.hub_file import (
    HubFile,
    download_errors,
    missing,
    said_by_the_hub,
    without_urls,
)

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NO_RIGHT = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def turn(file: HubFile, folder: Path) -> Iterator[None]:
    """Be the one process that downloads this file and uses it; others wait here.

    Raises:
        DataMissing: `folder` cannot be written.
    """
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = locks.turn(folder / f"{_name(file)}.lock", f"downloading `{file.filename}`")
            stack.enter_context(lock)
        except OSError as error:
            raise _broken_off(file, error) from error
        yield


def download(found: OnHub, folder: Path) -> Path:
    """Download a file below `folder`, or the rest of it; to be called within its `turn`.

    Progress is shown, and a connection that breaks is taken up, by `huggingface_hub`. Only the size
    is compared here: see `mmie_tasks.sources.hub.verify`.

    Returns:
        The whole file, which is `remove`'s to delete once it has served.

    Raises:
        DataMissing: The Hub refuses, the connection is lost for good, or `folder` has no room.
    """
    whole = folder / found.etag / _name(found.file)
    try:
        remove(found.file, folder, but=found.etag)
        if not whole.is_file():
            whole.parent.mkdir(exist_ok=True)
            part = whole.with_name(f"{whole.name}.part")
            _complete(part, found)
            part.replace(whole)
    except download_errors() as error:
        raise _broken_off(found.file, error) from error
    return whole


def _complete(part: Path, found: OnHub) -> None:
    from huggingface_hub import hf_hub_url

    # Both are public, and exported by their modules only.
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    file, size_bytes = found.file, found.size_bytes
    there = part.stat().st_size if part.is_file() else 0
    if size_bytes is None or there > size_bytes:
        there = 0
    if there:
        logger.info(f"Going on with `{part}`: {there:,} of {size_bytes:,} bytes are there.")
    # Asked for at its commit, and from the Hub: an address it forwards to is signed and expires.
    url = hf_hub_url(file.repo, file.filename, repo_type="dataset", revision=found.commit)
    with part.open("ab" if there else "wb") as content:
        http_get(
            url,
            content,
            resume_size=there,
            headers={**build_hf_headers(), "Accept-Encoding": "identity"},  # ranges count raw bytes
            expected_size=size_bytes,
            displayed_filename=file.filename,
        )


def arrived_bytes(found: OnHub, folder: Path) -> int:
    """How much of a file is below `folder` already, and will not be downloaded again."""
    whole = folder / found.etag / _name(found.file)
    for path in (whole, whole.with_name(f"{whole.name}.part")):
        if path.is_file():
            there = path.stat().st_size
            return there if there <= (found.size_bytes or 0) else 0
    return 0


def remove(file: HubFile, folder: Path, but: str = "") -> None:
    """Delete what was downloaded of a file, whole or in part; to be called within its `turn`.

    What cannot be deleted only takes room: that is logged, and nothing is raised.

    Args:
        file: What was asked for.
        folder: As for `download`.
        but: The etag of the content to keep, if any.
    """
    for content in folder.iterdir():
        if content.is_dir() and content.name != but:
            try:
                _clear(content, _name(file))
            except OSError as error:
                logger.warning(f"`{content}` is no longer needed and stays: {error}.")


def _clear(content: Path, name: str) -> None:
    for path in (content / name, content / f"{name}.part"):
        path.unlink(missing_ok=True)
    if not any(content.iterdir()):
        content.rmdir()


def _name(file: HubFile) -> str:
    return file.filename.replace("/", "%2F")


def _broken_off(file: HubFile, error: BaseException) -> DataMissing:
    from huggingface_hub.errors import HfHubHTTPError

    elsewhere = "or set `MMIE_TASKS_CACHE` to a folder"
    match error:
        case HfHubHTTPError():
            return missing(file, *said_by_the_hub(file, error))
        case OSError(errno=number) if number in _NO_ROOM:
            return missing(file, "the disk is full", f"make room, {elsewhere} on a bigger disk")
        case OSError(errno=number, filename=str(path)) if number in _NO_RIGHT:
            hint = f"make it writable, {elsewhere} that is"
            return missing(file, f"`{path}` cannot be written ({error.strerror})", hint)
        case _:
            found = f"the download failed: {type(error).__name__}: {without_urls(error)}"
            return missing(file, found, "run again: it goes on where it stopped")
