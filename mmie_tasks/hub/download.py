"""Downloads of single files from dataset repositories on the Hugging Face Hub.

`install` stores a file in a folder of ours. Its steps: `locate` asks the Hub for commit and hash, and looks into the
Hub's own cache; `download` fetches the file and resumes what a killed process left; `verify` compares size and SHA-256.

`huggingface_hub` resumes a broken connection within one call, and starts over in the next process.
Here, a partial download stays in a folder of ours::

    <etag>/<filename>.part      partial; the next process downloads the rest
    <etag>/<filename>           complete, and not unpacked or copied yet
    <filename>.lock             held by the one process that downloads and unpacks

The etag identifies the content: when a file has changed on the Hub, its download starts at zero,
and the partial download of the older content is removed.
"""

from __future__ import annotations

import errno
import hashlib
import inspect
import re
import shutil
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from loguru import logger

from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.core.files import atomic_write, file_lock

if TYPE_CHECKING:
    from huggingface_hub import HfFileMetadata

Kind: TypeAlias = Literal["dataset", "model"]

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)

_URL = re.compile(r"(https?://)[^\s/'\"]+\S*")
_REVISION = re.compile(r"[\w][\w.\-/]*", re.ASCII)
_COMMIT = re.compile(r"[\w-]{1,128}", re.ASCII)  # also a safe name of a folder
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CHUNK_BYTES = 4 * 1024 * 1024
_MAX_BREAKS = 100  # of the connection, for one file


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """A file in a dataset repository, and what is known of its content beforehand.

    Attributes:
        repo: Owner and name: ``FreedomIntelligence/MileBench``.
        filename: Path inside the repository.
        revision: Branch, tag or commit.
        size_bytes: Its exact size, if pinned.
        sha256: The first and the last hex digits of its SHA-256, if pinned.
        binding: Whether another size or hash is an error; otherwise it is a warning in the log.
        alternative: What users can do if the download fails; the end of every hint.
    """

    repo: str
    filename: str
    revision: str = "main"
    size_bytes: int | None = None
    sha256: tuple[str, str] | None = None
    binding: bool = True
    alternative: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLocation:
    """Where a file is: in the Hub's own cache on this machine, or on the Hub alone.

    Attributes:
        file: The requested file.
        commit: The commit it belongs to.
        size_bytes: Its size; None if the Hub gives none.
        sha256: SHA-256 of its content in hex, according to the Hub; None if the Hub gave none.
        cached_path: Its path in the Hub's cache, from which we delete nothing; None if it is not there.
        etag: The Hub's identifier of the content of a file that is not in its cache.
    """

    file: HubFile
    commit: str
    size_bytes: int | None
    sha256: str | None
    cached_path: Path | None = None
    etag: str = ""


# Errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a repository could not be used, as a clause without a full stop, and a hint."""

    reason: str
    hint: str


def download_errors() -> tuple[type[BaseException], ...]:
    """What `huggingface_hub` raises, for every HTTP library that it has been built on.

    A refused connection is no OSError in httpx; the base class of its errors is found as the base of the Hub's own.
    huggingface_hub 1 closes its client when it cannot connect, and the next call raises RuntimeError.
    """
    from huggingface_hub.errors import HfHubHTTPError

    return (OSError, RuntimeError, *HfHubHTTPError.__bases__)


def without_urls(error: BaseException) -> str:
    """The first line of an error, with shortened URLs: a signed URL gives access to a file."""
    return _URL.sub(r"\1…", (str(error).splitlines() or [""])[0])


def connection_problem(error: BaseException) -> str:
    """Why a server could not be reached, as a clause, by the first error of the system in the chain of causes.

    Any other error is described by its own text, see `without_urls`.
    """
    cause: BaseException | None = error
    while cause is not None:
        match cause:
            case socket.gaierror():
                return "its address cannot be resolved"
            case ssl.SSLCertVerificationError():
                return "its certificate is not trusted on this machine"
            case ConnectionRefusedError():
                return "it refuses connections"
            case TimeoutError():
                return "it does not answer in time"
            case ConnectionResetError() | ConnectionAbortedError() | BrokenPipeError():
                return "it closed the connection"
            case _ if type(cause).__name__ == "RemoteProtocolError":  # of httpx
                return "it closed the connection"
        cause = cause.__cause__ or cause.__context__
    return without_urls(error) or type(error).__name__


