"""Download single files of public repositories that are known by their SHA-256.

Nothing is ever accepted in the place of such a file. It is stored once, and read from there by
later runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

from mmie_tasks.core.errors import DataMissing
from mmie_tasks.core.files import atomic_write
from mmie_tasks.hub.failures import connection_problem

_OFFLINE = {"1", "ON", "YES", "TRUE"}  # as huggingface_hub reads it
_TRANSIENT_STATUSES = {408, 425, 429}  # and 500 and above


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A file that is identified by its SHA-256.

    ``name`` says what it is, in the plural: ``MMIE's official judge prompts``. ``local`` says how
    users name a local copy, as the end of a hint: ``set `MMIE_PROMPTS` to``.
    """

    name: str
    url: str
    size_bytes: int
    sha256: str  # in hex
    local: str

    def holds(self, content: bytes) -> bool:
        """Whether the content is the file's."""
        return hashlib.sha256(content).hexdigest() == self.sha256

    def read(self, path: Path) -> bytes:
        """A local file's bytes, at most twice the pinned size: enough to show that it is another.

        Raises:
            OSError: It cannot be read.
        """
        with path.open("rb") as file:
            return file.read(2 * self.size_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how long a download is tried."""

    tries: int = 3
    backoff_s: float = 1.0  # before the second try; doubled before each further one
    timeout_s: float = 20.0  # to connect, and between bytes


def pinned_bytes(
    pin: Pin, path: Path, environment: Mapping[str, str], retry: RetryPolicy | None = None
) -> bytes:
    """The bytes of a pinned file: the cached file at `path`, or a download, which is then cached.

    Raises:
        DataMissing: The file could not be downloaded; with ``HF_HUB_OFFLINE`` nothing is.
    """
    if (content := cached_bytes(pin, path)) is not None:
        return content
    if environment.get("HF_HUB_OFFLINE", "").upper() in _OFFLINE:
        raise _missing(pin, "downloads are switched off (`HF_HUB_OFFLINE`)")
    content = _download(pin, retry or RetryPolicy())
    logger.info(f"{pin.name} were downloaded from {pin.url}.")
    try:
        with atomic_write(path) as part:
            part.write_bytes(content)
    except OSError as error:
        logger.warning(f"{pin.name} could not be cached: {error}.")
    return content


def cached_bytes(pin: Pin, path: Path) -> bytes | None:
    """The bytes of a cached file; None if there is none, or it is another file."""
    try:
        content = pin.read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        logger.warning(f"`{path}` cannot be read ({error.strerror}).")
        return None
    if pin.holds(content):
        return content
    logger.warning(f"`{path}` is damaged and will be downloaded again.")
    return None


def _download(pin: Pin, retry: RetryPolicy) -> bytes:
    import httpx
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

    def attempt() -> bytes:
        response = httpx.get(pin.url, timeout=retry.timeout_s, follow_redirects=True)
        response.raise_for_status()
        return response.content

    def is_transient(error: BaseException) -> bool:
        if isinstance(error, httpx.HTTPStatusError):
            status = error.response.status_code
            return status >= 500 or status in _TRANSIENT_STATUSES
        return isinstance(error, httpx.TransportError)

    attempts = Retrying(
        stop=stop_after_attempt(retry.tries),
        wait=wait_exponential(retry.backoff_s),
        retry=retry_if_exception(is_transient),
        reraise=True,
    )
    try:
        content = attempts(attempt)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _missing(pin, f"{pin.url}: {connection_problem(error)}") from error
    if not pin.holds(content):
        raise _missing(pin, f"{pin.url}: its {len(content):,} bytes are not the official file")
    return content


def _missing(pin: Pin, problem: str) -> DataMissing:
    return DataMissing(
        f"{pin.name} could not be downloaded: {problem}.",
        hint=f"connect and run again (the file is then cached), or {pin.local} a copy of {pin.url}",
    )
