"""One file of a dataset on the Hugging Face Hub: where it is, and whether it is that file.

To download it is `mmie_tasks.sources.downloads`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

from mmie_tasks.errors import DataBroken
from mmie_tasks.sources.hub_file import HubFile, download_errors, unanswered

_SHA256 = re.compile(r"[0-9a-f]{64}")
_FOLDER_NAME = re.compile(r"[\w-]{1,128}", re.ASCII)  # what a server may name a folder of ours
_CHUNK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class InCache:
    """A file in the Hub's own cache, which is not ours to delete.

    Attributes:
        path: Where it lies.
        commit: The commit (40 hex digits) it belongs to.
        sha256: Of its content, as the Hub gave it; None where it gave none.
    """

    path: Path
    commit: str
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnHub:
    """A file that the Hub has and this machine's Hub cache has not.

    Attributes:
        file: What was asked for.
        commit: The commit (40 hex digits) it is at.
        etag: The Hub's name for its content; for a large file, its SHA-256.
        size_bytes: Its size, where the Hub says it.
    """

    file: HubFile
    commit: str
    etag: str
    size_bytes: int | None

    @property
    def sha256(self) -> str | None:
        """Of its content, as the Hub gave it; None where it gave none."""
        return self.etag if _SHA256.fullmatch(self.etag) else None


def locate(file: HubFile, *, patient: bool = True) -> InCache | OnHub:
    """Ask the Hub which commit and content a file has, and look for that in the Hub's cache.

    Nothing is downloaded, and no content is read: see `verify`. When the Hub gives no answer, what
    its cache holds for that revision is taken. ``HF_ENDPOINT``, ``HF_HOME``, ``HF_TOKEN`` and
    ``HF_HUB_OFFLINE`` are obeyed by `huggingface_hub` itself; with nothing in the cache it asks a
    Hub that is down (429, 5xx, no connection) five times more.

    Args:
        file: What is wanted.
        patient: Ask a Hub that is down again.

    Raises:
        DataMissing: No access, no such repository, revision or file, or no connection.
        DataBroken: It is not the file that is pinned, by its size or by the hash that the Hub
            gives.
    """
    match found := _look(file, patient=patient):
        case InCache(path=path):
            otherwise = f"; else {_delete(path)}"
            _compare_pins(file, f"`{path}`", path.stat().st_size, found.sha256, otherwise)
        case OnHub():
            name = f"`{file.filename}` of `{file.repo}` at commit {found.commit}"
            _compare_pins(file, name, found.size_bytes, found.sha256)
    return found


def _look(file: HubFile, *, patient: bool) -> InCache | OnHub:
    cached = _in_cache(file, file.revision)
    try:
        there = _ask(file, patiently=patient and cached is None)
    except download_errors() as error:
        if cached is None:
            raise unanswered(file, error) from error
        logger.info(f"Taking `{cached.path}`: the Hub gave no answer ({type(error).__name__}).")
        return cached
    if cached is not None and cached.sha256 is not None and cached.sha256 == there.sha256:
        return cached  # the branch has moved since, but not this file
    return _in_cache(file, there.commit) or there


def _in_cache(file: HubFile, revision: str) -> InCache | None:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(file.repo, file.filename, revision=revision, repo_type="dataset")
    if not isinstance(found, str):
        return None
    path = Path(found)
    commit = path.parents[file.filename.count("/")].name
    return InCache(path=path, commit=commit, sha256=content_hash(path))


def _ask(file: HubFile, *, patiently: bool) -> OnHub:
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import FileMetadataError

    url = hf_hub_url(file.repo, file.filename, repo_type="dataset", revision=file.revision)
    told = get_hf_file_metadata(url, retry_on_errors=patiently)
    commit, etag = told.commit_hash or "", told.etag or ""
    if not (_FOLDER_NAME.fullmatch(commit) and _FOLDER_NAME.fullmatch(etag)):
        raise FileMetadataError("what answers names no commit and content, as a Hub does")
    return OnHub(file=file, commit=commit, etag=etag, size_bytes=told.size)


def content_hash(path: Path) -> str | None:
    """The SHA-256 that the Hub gave for a file in its cache, in hex; None where it gave none.

    The cache names a large file's content after its hash and links to it. Where links are not
    possible (Windows) nothing is known.
    """
    if not path.is_symlink():
        return None
    name = path.readlink().name  # one link only: the content may itself link to a shared store
    return name if _SHA256.fullmatch(name) else None


def verify(file: HubFile, path: Path, sha256: str | None) -> None:
    """Read the whole file and compare its SHA-256 with the Hub's and with the pinned digits.

    Takes seconds per gigabyte: to be called once, right before the file is used.

    Args:
        file: What was asked for.
        path: Where it lies now.
        sha256: What `locate` found, in hex; None where the Hub gave none.

    Raises:
        DataBroken: The content is another.
    """
    digest = hashlib.sha256()
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK_BYTES):
            digest.update(chunk)
    name, got = f"The downloaded file `{path}`", digest.hexdigest()
    if sha256 is not None and got != sha256:
        raise _other_content(name, f"SHA-256 {sha256}", got, _delete(path))
    _compare_pins(file, name, path.stat().st_size, got, f"; else {_delete(path)}")


def _compare_pins(
    file: HubFile, name: str, size_bytes: int | None, sha256: str | None, otherwise: str = ""
) -> None:
    """Raise, or log, unless size and hash, where known, are the pinned ones.

    `otherwise` ends the hint.
    """
    pinned = got = ""
    if None not in (file.size_bytes, size_bytes) and file.size_bytes != size_bytes:
        pinned, got = f"{file.size_bytes} bytes", f"{size_bytes}"
    elif file.sha256 is not None and sha256 is not None:
        first, last = file.sha256
        if not (sha256.startswith(first) and sha256.endswith(last)):
            pinned, got = f"SHA-256 {first}…{last}", sha256
    if not pinned:
        return
    hint = f"if the Hub has another version now, {file.instead}{otherwise}"
    error = _other_content(name, pinned, got, hint)
    if file.binding:
        raise error
    logger.warning(f"{error}".partition("\n")[0])


def _other_content(name: str, expected: str, got: str, hint: str) -> DataBroken:
    return DataBroken(f"{name} is not the expected one: expected {expected}, got {got}.", hint=hint)


def _delete(path: Path) -> str:
    """The content must go, not only the cache's link to it."""
    return f"delete it and run again: `rm '{path.resolve()}'`"