def explain(
    error: BaseException,
    *,
    repo: str,
    revision: str,
    kind: Kind = "dataset",
    storage: str = "MMIE_TASKS_CACHE",
    is_downloading: bool = False,
) -> Explanation:
    """Why the Hub could not be used, and what helps.

    Args:
        error: One of `download_errors`.
        repo: The requested repository.
        revision: The requested branch, tag or commit.
        kind: Kind of the repository.
        storage: The environment variable that names the folder written to.
        is_downloading: Whether the error came while a file was transferred.
    """
    from huggingface_hub.errors import OfflineModeIsEnabled

    hint = "connect, or copy the cache (`HF_HOME`) from a machine that has the file"
    if (status := http_status(error)) is not None:
        return _explain_refusal(error, status, repo=repo, revision=revision, kind=kind)
    match error:
        case OfflineModeIsEnabled():
            why = "it is not in the Hub's cache and downloads are switched off (`HF_HUB_OFFLINE`)"
        case OSError(errno=number) if number in DISK_FULL:
            why = "the disk is full"
            hint = f"free some space, or set `{storage}` to a folder on a bigger disk"
        case OSError(errno=number, filename=str(path)) if number in NOT_WRITABLE:
            why = f"`{path}` cannot be written ({error.strerror})"
            hint = f"make it writable, or set `{storage}` to a folder that is"
        case _ if is_downloading:
            why, hint = f"the download failed: {connection_problem(error)}", "run again: it resumes where it stopped"
        case _:
            why = f"it is not in the Hub's cache and the Hub cannot be reached: {connection_problem(error)}"
    return Explanation(reason=why, hint=hint)


def http_status(error: BaseException) -> int | None:
    """The status with which the Hub refused a request; None if the error is of another kind.

    Not every such error is an `HfHubHTTPError`: huggingface_hub 0.36 also lets those of `requests` through.
    """
    match error:
        case object(response=object(status_code=int(status))):
            return status
    return None


def _explain_refusal(error: BaseException, status: int, *, repo: str, revision: str, kind: Kind) -> Explanation:
    from huggingface_hub import errors as hub

    page = f"https://huggingface.co/{'datasets/' if kind == 'dataset' else ''}{repo}"
    why = status_text = f"the Hub answered HTTP {status}"
    hint = f"`hf auth login` with an account that may open {page}"
    match error:
        case hub.GatedRepoError():
            why = f"the {kind} is gated and {status_text}"
            hint = f"accept the terms on {page}, then `hf auth login`"
        case hub.RepositoryNotFoundError():
            why = f"{status_text}: no such {kind}, or no access for this account"
        case hub.RevisionNotFoundError():
            why = f"there is no revision `{revision}`"
            hint = f"name a branch, tag or commit listed on {page}/commits"
        case hub.EntryNotFoundError():
            why = f"there is no such file at revision `{revision}`"
            hint = f"look for it on {page}/tree/{revision}"
        case _ if status not in (401, 403):
            hint = "try again later"
    return Explanation(reason=why, hint=hint)


def download_failure(file: HubFile, error: BaseException, *, is_downloading: bool = False) -> DataMissing:
    """The error for a file that could not be located or downloaded; see `explain`."""
    why = explain(error, repo=file.repo, revision=file.revision, is_downloading=is_downloading)
    return DataMissing(
        f"`{file.filename}` of the dataset `{file.repo}` could not be downloaded: {why.reason}.",
        hint=f"{why.hint}, or {file.alternative}",
    )


