"""Explains failures of the Hugging Face Hub: why it could not be used, and what helps."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mmie_tasks.core.errors import first_line

RepositoryKind: TypeAlias = Literal["dataset", "model"]

_NOT_WRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)
_URL = re.compile(r"(https?://)[^\s/'\"]+\S*")  # shortened: a signed one gives access to a file


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a repository could not be used, as a clause without a full stop, and a hint."""

    reason: str
    hint: str


def download_errors() -> tuple[type[BaseException], ...]:
    """What `huggingface_hub` raises, with each HTTP library that it has used.

    httpx raises errors that are not OSErrors; their base class is also the base of the Hub's own
    errors. huggingface_hub 1 closes its client when it cannot connect, and the next call raises
    RuntimeError. Its client raises ImportError for a SOCKS proxy without the package ``socksio``.
    """
    from huggingface_hub.errors import HfHubHTTPError

    return (OSError, RuntimeError, ImportError, *HfHubHTTPError.__bases__)


def connection_problem(error: BaseException) -> str:
    """Why a server could not be reached: the system's own error, which HTTP libraries wrap.

    >>> connection_problem(OSError("Cannot connect to https://host/file?signature=secret"))
    'Cannot connect to https://…'
    """
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    first = (str(error).splitlines() or [""])[0]
    return _URL.sub(r"\1…", first) or type(error).__name__


def explain(
    error: BaseException, *, repo: str, revision: str, kind: RepositoryKind = "dataset"
) -> Explanation:
    """Why the Hub could not be used, and what helps; the error is one of `download_errors`."""
    from huggingface_hub import errors as hub

    if isinstance(error, hub.LocalEntryNotFoundError) and error.__cause__ is not None:
        error = error.__cause__  # why the Hub was not asked, or did not answer
    page = f"https://huggingface.co/{'datasets/' if kind == 'dataset' else ''}{repo}"
    status = getattr(getattr(error, "response", None), "status_code", None)
    login = f"`hf auth login` with an account that may open {page}"
    copy = "copy the cache (`HF_HOME`) from a machine that has the file"
    match error:
        case hub.GatedRepoError():
            why = f"the {kind} is gated and the Hub answered HTTP {status}"
            return Explanation(why, f"accept the terms on {page}, then `hf auth login`")
        case hub.RepositoryNotFoundError():
            why = f"the Hub answered HTTP {status}: no such {kind}, or no access for this account"
            return Explanation(why, login)
        case hub.RevisionNotFoundError():
            why = f"there is no revision `{revision}`"
            return Explanation(why, f"name a branch, tag or commit listed on {page}/commits")
        case hub.EntryNotFoundError() if status:
            why = f"there is no such file at revision `{revision}`"
            return Explanation(why, f"look for it on {page}/tree/{revision}")
        case hub.OfflineModeIsEnabled():
            why = "it is not in the Hub's cache and downloads are switched off (`HF_HUB_OFFLINE`)"
            return Explanation(why, f"connect, or {copy}")
        case ImportError():
            return Explanation(first_line(error).rstrip("."), "`pip install socksio`")
        case OSError(errno=number) if number in _NOT_WRITABLE:
            hint = "free some space, or set `HF_HOME` to a folder that can be written"
            return Explanation(f"it cannot be written ({error})", hint)
        case _ if status:  # of `HfHubHTTPError`, or in huggingface_hub 0.36 of `requests`
            return Explanation(f"the Hub answered HTTP {status}", f"try again later, or {login}")
    why = f"the Hub cannot be reached, or the download failed: {connection_problem(error)}"
    return Explanation(why, f"run again, or {copy}")
