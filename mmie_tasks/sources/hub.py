"""One file of a dataset on the Hugging Face Hub: fetched, and checked to be that file."""

from __future__ import annotations

import errno
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mmie_tasks.errors import DataBroken, DataMissing

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

_SHA256 = re.compile(r"[0-9a-f]{64}")
_URL = re.compile(r"(https?://)[^\s/'\"]+\S*")
_CHUNK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """A file in a dataset repository, and what is known of its content beforehand.

    Attributes:
        repo: Owner and name, ``FreedomIntelligence/MileBench``.
        filename: Path inside the repository.
        revision: Branch, tag or commit.
        size_bytes: Its exact size, where known.
        sha256: The first and the last hex digits of its SHA-256, as many of each as are known.
        instead: What a reader can do when it cannot be had, in words; it ends the hints.
    """

    repo: str
    filename: str
    revision: str = "main"
    size_bytes: int | None = None
    sha256: tuple[str, str] | None = None
    instead: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A file on this machine, and the commit (40 hex digits) it belongs to."""

    path: Path
    commit: str


def fetch(file: HubFile) -> Fetched:
    """Download a file into the Hub's own cache, unless it is there, and say where it lies.

    ``HF_ENDPOINT``, ``HF_HOME``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE`` are obeyed by
    `huggingface_hub` itself. A connection that breaks is taken up where it stopped. The content is
    not read here: see `verify`.

    Raises:
        DataMissing: No access, no such repository, revision or file, no connection, no room.
        DataBroken: What was fetched is not the file that is pinned, by its size or by the hash
            that the Hub gives.
    """
    from huggingface_hub import hf_hub_download

    try:
        found = hf_hub_download(
            file.repo, file.filename, repo_type="dataset", revision=file.revision
        )
    except _download_errors() as error:
        raise _explained(file, error) from error
    path = Path(found)
    _compare_pins(file, path, content_hash(path))
    return Fetched(path=path, commit=path.parents[file.filename.count("/")].name)


def _download_errors() -> tuple[type[BaseException], ...]:
    """What a download raises, for every HTTP library that huggingface_hub has been built on.

    A refused connection is no OSError in httpx and httpx2; their base class is found as the base of
    the Hub's own. hf_xet, which carries large files, raises RuntimeError.
    """
    from huggingface_hub.errors import HfHubHTTPError

    return (OSError, RuntimeError, *HfHubHTTPError.__bases__)


def verify(file: HubFile, path: Path) -> None:
    """Read the whole file and compare its SHA-256 with the Hub's and with the pinned digits.

    Takes seconds per gigabyte: to be called once, right before the file is used.

    Raises:
        DataBroken: The content is another.
    """
    digest = hashlib.sha256()
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK_BYTES):
            digest.update(chunk)
    expected = content_hash(path)
    if expected is not None and digest.hexdigest() != expected:
        raise _other_content(path, f"SHA-256 {expected}", digest.hexdigest(), _delete(path))
    _compare_pins(file, path, digest.hexdigest())


def content_hash(path: Path) -> str | None:
    """The SHA-256 that the Hub gave for a file in its cache, in hex; None where it gave none.

    The cache names a large file's content after its hash and links to it. Where links are not
    possible (Windows) nothing is known.
    """
    if not path.is_symlink():
        return None
    name = path.readlink().name  # one link only: the content may itself link to a shared store
    return name if _SHA256.fullmatch(name) else None


def _compare_pins(file: HubFile, path: Path, sha256: str | None) -> None:
    changed = f"if the Hub has another version now, {file.instead}; else {_delete(path)}"
    size = path.stat().st_size
    if file.size_bytes not in (None, size):
        raise _other_content(path, f"{file.size_bytes} bytes", f"{size}", changed)
    if file.sha256 is not None and sha256 is not None:
        first, last = file.sha256
        if not (sha256.startswith(first) and sha256.endswith(last)):
            raise _other_content(path, f"SHA-256 {first}…{last}", sha256, changed)


def _other_content(path: Path, expected: str, got: str, hint: str) -> DataBroken:
    return DataBroken(
        f"The downloaded file `{path}` is not the expected one: expected {expected}, got {got}.",
        hint=hint,
    )


def _delete(path: Path) -> str:
    """The content must go, not only the cache's link to it."""
    return f"delete it and run again: `rm '{path.resolve()}'`"


def _explained(file: HubFile, error: BaseException) -> DataMissing:
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError

    if isinstance(error, (HfHubHTTPError, EntryNotFoundError)):
        found, hint = _said_by_the_hub(file, error)
    elif isinstance(error, OSError) and error.errno == errno.ENOSPC:
        found, hint = "the disk is full", "make room, or set `HF_HOME` to a folder on a bigger disk"
    else:
        found = f"the download failed: {type(error).__name__}: {_without_urls(error)}"
        hint = "run again"
    where = f"`{file.filename}` of the dataset `{file.repo}`"
    return DataMissing(f"{where} cannot be had: {found}.", hint=f"{hint}, or {file.instead}")


def _said_by_the_hub(file: HubFile, error: BaseException) -> tuple[str, str]:
    """What was found, and what helps."""
    from huggingface_hub import errors as hub

    page = f"https://huggingface.co/datasets/{file.repo}"
    match error:
        case hub.GatedRepoError():
            found = f"the dataset is gated and the Hub answered {_status(error)}"
            return found, f"accept the terms on {page}, then `hf auth login`"
        case hub.RepositoryNotFoundError():
            found = f"the Hub answered {_status(error)}: no such dataset, or not for this account"
            return found, f"`hf auth login` with an account that may open {page}"
        case hub.RevisionNotFoundError():
            found = f"there is no revision `{file.revision}`"
            return found, f"name a branch, tag or commit listed on {page}/commits"
        case hub.LocalEntryNotFoundError():
            found = f"it is not in the Hub's cache and {_why_unreachable(error)}"
            return found, "connect, or copy the cache (`HF_HOME`) from a machine that has the file"
        case hub.HfHubHTTPError() if not isinstance(error, hub.EntryNotFoundError):
            return f"the Hub answered {_status(error)}", "try again later"
        case _:
            found = f"there is no such file at revision `{file.revision}`"
            return found, f"look for it on {page}/tree/{file.revision}"


def _why_unreachable(error: BaseException) -> str:
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    match error.__cause__:
        case OfflineModeIsEnabled() | None:
            return "downloads are switched off (`HF_HUB_OFFLINE`)"
        case HfHubHTTPError() as answer:
            return f"the Hub answered {_status(answer)}"
        case cause:
            return f"the Hub cannot be reached ({type(cause).__name__}: {_without_urls(cause)})"


def _status(error: HfHubHTTPError) -> str:
    return f"HTTP {error.response.status_code}"


def _without_urls(error: BaseException) -> str:
    """The first line, no address in full: a signed one is a key."""
    first_line = (str(error).splitlines() or [""])[0]
    return _URL.sub(r"\1…", first_line)