def is_revision(text: str) -> bool:
    """Whether a text can be a branch, tag or commit.

    >>> is_revision("refs/pr/1"), is_revision("../main")
    (True, False)
    """
    return ".." not in text and _REVISION.fullmatch(text) is not None


def is_commit(text: str) -> bool:
    """Whether a text can be the name of a commit, and of a folder of ours."""
    return _COMMIT.fullmatch(text) is not None


# Locating and verifying


def locate(file: HubFile, *, patient: bool = True) -> FileLocation:
    """Ask the Hub for the commit and content of a file, and look for it in the Hub's cache.

    Nothing is downloaded, and no content is read: see `verify`. If the Hub does not answer, its cache's file of that
    revision is used. ``HF_ENDPOINT``, ``HF_HOME``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE`` are read by `huggingface_hub`
    itself; if its cache lacks the file, it retries a Hub that is down (429, 5xx, no connection) five times.

    Args:
        file: The file.
        patient: Whether to retry if the Hub is down.

    Raises:
        DataMissing: No access, no such repository, revision or file, or no connection.
        DataBroken: It is not the pinned file, by its size or by the hash that the Hub gives.
    """
    location = _location(file, patient=patient)
    name, otherwise = f"`{file.filename}` of `{file.repo}` at commit {location.commit}", ""
    if path := location.cached_path:
        name, otherwise = f"`{path}`", f"; else {_delete_hint(path)}"
    _compare_pins(file, name, location.size_bytes, location.sha256, otherwise)
    return location


def _location(file: HubFile, *, patient: bool) -> FileLocation:
    cached = _in_cache(file, file.revision)
    try:
        remote = _on_hub(file, patient=patient and cached is None)
    except download_errors() as error:
        if cached is None:
            raise download_failure(file, error) from error
        logger.info(f"Using `{cached.cached_path}`: the Hub did not answer ({type(error).__name__}).")
        return cached
    if cached is not None and cached.sha256 is not None and cached.sha256 == remote.sha256:
        return cached  # the branch has moved since, but not this file
    return _in_cache(file, remote.commit) or remote


def _in_cache(file: HubFile, revision: str) -> FileLocation | None:
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(file.repo, file.filename, revision=revision, repo_type="dataset")
    if not isinstance(cached, str):
        return None
    path = Path(cached)
    return FileLocation(
        file=file,
        commit=path.parents[file.filename.count("/")].name,
        size_bytes=path.stat().st_size,
        sha256=hash_from_cache(path),
        cached_path=path,
    )


def _on_hub(file: HubFile, *, patient: bool) -> FileLocation:
    from huggingface_hub.errors import FileMetadataError

    metadata = _metadata(file, patient=patient)
    commit, etag = metadata.commit_hash or "", metadata.etag or ""
    if not (is_commit(commit) and is_commit(etag)):
        raise FileMetadataError("the server's answer has no valid commit and etag")
    sha256 = etag if _SHA256.fullmatch(etag) else None  # so it is for large files
    return FileLocation(file=file, commit=commit, size_bytes=metadata.size, sha256=sha256, etag=etag)


def _metadata(file: HubFile, *, patient: bool) -> HfFileMetadata:
    """Commit, etag and size of a file, with retries if `patient`."""
    from huggingface_hub import HfApi, constants, get_hf_file_metadata, hf_hub_url

    url = hf_hub_url(file.repo, file.filename, repo_type="dataset", revision=file.revision)
    if "retry_on_errors" in inspect.signature(get_hf_file_metadata).parameters:
        return get_hf_file_metadata(url, retry_on_errors=patient)
    # Up to 0.36, which transformers 4 needs, it always retries for half a minute; this request does not.
    if not patient:
        HfApi().dataset_info(file.repo, revision=file.revision, timeout=constants.HF_HUB_ETAG_TIMEOUT)
    return get_hf_file_metadata(url)


def hash_from_cache(path: Path) -> str | None:
    """The SHA-256, in hex, that the Hub gave for a file in its cache; None if it gave none.

    The cache names a large file's content after its hash and links to it. On systems without links
    (Windows) the hash is not known.
    """
    if not path.is_symlink():
        return None
    name = path.readlink().name  # one link only: the content may itself link to a shared store
    return name if _SHA256.fullmatch(name) else None


