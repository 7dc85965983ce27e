"""One file of a dataset on the Hugging Face Hub: where it is, and whether it is that file.

To download it is `mmie_tasks.hub.download`.
"""

from __future__ import annotations

import errno
import hashlib
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.core.files import file_lock

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError


# A file that is wanted from the Hub, and what is said when it cannot be had.

_URL = re.compile(r"(https?://)[^\s/'\"]+\S*")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """A file in a dataset repository, and what is known of its content beforehand.

    Attributes:
        repo: Owner and name, ``FreedomIntelligence/MileBench``.
        filename: Path inside the repository.
        revision: Branch, tag or commit.
        size_bytes: Its exact size, where known.
        sha256: The first and the last hex digits of its SHA-256, as many of each as are known.
        binding: Whether another size or hash is an error; else it is logged.
        instead: What a reader can do when it cannot be had, in words; it ends the hints.
    """

    repo: str
    filename: str
    revision: str = "main"
    size_bytes: int | None = None
    sha256: tuple[str, str] | None = None
    binding: bool = True
    instead: str


def download_errors() -> tuple[type[BaseException], ...]:
    """What asking and downloading raise, for every HTTP library huggingface_hub was built on.

    A refused connection is no OSError in httpx and httpx2; their base class is found as the base of
    the Hub's own. huggingface_hub 1 closes its client when it cannot connect, and the next try is a
    RuntimeError.
    """
    from huggingface_hub.errors import HfHubHTTPError

    return (OSError, RuntimeError, *HfHubHTTPError.__bases__)


def unanswered(file: HubFile, error: BaseException) -> DataMissing:
    """The error for a file that the Hub was asked for, and did not tell where it is."""
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    match error:
        case HfHubHTTPError():
            return missing(file, *said_by_the_hub(file, error))
        case OfflineModeIsEnabled():
            why = "downloads are switched off (`HF_HUB_OFFLINE`)"
        case _:
            why = f"the Hub cannot be reached ({type(error).__name__}: {without_urls(error)})"
    hint = "connect, or copy the cache (`HF_HOME`) from a machine that has the file"
    return missing(file, f"it is not in the Hub's cache and {why}", hint)


def missing(file: HubFile, found: str, hint: str) -> DataMissing:
    """An error that names the file, what was `found`, and two ways out."""
    where = f"`{file.filename}` of the dataset `{file.repo}`"
    return DataMissing(f"{where} cannot be had: {found}.", hint=f"{hint}, or {file.instead}")


def said_by_the_hub(file: HubFile, error: HfHubHTTPError) -> tuple[str, str]:
    """What was found when the Hub refused, and what helps."""
    from huggingface_hub import errors as hub

    page = f"https://huggingface.co/datasets/{file.repo}"
    answered = f"the Hub answered HTTP {error.response.status_code}"
    match error:
        case hub.GatedRepoError():
            found = f"the dataset is gated and {answered}"
            return found, f"accept the terms on {page}, then `hf auth login`"
        case hub.RepositoryNotFoundError():
            found = f"{answered}: no such dataset, or not for this account"
            return found, f"`hf auth login` with an account that may open {page}"
        case hub.RevisionNotFoundError():
            found = f"there is no revision `{file.revision}`"
            return found, f"name a branch, tag or commit listed on {page}/commits"
        case hub.EntryNotFoundError():
            found = f"there is no such file at revision `{file.revision}`"
            return found, f"look for it on {page}/tree/{file.revision}"
        case _:
            return answered, "try again later"


def without_urls(error: BaseException) -> str:
    """The first line, no address in full: a signed one is a key."""
    first_line = (str(error).splitlines() or [""])[0]
    return _URL.sub(r"\1…", first_line)


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


# Downloading a file from the Hub so that a killed download goes on where it stopped.
#
# `huggingface_hub` 2 takes a broken connection up within one call, and begins anew in the next
# process. Here what has arrived stays, below a folder of ours::
#
#     <etag>/<filename>.part      unfinished; the next process asks for the rest
#     <etag>/<filename>           whole, and not unpacked yet
#     <filename>.lock             held by the one process that downloads and unpacks
#
# The etag names the content: a file that has changed on the Hub begins at zero, and what there was
# of the older one is removed.

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NO_RIGHT = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def turn(file: HubFile, folder: Path) -> Iterator[None]:
    """Be the one process that downloads this file and uses it; others wait here.

    Raises:
        DataMissing: `folder` cannot be written.
    """
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = file_lock(folder / f"{_name(file)}.lock", f"downloading `{file.filename}`")
            stack.enter_context(lock)
        except OSError as error:
            raise _broken_off(file, error) from error
        yield


