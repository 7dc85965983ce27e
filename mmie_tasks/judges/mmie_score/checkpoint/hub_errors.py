"""What is said when the checkpoint cannot be had from the Hub."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.sources.hub_file import without_urls

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

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