def verify(file: HubFile, path: Path, sha256: str | None) -> None:
    """Read the whole file and compare its SHA-256 with the Hub's and with the pinned digits.

    Takes seconds per gigabyte: call it once, right before the file is used.

    Args:
        file: The requested file.
        path: The local file.
        sha256: The hash from `locate`, in hex; None if the Hub gave none.

    Raises:
        DataBroken: The content differs.
    """
    digest = hashlib.sha256()
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK_BYTES):
            digest.update(chunk)
    name, actual = f"The downloaded file `{path}`", digest.hexdigest()
    if sha256 is not None and actual != sha256:
        raise _unexpected_content(name, f"SHA-256 {sha256}", actual, _delete_hint(path))
    _compare_pins(file, name, path.stat().st_size, actual, f"; else {_delete_hint(path)}")


def _compare_pins(file: HubFile, name: str, size_bytes: int | None, sha256: str | None, otherwise: str = "") -> None:
    """Raise, or log, unless size and hash, where known, are the pinned ones.

    `otherwise` ends the hint.
    """
    expected = actual = ""
    if None not in (file.size_bytes, size_bytes) and file.size_bytes != size_bytes:
        expected, actual = f"{file.size_bytes} bytes", f"{size_bytes}"
    elif file.sha256 is not None and sha256 is not None:
        first, last = file.sha256
        if not (sha256.startswith(first) and sha256.endswith(last)):
            expected, actual = f"SHA-256 {first}…{last}", sha256
    if not expected:
        return
    hint = f"if the Hub has another version now, {file.alternative}{otherwise}"
    error = _unexpected_content(name, expected, actual, hint)
    if file.binding:
        raise error
    logger.warning(f"{error}".partition("\n")[0])


def _unexpected_content(name: str, expected: str, actual: str, hint: str) -> DataBroken:
    return DataBroken(f"{name} is not the expected one: expected {expected}, got {actual}.", hint=hint)


def _delete_hint(path: Path) -> str:
    """How to delete the content itself, not only the cache's link to it."""
    return f"delete it and run again: `rm '{path.resolve()}'`"


# Downloading


def install(
    file: HubFile, root: Path, name: str, installer: Callable[[Path, Path, Callable[[Path], None]], object]
) -> str:
    """Store a file as ``<root>/<commit>/<name>``, unless it is there already.

    A file in the Hub's own cache is used from there and stays. Any other is downloaded to
    ``<root>/downloads``, verified, and deleted there after use.

    Args:
        file: The file.
        root: The folder of the dataset.
        name: The name of the destination in the commit's folder.
        installer: `copy_once` or `mmie_tasks.hub.archives.unpack_once`; called with the file, the
            destination and a check of the file. Does nothing if the destination exists.

    Returns:
        The commit.

    Raises:
        DataMissing: The file cannot be downloaded or stored.
        DataBroken: It is not the expected file, or a damaged archive.
    """
    location = locate(file)
    destination, downloads = root / location.commit / name, root / "downloads"
    check = partial(verify, file, sha256=location.sha256)
    if location.cached_path:
        installer(location.cached_path, destination, check)
    else:
        with download_lock(file, downloads):
            if not destination.exists():
                installer(download(location, downloads), destination, check)
            _remove_downloads(file, downloads)
    return location.commit


def copy_once(path: Path, destination: Path, check: Callable[[Path], None]) -> None:
    """Copy a file to `destination` in one step, unless that exists.

    Raises:
        DataMissing: It cannot be written.
    """
    if destination.exists():
        return
    check(path)
    try:
        with atomic_write(destination) as part:
            shutil.copyfile(path, part)
    except OSError as error:
        raise DataMissing(
            f"`{path}` could not be copied to `{destination}`: {error.strerror}.",
            hint="make the folder writable and free some space; `MMIE_TASKS_CACHE` names another",
        ) from error


