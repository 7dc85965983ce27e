"""Single files of public repositories, downloaded once by pooch, which checks their SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mmie_tasks.core.errors import DataMissing
from mmie_tasks.core.files import cache_dir
from mmie_tasks.hub.asset import Asset, Check, DownloadPlan
from mmie_tasks.hub.failures import connection_problem

_OFFLINE = {"1", "ON", "YES", "TRUE"}  # as huggingface_hub reads it
TIMEOUT_S = 20.0  # to connect, and between bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A file that is identified by its SHA-256.

    Attributes:
        name: In the plural: MMIE's official judge prompts.
        url: Where it is downloaded.
        size_bytes: Its size, for display before the download.
        sha256: In hexadecimal.
        local: How users name a local copy, as part of a hint: set `OPENING_DATA` to.
    """

    name: str
    url: str
    size_bytes: int
    sha256: str
    local: str

    def holds(self, content: bytes) -> bool:
        """Whether the content is the file's."""
        return hashlib.sha256(content).hexdigest() == self.sha256

    def read(self, path: Path) -> bytes | None:
        """The bytes of a local file; None if it is missing or another file."""
        content = path.read_bytes() if path.is_file() else b""
        return content if self.holds(content) else None

    def fetch(self, path: Path, environment: Mapping[str, str]) -> bytes:
        """The bytes of the file, which is downloaded to `path` if it is not there.

        Raises:
            DataMissing: The file could not be downloaded or written, or ``HF_HUB_OFFLINE`` is set.
        """
        if (content := self.read(path)) is not None:
            return content
        if downloads_are_off(environment):
            raise self.missing("downloads are switched off (`HF_HUB_OFFLINE`)")
        import pooch  # type: ignore[import-untyped]

        files = pooch.create(
            path=path.parent,
            base_url="",
            registry={path.name: f"sha256:{self.sha256}"},
            urls={path.name: self.url},
            retry_if_failed=2,
        )
        download = pooch.HTTPDownloader(timeout=TIMEOUT_S, stream=False)  # the socket is closed
        try:
            files.fetch(path.name, downloader=download)
            return path.read_bytes()
        except OSError as error:  # also those of `requests`
            raise self.missing(f"{self.url}: {connection_problem(error)}") from error
        except ValueError as error:
            raise self.missing(f"{self.url}: it is not the official file") from error

    def missing(self, problem: str) -> DataMissing:
        """The error for a file that could not be downloaded."""
        return DataMissing(
            f"{self.name} could not be downloaded: {problem}.",
            hint=f"connect and run again (the file is then cached), or {self.local} a copy of "
            f"{self.url}",
        )


def downloads_are_off(environment: Mapping[str, str]) -> bool:
    """Whether ``HF_HUB_OFFLINE`` forbids downloads."""
    return environment.get("HF_HUB_OFFLINE", "").upper() in _OFFLINE


def pinned_asset(
    name: str,
    source: str,
    files: Mapping[Path, Pin],
    environment: Mapping[str, str],
    describe: Callable[[], str],
) -> Asset:
    """Pinned files below `mmie_tasks.core.files.cache_dir`; `describe` is the only check.

    `files` has the path of each file there.
    """

    def missing() -> list[Pin]:
        return [pin for path, pin in files.items() if pin.read(path) is None]

    def plan() -> DownloadPlan:
        pins = missing()
        if pins and downloads_are_off(environment):
            raise pins[0].missing("downloads are switched off (`HF_HUB_OFFLINE`)")
        return DownloadPlan(source=source, size_bytes=sum(pin.size_bytes for pin in pins))

    def fetch() -> str:
        for path, pin in files.items():
            pin.fetch(path, environment)
        return f"{source} is here"

    folder = cache_dir(environment).absolute()
    return Asset(
        name=name,
        source=source,
        folder=folder,
        is_here=lambda: not missing(),
        plan=plan,
        fetch=fetch,
        copies={"MMIE_TASKS_CACHE": folder},
        checks=(Check(subject=name, describe=describe),),
    )