def download(found: OnHub, folder: Path) -> Path:
    """Download a file below `folder`, or the rest of it; to be called within its `turn`.

    Progress is shown, and a connection that breaks is taken up, by `huggingface_hub`. Only the size
    is compared here: see `mmie_tasks.hub.download.verify`.

    Returns:
        The whole file, which is `remove`'s to delete once it has served.

    Raises:
        DataMissing: The Hub refuses, the connection is lost for good, or `folder` has no room.
    """
    whole = folder / found.etag / _name(found.file)
    try:
        remove(found.file, folder, but=found.etag)
        if not whole.is_file():
            whole.parent.mkdir(exist_ok=True)
            part = whole.with_name(f"{whole.name}.part")
            _complete(part, found)
            part.replace(whole)
    except download_errors() as error:
        raise _broken_off(found.file, error) from error
    return whole


def _complete(part: Path, found: OnHub) -> None:
    from huggingface_hub import hf_hub_url

    # Both are public, and exported by their modules only.
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    file, size_bytes = found.file, found.size_bytes
    there = part.stat().st_size if part.is_file() else 0
    if size_bytes is None or there > size_bytes:
        there = 0
    if there:
        logger.info(f"Going on with `{part}`: {there:,} of {size_bytes:,} bytes are there.")
    # Asked for at its commit, and from the Hub: an address it forwards to is signed and expires.
    url = hf_hub_url(file.repo, file.filename, repo_type="dataset", revision=found.commit)
    with part.open("ab" if there else "wb") as content:
        http_get(
            url,
            content,
            resume_size=there,
            headers={**build_hf_headers(), "Accept-Encoding": "identity"},  # ranges count raw bytes
            expected_size=size_bytes,
            displayed_filename=file.filename,
        )


def arrived_bytes(found: OnHub, folder: Path) -> int:
    """How much of a file is below `folder` already, and will not be downloaded again."""
    whole = folder / found.etag / _name(found.file)
    for path in (whole, whole.with_name(f"{whole.name}.part")):
        if path.is_file():
            there = path.stat().st_size
            return there if there <= (found.size_bytes or 0) else 0
    return 0


def remove(file: HubFile, folder: Path, but: str = "") -> None:
    """Delete what was downloaded of a file, whole or in part; to be called within its `turn`.

    What cannot be deleted only takes room: that is logged, and nothing is raised.

    Args:
        file: What was asked for.
        folder: As for `download`.
        but: The etag of the content to keep, if any.
    """
    for content in folder.iterdir():
        if content.is_dir() and content.name != but:
            try:
                _clear(content, _name(file))
            except OSError as error:
                logger.warning(f"`{content}` is no longer needed and stays: {error}.")


def _clear(content: Path, name: str) -> None:
    for path in (content / name, content / f"{name}.part"):
        path.unlink(missing_ok=True)
    if not any(content.iterdir()):
        content.rmdir()


def _name(file: HubFile) -> str:
    return file.filename.replace("/", "%2F")


def _broken_off(file: HubFile, error: BaseException) -> DataMissing:
    from huggingface_hub.errors import HfHubHTTPError

    elsewhere = "or set `MMIE_TASKS_CACHE` to a folder"
    match error:
        case HfHubHTTPError():
            return missing(file, *said_by_the_hub(file, error))
        case OSError(errno=number) if number in _NO_ROOM:
            return missing(file, "the disk is full", f"make room, {elsewhere} on a bigger disk")
        case OSError(errno=number, filename=str(path)) if number in _NO_RIGHT:
            hint = f"make it writable, {elsewhere} that is"
            return missing(file, f"`{path}` cannot be written ({error.strerror})", hint)
        case _:
            found = f"the download failed: {type(error).__name__}: {without_urls(error)}"
            return missing(file, found, "run again: it goes on where it stopped")
