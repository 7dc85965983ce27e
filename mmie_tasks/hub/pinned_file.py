"""Downloads single files of public repositories, once. A file with another SHA-256 is refused."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mmie_tasks.core.errors import DataMissing
from mmie_tasks.hub.asset import DownloadPlan
from mmie_tasks.hub.failures import connection_problem

_OFFLINE = {"1", "ON", "YES", "TRUE"}  # as huggingface_hub reads it
_TRIES = 3
TIMEOUT_S = 20.0  # to connect, and between bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A file that is identified by its SHA-256."""

    name: str  # in the plural: MMIE's official judge prompts
    url: str
    size_bytes: int
    sha256: str  # in hexadecimal
    local: str  # how users name a local copy, as part of a hint: set `OPENING_DATA` to

    def holds(self, content: bytes) -> bool:
        """Whether the content is the file's."""
        return hashlib.sha256(content).hexdigest() == self.sha256

    def read(self, path: Path) -> bytes:
        """The first bytes of a local file: twice the pinned size shows that it is another."""
        with path.open("rb") as file:
            return file.read(2 * self.size_bytes)


def downloads_are_off(environment: Mapping[str, str]) -> bool:
    """Whether ``HF_HUB_OFFLINE`` forbids downloads."""
    return environment.get("HF_HUB_OFFLINE", "").upper() in _OFFLINE


def pinned_plan(
    source: str, missing: Iterable[Pin], environment: Mapping[str, str]
) -> DownloadPlan:
    """The download of missing files; raises `DataMissing` if ``HF_HUB_OFFLINE`` forbids it."""
    pins = tuple(missing)
    if pins and downloads_are_off(environment):
        raise _switched_off(pins[0])
    return DownloadPlan(source=source, file_bytes=tuple(pin.size_bytes for pin in pins))


def pinned_bytes(pin: Pin, path: Path, environment: Mapping[str, str]) -> bytes:
    """The bytes of a pinned file, which is downloaded to `path` if it is not there.

    Raises:
        DataMissing: The file could not be downloaded or written, or ``HF_HUB_OFFLINE`` is set.
    """
    if (content := cached_bytes(pin, path)) is not None:
        return content
    if downloads_are_off(environment):
        raise _switched_off(pin)
    import pooch  # type: ignore[import-untyped]

    files = pooch.create(
        path=path.parent,
        base_url="",
        registry={path.name: f"sha256:{pin.sha256}"},
        urls={path.name: pin.url},
        retry_if_failed=_TRIES - 1,
    )
    download = pooch.HTTPDownloader(timeout=TIMEOUT_S, stream=False)  # the socket is closed
    try:
        files.fetch(path.name, downloader=download)
        return pin.read(path)
    except OSError as error:  # also those of `requests`
        raise _missing(pin, f"{pin.url}: {connection_problem(error)}") from error
    except ValueError as error:
        raise _missing(pin, f"{pin.url}: it is not the official file") from error


def cached_bytes(pin: Pin, path: Path) -> bytes | None:
    """The bytes of the file at `path`; None if it is missing or is not the pinned one."""
    try:
        content = pin.read(path)
    except OSError:
        return None
    return content if pin.holds(content) else None


def _switched_off(pin: Pin) -> DataMissing:
    return _missing(pin, "downloads are switched off (`HF_HUB_OFFLINE`)")


def _missing(pin: Pin, problem: str) -> DataMissing:
    return DataMissing(
        f"{pin.name} could not be downloaded: {problem}.",
        hint=f"connect and run again (the file is then cached), or {pin.local} a copy of {pin.url}",
    )
