"""The official file with MMIE's judge prompts, byte for byte: local, kept, or fetched once.

Whatever the way, the bytes are held to a size and a SHA-256 that are written here; nothing else is
ever given. Below `mmie_tasks.paths.cache_dir` there is ``mmie/prompts-eb0fd6e.py``, which is data:
nobody runs it.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from loguru import logger

from mmie_tasks.errors import DataBroken, DataMissing, SettingWrong
from mmie_tasks.paths import cache_dir
from mmie_tasks.sources.archives import whole

if TYPE_CHECKING:
    import httpx

COMMIT = "eb0fd6ecf14576760b5c3deb95c47579cf0cc36e"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What a file must be, and where it is to be had."""

    url: str
    size_bytes: int
    sha256: str

    def holds(self, content: bytes) -> bool:
        """Whether these are its bytes."""
        return hashlib.sha256(content).hexdigest() == self.sha256


OFFICIAL = Pin(
    url=f"https://raw.githubusercontent.com/Lillianwei-h/MMIE/{COMMIT}/prompts.py",
    size_bytes=8204,
    sha256="ed1e1a14a4e356755c249eebbab53c6c2ff27850c3a741639eff06c1c57cfb0b",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long the address is tried."""

    tries: int = 3
    backoff_s: float = 1.0  # before the second try; doubled before each further one
    timeout_s: float = 20.0  # to connect, and between bytes
    whole_s: float = 60.0  # for one try


_OFFLINE = {"1", "ON", "YES", "TRUE"}  # as huggingface_hub reads it
_REDIRECTS = 5
_AGAIN = {408, 425, 429}


class _NotHad(Exception):
    """One try failed; `again` says whether another may not."""

    def __init__(self, found: str, *, again: bool) -> None:
        super().__init__(found)
        self.again = again


def prompts_file(
    environment: Mapping[str, str], pin: Pin = OFFICIAL, patience: Patience | None = None
) -> bytes:
    """The bytes of the official file.

    Args:
        environment: ``MMIE_PROMPTS`` (a local copy) is taken first, then the file that is kept, and
            otherwise it is fetched from ``MMIE_PROMPTS_URL`` or the pinned address. With
            ``HF_HUB_OFFLINE`` nothing is fetched.
        pin: What the file must be.
        patience: How long an address is tried.

    Raises:
        DataBroken: The local copy is another file.
        DataMissing: There is no local copy where one should be, or the file cannot be fetched.
        SettingWrong: ``MMIE_PROMPTS_URL`` is no address.
    """
    if local := environment.get("MMIE_PROMPTS"):
        return _local(Path(local).expanduser(), pin)
    if (content := kept(environment, pin)) is not None:
        return content
    content = _fetched(environment, pin, patience or Patience())
    try:
        with whole(_place(environment)) as part:
            part.write_bytes(content)
    except OSError as error:
        logger.warning(f"MMIE's official prompts are not kept for the next run: {error}.")
    return content


def kept(environment: Mapping[str, str], pin: Pin = OFFICIAL) -> bytes | None:
    """The bytes that an earlier call fetched; None where there are none, or others."""
    return _kept(_place(environment), pin)


def _place(environment: Mapping[str, str]) -> Path:
    return cache_dir(environment) / "mmie" / f"prompts-{COMMIT[:7]}.py"


def _local(path: Path, pin: Pin) -> bytes:
    hint = f"copy {pin.url} there, byte for byte, or unset `MMIE_PROMPTS`"
    try:
        content = _bounded(path, pin)
    except OSError as error:
        raise DataMissing(
            f"`MMIE_PROMPTS` is `{path}`, which cannot be read: {error.strerror}.", hint=hint
        ) from error
    if pin.holds(content):
        return content
    what = "the official one"
    if pin.holds(content.replace(b"\r\n", b"\n")):
        what += ", whose lines end in LF and not in CR LF"
    raise DataBroken(
        f"`MMIE_PROMPTS` is `{path}`, which is not MMIE's official `prompts.py`: its SHA-256 is "
        f"{hashlib.sha256(content).hexdigest()[:12]}…, and {pin.sha256[:12]}… is {what}.",
        hint=f"{hint}; for other words there is `MMIE_OTHER_PROMPTS`",
    )


def _kept(path: Path, pin: Pin) -> bytes | None:
    try:
        content = _bounded(path, pin)
    except FileNotFoundError:
        return None
    except OSError as error:
        logger.warning(f"`{path}` cannot be read ({error.strerror}).")
        return None
    if pin.holds(content):
        return content
    logger.warning(f"`{path}` is damaged: it is not used.")
    return None


def _bounded(path: Path, pin: Pin) -> bytes:
    """A file's bytes; of a longer one than wanted, enough to show that it is another."""
    with path.open("rb") as file:
        return file.read(2 * pin.size_bytes)


def _fetched(environment: Mapping[str, str], pin: Pin, patience: Patience) -> bytes:
    url = environment.get("MMIE_PROMPTS_URL") or pin.url
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise SettingWrong(
            f"`MMIE_PROMPTS_URL` is {_shown(url)!r}, which is no web address.",
            hint=f"give one that serves the bytes of {pin.url}, or unset it",
        )
    if environment.get("HF_HUB_OFFLINE", "").upper() in _OFFLINE:
        raise _missing("downloads are switched off (`HF_HUB_OFFLINE`)", pin)
    failure = _NotHad("it was not tried", again=False)
    for attempt in range(patience.tries):
        if attempt:
            logger.info(f"MMIE's official prompts: {failure}; trying again.")
            time.sleep(patience.backoff_s * 2 ** (attempt - 1))
        outcome = _attempt(url, pin, patience)
        if isinstance(outcome, bytes):
            logger.info(f"MMIE's official prompts were fetched from {_shown(url)}.")
            return outcome
        failure = outcome
        if not failure.again:
            break
    raise _missing(f"{_shown(url)}: {failure}", pin) from failure


def _attempt(url: str, pin: Pin, patience: Patience) -> bytes | _NotHad:
    try:
        return _try(url, pin, patience)
    except _NotHad as failure:
        return failure


def _try(url: str, pin: Pin, patience: Patience) -> bytes:
    """One try, through redirects.

    Raises:
        _NotHad: It failed.
    """
    import httpx

    deadline = time.monotonic() + patience.whole_s
    plain = {"Accept-Encoding": "identity"}  # the hash is of the file's own bytes
    try:
        with httpx.Client(timeout=patience.timeout_s, headers=plain) as client:
            for _ in range(_REDIRECTS + 1):
                with client.stream("GET", url, follow_redirects=False) as response:
                    if not response.has_redirect_location:
                        return _content(response, pin, deadline)
                    url = _next(response)
    except httpx.InvalidURL as error:
        raise _NotHad("it is no web address", again=False) from error
    except httpx.HTTPError as error:
        said = (str(error).splitlines() or [""])[0]
        raise _NotHad(f"{type(error).__name__} ({said})", again=True) from error
    raise _NotHad("it forwards without end", again=False)


def _next(response: httpx.Response) -> str:
    """Where a response forwards to: only to https, or from this machine to itself."""
    target = response.url.join(response.headers["location"])
    at_home = _is_loopback(response.url.host) and _is_loopback(target.host)
    if target.scheme == "https" or (target.scheme == "http" and at_home):
        return str(target)
    raise _NotHad(f"it forwards to {_shown(str(target))}, which is not https", again=False)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _content(response: httpx.Response, pin: Pin, deadline: float) -> bytes:
    status = response.status_code
    if status != HTTPStatus.OK:
        again = status in _AGAIN or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        raise _NotHad(f"it answered HTTP {status}", again=again)
    content = bytearray()
    for chunk in response.iter_raw():
        content += chunk
        if len(content) > pin.size_bytes:
            raise _NotHad(f"it sent more than the {pin.size_bytes:,} bytes wanted", again=False)
        if time.monotonic() > deadline:
            raise _NotHad("it takes too long", again=True)
    if pin.holds(bytes(content)):
        return bytes(content)
    raise _NotHad(f"it sent {len(content):,} bytes, and not the official ones", again=False)


def _missing(found: str, pin: Pin) -> DataMissing:
    return DataMissing(
        f"MMIE's official judge prompts cannot be had: {found}.",
        hint="connect and run again (once is enough; the file is kept), or set `MMIE_PROMPTS` to a "
        f"copy of {pin.url}",
    )


def _shown(url: str) -> str:
    """An address without user, password and query: they may be keys."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
