"""Download single files of public repositories that are known by their SHA-256.

Nothing is ever accepted in the place of such a file. It is stored once, and read from there by later runs.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from mmie_tasks.core.errors import DataMissing
from mmie_tasks.core.files import atomic_write
from mmie_tasks.hub.download import connection_problem

if TYPE_CHECKING:
    import httpx

_OFFLINE = {"1", "ON", "YES", "TRUE"}  # as huggingface_hub reads it
_REDIRECTS = 5
_AGAIN = {408, 425, 429}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A file that is identified by its SHA-256.

    Attributes:
        name: What it is, in the plural: ``MMIE's official judge prompts``.
        url: Its address.
        size_bytes: Its exact size.
        sha256: SHA-256 of its content, in hex.
        local: How users name a local copy, the end of a hint: ``set `MMIE_PROMPTS` to``.
    """

    name: str
    url: str
    size_bytes: int
    sha256: str
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
    whole_s: float = 60.0  # for one try


class _FetchFailed(Exception):
    """A try failed; another may succeed if `again`."""

    def __init__(self, problem: str, *, again: bool) -> None:
        super().__init__(problem)
        self.again = again


def pinned_bytes(pin: Pin, path: Path, environment: Mapping[str, str], retry: RetryPolicy | None = None) -> bytes:
    """The bytes of a pinned file: the cached file, or a download, which is then cached.

    Args:
        pin: The file.
        path: The cached file.
        environment: With ``HF_HUB_OFFLINE`` nothing is downloaded.
        retry: How often and how long the download is tried.

    Raises:
        DataMissing: The file could not be downloaded.
    """
    if (content := cached_bytes(pin, path)) is not None:
        return content
    content = _download(pin, environment, retry or RetryPolicy())
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


def _download(pin: Pin, environment: Mapping[str, str], retry: RetryPolicy) -> bytes:
    if environment.get("HF_HUB_OFFLINE", "").upper() in _OFFLINE:
        raise _missing("downloads are switched off (`HF_HUB_OFFLINE`)", pin)
    for attempt in count():
        try:
            content = _try(pin, retry)
            break
        except _FetchFailed as error:
            if not error.again or attempt + 1 == retry.tries:
                raise _missing(f"{pin.url}: {error}", pin) from error
            logger.info(f"{pin.name}: {error}; trying again.")
            time.sleep(retry.backoff_s * 2**attempt)
    logger.info(f"{pin.name} were downloaded from {pin.url}.")
    return content


def _try(pin: Pin, retry: RetryPolicy) -> bytes:
    """One try, through redirects, which lead to https or stay on the pinned host."""
    import httpx

    def check_address(request: httpx.Request) -> None:
        pinned, url = httpx.URL(pin.url), request.url
        if url.scheme != "https" and (url.scheme, url.host) != (pinned.scheme, pinned.host):
            raise _FetchFailed(f"it redirects to {url.scheme}://{url.host}, which is not https", again=False)

    deadline = time.monotonic() + retry.whole_s
    client = httpx.Client(
        timeout=retry.timeout_s,
        headers={"Accept-Encoding": "identity"},  # the hash is of the file's own bytes
        follow_redirects=True,
        max_redirects=_REDIRECTS,
        event_hooks={"request": [check_address]},
    )
    try:
        with client, client.stream("GET", pin.url) as response:
            return _content(response, pin, deadline)
    except httpx.TooManyRedirects as error:
        raise _FetchFailed("too many redirects", again=False) from error
    except httpx.HTTPError as error:
        raise _FetchFailed(connection_problem(error), again=True) from error


def _content(response: httpx.Response, pin: Pin, deadline: float) -> bytes:
    if (status := response.status_code) != HTTPStatus.OK:
        again = status in _AGAIN or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        raise _FetchFailed(f"it answered HTTP {status}", again=again)
    content = bytearray()
    for chunk in response.iter_raw():
        content += chunk
        if len(content) > pin.size_bytes:
            raise _FetchFailed(f"it sent more than {pin.size_bytes:,} bytes", again=False)
        if time.monotonic() > deadline:
            raise _FetchFailed("it took too long", again=True)
    if not pin.holds(bytes(content)):
        raise _FetchFailed(f"it sent {len(content):,} bytes, but not the official file", again=False)
    return bytes(content)


def _missing(problem: str, pin: Pin) -> DataMissing:
    return DataMissing(
        f"{pin.name} could not be downloaded: {problem}.",
        hint=f"connect and run again (the file is then cached), or {pin.local} a copy of {pin.url}",
    )
