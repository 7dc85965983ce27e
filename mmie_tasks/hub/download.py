"""Downloads of single files from dataset repositories on the Hugging Face Hub.

`huggingface_hub` downloads, with progress, retries and offline mode. A file in its own cache is
used from there. Any other is downloaded to a folder of ours, because it is deleted once it is
unpacked or copied; `install` does all of it. A killed download starts over.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.core.files import atomic_write, file_lock
from mmie_tasks.hub.failures import download_errors, explain
from mmie_tasks.hub.revisions import is_commit


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
