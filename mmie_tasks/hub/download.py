"""Downloads of single files from dataset repositories on the Hugging Face Hub.

`huggingface_hub` downloads, with progress, retries and offline mode. A file in its own cache is
used from there. Any other is downloaded to a folder of ours, because it is deleted once it is
unpacked or copied; `install` does all of it. A killed download starts over.
"""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from loguru import logger

from mmie_tasks.core.errors import DataBroken, DataMissing, first_line
from mmie_tasks.core.files import atomic_write, file_lock

RepositoryKind: TypeAlias = Literal["dataset", "model"]

_NOT_WRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)

_URL = re.compile(r"(https?://)[^\s/'\"]+\S*")
_REVISION = re.compile(r"[\w][\w.\-/]*", re.ASCII)
_COMMIT = re.compile(r"[\w-]{1,128}", re.ASCII)  # also a safe name of a folder


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """A file in a dataset repository.

    ``alternative`` is what users can do if the download fails: the end of every hint.
    """

    repo: str
    filename: str
    revision: str = "main"
    alternative: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLocation:
    """Where a file is: in the Hub's own cache on this machine, or on the Hub alone.

    ``cached_path`` is in the Hub's cache, from which we delete nothing; None if it is not there.
    ``size_bytes`` is None if the Hub gives none.
    """

    commit: str
    size_bytes: int | None
    cached_path: Path | None = None


# Errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a repository could not be used, as a clause without a full stop, and a hint."""

    reason: str
    hint: str


def download_errors() -> tuple[type[BaseException], ...]:
    """What `huggingface_hub` raises, for every HTTP library that it has been built on.

    A refused connection is no OSError in httpx; the base class of its errors is found as the base
    of the Hub's own. huggingface_hub 1 closes its client when it cannot connect, and the next call
    raises RuntimeError.
    """
    from huggingface_hub.errors import HfHubHTTPError

    return (OSError, RuntimeError, *HfHubHTTPError.__bases__)


def without_urls(error: BaseException) -> str:
    """The first line of an error, with shortened URLs: a signed URL gives access to a file."""
    return _URL.sub(r"\1…", first_line(error))


def connection_problem(error: BaseException) -> str:
    """Why a server could not be reached: the first error in the chain of causes.

    That is the system's own ("Connection refused"); HTTP libraries wrap it in theirs.
    """
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return without_urls(error)


def explain(
    error: BaseException,
    *,
    repo: str,
    revision: str,
    kind: RepositoryKind = "dataset",
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
        case OSError(errno=number) if number in _NOT_WRITABLE:
            why = f"it cannot be written ({error})"
            hint = f"free some space, or set `{storage}` to a folder that can be written"
        case _ if is_downloading:
            why, hint = (f"the download failed: {connection_problem(error)}", "run again")
        case _:
            why = (
                "it is not in the Hub's cache and the Hub cannot be reached: "
                f"{connection_problem(error)}"
            )
    return Explanation(reason=why, hint=hint)


def http_status(error: BaseException) -> int | None:
    """The status with which the Hub refused a request; None if the error is of another kind.

    Not every such error is an `HfHubHTTPError`: huggingface_hub 0.36 also lets those of `requests`
    through.
    """
    match error:
        case object(response=object(status_code=int(status))):
            return status
    return None


def _explain_refusal(
    error: BaseException, status: int, *, repo: str, revision: str, kind: RepositoryKind
) -> Explanation:
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


def download_failure(
    file: HubFile, error: BaseException, *, is_downloading: bool = False
) -> DataMissing:
    """The error for a file that could not be located or downloaded; see `explain`."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    if isinstance(error, LocalEntryNotFoundError) and error.__cause__ is not None:
        error = error.__cause__  # why the Hub was not asked, or did not answer
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


# Locating


def locate(file: HubFile) -> FileLocation:
    """Ask the Hub once for the commit and size of a file, and look for it in the Hub's cache.

    Nothing is downloaded. If the Hub does not answer, its cache's file of that revision is used.
    ``HF_ENDPOINT``, ``HF_HOME``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE`` are read by `huggingface_hub`
    itself, which retries a Hub that is down only up to its version 0.36.

    Raises:
        DataMissing: No access, no such repository, revision or file, or no connection.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import FileMetadataError

    url = hf_hub_url(file.repo, file.filename, repo_type="dataset", revision=file.revision)
    try:
        metadata = get_hf_file_metadata(url)
        commit = metadata.commit_hash or ""
        if not is_commit(commit):
            raise FileMetadataError("the server's answer has no valid commit")
    except download_errors() as error:
        if (cached := _in_cache(file, file.revision)) is None:
            raise download_failure(file, error) from error
        logger.info(
            f"Using `{cached.cached_path}`: the Hub did not answer ({type(error).__name__})."
        )
        return cached
    return _in_cache(file, commit) or FileLocation(commit=commit, size_bytes=metadata.size)


def _in_cache(file: HubFile, revision: str) -> FileLocation | None:
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(
        file.repo, file.filename, revision=revision, repo_type="dataset"
    )
    if not isinstance(cached, str):
        return None
    path = Path(cached)
    commit = path.parents[file.filename.count("/")].name
    return FileLocation(commit=commit, size_bytes=path.stat().st_size, cached_path=path)


# Downloading


def install(file: HubFile, root: Path, name: str, installer: Callable[[Path, Path], object]) -> str:
    """Store a file as ``<root>/<commit>/<name>``, unless it is there already.

    One process downloads; others that need the same file wait.

    Args:
        file: The file.
        root: The folder of the dataset.
        name: The name of the destination in the commit's folder.
        installer: `copy_once` or `mmie_tasks.hub.archives.unpack_once`; called with the file and
            the destination.

    Returns:
        The commit.

    Raises:
        DataMissing: The file cannot be downloaded or stored.
        DataBroken: Its content cannot be used; what was downloaded is deleted.
    """
    location = locate(file)
    destination = root / location.commit / name
    folder = root / "downloads" / file.filename.replace("/", "%2F")
    try:
        if location.cached_path:
            installer(location.cached_path, destination)
            return location.commit
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock_file = folder.with_name(f"{folder.name}.lock")
        with file_lock(lock_file, f"downloading `{file.filename}`"):
            try:
                if not destination.exists():
                    installer(_download(file, location.commit, folder), destination)
            except DataBroken:  # after another error, such as a full disk, the next run uses it
                shutil.rmtree(folder, ignore_errors=True)
                raise
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise download_failure(file, error, is_downloading=True) from error
    return location.commit


def copy_once(path: Path, destination: Path) -> None:
    """Copy a file to `destination` in one step, unless that exists."""
    if not destination.exists():
        with atomic_write(destination) as part:
            shutil.copyfile(path, part)


def _download(file: HubFile, commit: str, folder: Path) -> Path:
    """Download a file into `folder`, unless a killed process has left it there, complete."""
    from huggingface_hub import hf_hub_download

    if not (folder / file.filename).is_file():
        shutil.rmtree(folder, ignore_errors=True)  # what a killed download has left
    try:
        return Path(
            hf_hub_download(
                file.repo, file.filename, repo_type="dataset", revision=commit, local_dir=folder
            )
        )
    except download_errors() as error:
        raise download_failure(file, error, is_downloading=True) from error
