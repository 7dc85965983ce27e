"""Where the checkpoint is: a local folder, or the Hub's cache, downloaded first if need be.

Below `mmie_tasks.core.paths.cache_dir` there is then::

    mmie_score/commits/<owner>--<name>@<what was asked>.txt       the commit, in words

So the branch is looked up once, and every later run judges with the same weights; to follow a
branch that has moved, delete the text file. Files themselves lie in the Hub's own cache.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from mmie_tasks.core.files import atomic_write, file_lock
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.hub.download import download_errors, without_urls
from mmie_tasks.judges.base import JudgeMisconfigured

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError


# What is said when the checkpoint cannot be had from the Hub.

_INSTEAD = "or set `model=` to a folder with the checkpoint"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NO_RIGHT = (errno.EACCES, errno.EPERM, errno.EROFS)


def not_had(repo: str, revision: str, error: BaseException) -> JudgeMisconfigured:
    """The error for a repository that could not be downloaded, and two ways out."""
    found, hint = _said(repo, revision, error)
    return JudgeMisconfigured(
        f"The judge's checkpoint `{repo}` cannot be had: {found}.", hint=f"{hint}, {_INSTEAD}"
    )


def not_written(folder: Path, error: OSError) -> JudgeMisconfigured:
    """The error for a cache of ours that cannot be written."""
    return JudgeMisconfigured(
        f"`{folder}` cannot be written: {error.strerror or error}.",
        hint="make room, or set `MMIE_TASKS_CACHE` to a folder that can be written",
    )


def _said(repo: str, revision: str, error: BaseException) -> tuple[str, str]:
    """What was found, and what helps."""
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, OfflineModeIsEnabled

    match error:
        case HfHubHTTPError():
            return _said_by_the_hub(repo, revision, error)
        case OfflineModeIsEnabled() | EntryNotFoundError():
            if isinstance(error.__cause__, HfHubHTTPError):
                return _said_by_the_hub(repo, revision, error.__cause__)
            found = f"revision `{revision}` is not in the Hub's cache, and the Hub gave no answer"
            hint = "connect (with `HF_HUB_OFFLINE` unset), or copy the cache (`HF_HOME`)"
            return f"{found} ({without_urls(error.__cause__ or error)})", hint
        case OSError(errno=number) if number in _NO_ROOM:
            return "the disk is full", "make room for 9 GB, or point `HF_HOME` to a bigger disk"
        case OSError(errno=number, filename=str(path)) if number in _NO_RIGHT:
            found = f"`{path}` cannot be written ({error.strerror})"
            return found, "point `HF_HOME` to a folder that can be written"
        case _:
            found = f"the download failed ({type(error).__name__}: {without_urls(error)})"
            return found, "run again: files that are complete are kept"


def _said_by_the_hub(repo: str, revision: str, error: HfHubHTTPError) -> tuple[str, str]:
    from huggingface_hub import errors as hub

    page = f"https://huggingface.co/{repo}"
    answered = f"the Hub answered HTTP {error.response.status_code}"
    match error:
        case hub.GatedRepoError():
            found = f"it is gated and {answered}"
            return found, f"accept the terms on {page}, then `hf auth login`"
        case hub.RepositoryNotFoundError():
            found = f"{answered}: no such repository, or not for this account"
            return found, f"`hf auth login` with an account that may open {page}"
        case hub.RevisionNotFoundError():
            found = f"there is no revision `{revision}`"
            return found, f"name a branch, tag or commit listed on {page}/commits"
        case _ if error.response.status_code in (401, 403):
            return answered, f"`hf auth login` with an account that may open {page}"
        case _:
            return answered, "try again later"


DEFAULT_MODEL = "MMIE/MMIE-Score"
LOCAL = "local folder"

# `conversation.py` is read as text; no other program, and no pickle, is wanted.
WANTED = (
    *("*.safetensors", "model.safetensors.index.json", "config.json", "generation_config.json"),
    *("conversation.py", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json"),
    "added_tokens.json",
)
BELOW = "*/*"  # states of a training, other formats

_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
_REVISION = re.compile(r"[\w][\w.\-/]*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Where a checkpoint is.

    Attributes:
        folder: With its files.
        name: For people: ``MMIE/MMIE-Score@<commit>``, or ``local folder``.
    """

    folder: Path
    name: str


def locate(model: str, revision: str | None, environment: Mapping[str, str]) -> Located:
    """Find the checkpoint, and download it where it is on the Hub and not on this machine.

    ``HF_ENDPOINT``, ``HF_HOME``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE`` are obeyed by
    `huggingface_hub` itself.

    Args:
        model: A folder, or a repository on the Hub. What begins with ``/``, ``.`` or ``~`` is a
            folder, and so is what exists as one.
        revision: Branch, tag or commit of the repository; None for ``main``.
        environment: What `mmie_tasks.core.paths.cache_dir` reads.

    Raises:
        JudgeMisconfigured: No such folder or repository, no access, no connection, or no room.
    """
    folder = Path(model).expanduser() if model.startswith("~") else Path(model)
    if model and (model[0] in "/.~" or folder.is_dir()):
        return _local(model, folder, revision)
    if not _REPOSITORY.fullmatch(model):
        raise JudgeMisconfigured(
            f"`model={model}` is no folder, and no repository on the Hub either.",
            hint=f"name a folder, or a repository as `owner/name`; the judge's is {DEFAULT_MODEL}",
        )
    return _on_hub(model, revision or "main", environment)