@contextmanager
def download_lock(file: HubFile, folder: Path) -> Iterator[None]:
    """Let one process at a time download this file and use it.

    Raises:
        DataMissing: `folder` cannot be written.
    """
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(file_lock(folder / f"{_local_name(file)}.lock", f"downloading `{file.filename}`"))
        except OSError as error:
            raise download_failure(file, error, is_downloading=True) from error
        yield


def download(remote: FileLocation, folder: Path) -> Path:
    """Download a file below `folder`, or the rest of it; call it within `download_lock`.

    `huggingface_hub` shows the progress and resumes broken connections. Only the size is compared
    here: see `verify`.

    Returns:
        The complete file, which `install` deletes after use.

    Raises:
        DataMissing: The Hub refuses, the connection fails for good, or the disk is full.
    """
    target = folder / remote.etag / _local_name(remote.file)
    try:
        _remove_downloads(remote.file, folder, keep_etag=remote.etag)
        if not target.is_file():
            target.parent.mkdir(exist_ok=True)
            part = target.with_name(f"{target.name}.part")
            breaks_left = _MAX_BREAKS
            while not _download_rest(part, remote, may_break=breaks_left > 0):
                breaks_left -= 1
            part.replace(target)
    except download_errors() as error:
        raise download_failure(remote.file, error, is_downloading=True) from error
    return target


def _download_rest(part: Path, remote: FileLocation, *, may_break: bool) -> bool:
    """Download the rest of a file; False if it `may_break`, the connection broke, and bytes have arrived."""
    from huggingface_hub import hf_hub_url

    # Both are public, and exported by their modules only.
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    file, size_bytes = remote.file, remote.size_bytes
    resume_bytes = part.stat().st_size if part.is_file() else 0
    if size_bytes is None or resume_bytes > size_bytes:
        resume_bytes = 0
    if resume_bytes:
        logger.info(f"Resuming `{part}` at {resume_bytes:,} of {size_bytes:,} bytes.")
    # From the Hub and at the commit: an address that it redirects to is signed and expires.
    url = hf_hub_url(file.repo, file.filename, repo_type="dataset", revision=remote.commit)
    try:
        with part.open("ab" if resume_bytes else "wb") as content:
            http_get(
                url,
                content,
                resume_size=resume_bytes,
                headers={**build_hf_headers(), "Accept-Encoding": "identity"},  # ranges count raw bytes
                expected_size=size_bytes,
                displayed_filename=file.filename,
            )
    except download_errors() as error:  # huggingface_hub 0.36 does not resume every broken connection
        have_arrived = size_bytes is not None and part.stat().st_size not in (0, resume_bytes)
        if not (may_break and have_arrived) or http_status(error) is not None:
            raise
        return False
    return True


def arrived_bytes(remote: FileLocation, folder: Path) -> int:
    """Bytes of a file that are below `folder` already and will not be downloaded again."""
    target = folder / remote.etag / _local_name(remote.file)
    for path in (target, target.with_name(f"{target.name}.part")):
        if path.is_file():
            size_bytes = path.stat().st_size
            return size_bytes if size_bytes <= (remote.size_bytes or 0) else 0
    return 0


def _remove_downloads(file: HubFile, folder: Path, keep_etag: str = "") -> None:
    """Delete complete and partial downloads of a file, except those of the content with `keep_etag`.

    Call it within `download_lock`. A file that cannot be deleted only takes disk space: that is logged.
    """
    for content_folder in folder.iterdir():
        if content_folder.is_dir() and content_folder.name != keep_etag:
            try:
                for suffix in ("", ".part"):
                    (content_folder / f"{_local_name(file)}{suffix}").unlink(missing_ok=True)
                if not any(content_folder.iterdir()):
                    content_folder.rmdir()
            except OSError as error:
                logger.warning(f"`{content_folder}` could not be deleted: {error}.")


def _local_name(file: HubFile) -> str:
    return file.filename.replace("/", "%2F")
