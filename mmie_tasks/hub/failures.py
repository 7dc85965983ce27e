"""Explains failures of the Hugging Face Hub: why it could not be used, and what helps."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

RepositoryKind: TypeAlias = Literal["dataset", "model"]

_NOT_WRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)
_URL = re.compile(r"(https?://)[^\s/'\"]+\S*")  # shortened: a signed one gives access to a file


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a repository could not be used, as a clause without a full stop, and a hint."""

    reason: str
    hint: str


def download_errors() -> tuple[type[BaseException], ...]:
    """What `huggingface_hub` raises, with each HTTP library that it has used.

    httpx raises errors that are not OSErrors; their base class is also the base of the Hub's own
    errors. huggingface_hub 1 closes its client when it cannot connect, and the next call raises
    RuntimeError.
    """
    from huggingface_hub.errors import HfHubHTTPError

    return (OSError, RuntimeError, *HfHubHTTPError.__bases__)


def connection_problem(error: BaseException) -> str:
    """Why a server could not be reached: the system's own error, which HTTP libraries wrap."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    first = (str(error).splitlines() or [""])[0]
    return _URL.sub(r"\1…", first) or type(error).__name__


def explain(
    error: BaseException,
    *,
    repo: str,
    revision: str,
    kind: RepositoryKind = "dataset",
    is_downloading: bool = False,
) -> Explanation:
    """Why the Hub could not be used, and what helps; the error is one of `download_errors`."""
    from huggingface_hub.errors import LocalEntryNotFoundError, OfflineModeIsEnabled

    if isinstance(error, LocalEntryNotFoundError) and error.__cause__ is not None:
        # The cause is why the Hub was not asked, or did not answer.
        error, is_downloading = error.__cause__, False
    hint = "connect, or copy the cache (`HF_HOME`) from a machine that has the file"
    if (status := _http_status(error)) is not None:
        return _explain_refusal(error, status, repo=repo, revision=revision, kind=kind)
    match error:
        case OfflineModeIsEnabled():
            why = "it is not in the Hub's cache and downloads are switched off (`HF_HUB_OFFLINE`)"
        case OSError(errno=number) if number in _NOT_WRITABLE:
            why = f"it cannot be written ({error})"
            hint = "free some space, or set `HF_HOME` to a folder that can be written"
        case _ if is_downloading:
            why, hint = (f"the download failed: {connection_problem(error)}", "run again")
        case _:
            why = (
                "it is not in the Hub's cache and the Hub cannot be reached: "
                f"{connection_problem(error)}"
            )
    return Explanation(reason=why, hint=hint)


def _http_status(error: BaseException) -> int | None:
    """The status with which the Hub refused a request; None if the error is of another kind."""
    match error:  # an `HfHubHTTPError`, or in huggingface_hub 0.36 an error of `requests`
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