def _local(model: str, folder: Path, revision: str | None) -> Located:
    if not folder.is_dir():
        found = "a file" if folder.exists() else "not there"
        raise JudgeMisconfigured(
            f"`model={model}` names a folder, and `{folder.absolute()}` is {found}.",
            hint="point it at the folder with `config.json` and the `*.safetensors` files",
        )
    if revision is not None:
        raise JudgeMisconfigured(
            f"`revision={revision}` was asked of the folder `{folder}`, which has none.",
            hint="leave `revision=` out, or name the repository on the Hub as `model=`",
        )
    return Located(folder=folder.absolute(), name=LOCAL)


def _on_hub(repo: str, asked: str, environment: Mapping[str, str]) -> Located:
    if ".." in asked or not _REVISION.fullmatch(asked):
        raise JudgeMisconfigured(
            f"`revision={asked}` is no branch, tag or commit.",
            hint=f"name one that is listed on https://huggingface.co/{repo}/commits",
        )
    if _COMMIT.fullmatch(asked):
        return _downloaded(repo, asked)
    name = f"{repo.replace('/', '--')}@{asked.replace('/', '%2F')}"
    note = cache_dir(environment).absolute() / "mmie_score/commits" / f"{name}.txt"
    commit = _noted(note)
    if commit:
        logger.info(f"`{repo}`: commit {commit}, as noted for `{asked}` in `{note}`.")
        return _downloaded(repo, commit)
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(note.with_suffix(".lock"), f"downloading `{repo}`"):
            found = _downloaded(repo, _noted(note) or asked)
            with atomic_write(note) as unfinished:
                unfinished.write_text(f"{found.folder.name}\n", encoding="ascii")
    except OSError as error:
        raise not_written(note.parent, error) from error
    logger.info(f"`{repo}`: `{asked}` is commit {found.folder.name}, from now on; see `{note}`.")
    return found


def _noted(note: Path) -> str:
    """The commit in a note; empty where there is none, or no commit in it."""
    if not note.is_file():
        return ""
    commit = note.read_text(encoding="ascii", errors="replace").strip()
    return commit if _COMMIT.fullmatch(commit) else ""


def _downloaded(repo: str, revision: str) -> Located:
    """The Hub's snapshot of that revision, complete."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import EntryNotFoundError

    failures: tuple[type[BaseException], ...] = (
        *download_errors(),
        EntryNotFoundError,
        ValueError,
    )
    try:
        snapshot = snapshot_download(
            repo, revision=revision, allow_patterns=list(WANTED), ignore_patterns=[BELOW]
        )
    except failures as error:
        raise not_had(repo, revision, error) from error
    folder = Path(snapshot)
    return Located(folder=folder, name=f"{repo}@{folder.name}")


# A checkpoint on the Hub, looked at before it is downloaded.

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """What this machine has not.

    Attributes:
        commit: That the Hub has, of the revision that was asked for.
        size_bytes: File to its size; None where the Hub does not tell it.
    """

    commit: str
    size_bytes: Mapping[str, int | None]


def is_repository(model: str) -> bool:
    """Whether it is looked for on the Hub; see `locating.locate`."""
    return model[:1] not in "/.~" and not Path(model).is_dir() and model.count("/") == 1


def lacking(repo: str, revision: str) -> Lacking:
    """Size of each file that this machine has not; asks for one file, so that a gate is met.

    Raises:
        OSError: One of `download_errors`: the Hub refuses, or gives no answer.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url, snapshot_download

    from mmie_tasks.judges.mmie_score.checkpoint.files import CONFIG

    told = get_hf_file_metadata(hf_hub_url(repo, CONFIG, revision=revision), timeout=_TIMEOUT_S)
    files = snapshot_download(
        repo,
        revision=revision,
        allow_patterns=list(WANTED),
        ignore_patterns=[BELOW],
        dry_run=True,
    )
    listed = files if isinstance(files, list) else []
    sizes = {file.filename: file.file_size for file in listed if file.will_download}
    return Lacking(commit=told.commit_hash or revision, size_bytes=sizes)


def in_cache(repo: str, revision: str) -> Located | None:
    """The snapshot in the Hub's cache.

    `huggingface_hub` refuses one that it knows to lack files, of those that are wanted; it may not
    know.
    """
    from huggingface_hub import snapshot_download

    try:
        snapshot = snapshot_download(
            repo,
            revision=revision,
            allow_patterns=list(WANTED),
            ignore_patterns=[BELOW],
            local_files_only=True,
        )
    except download_errors():
        return None
    folder = Path(snapshot)
    return Located(folder=folder, name=f"{repo}@{folder.name}")
