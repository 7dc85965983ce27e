"""A file that is wanted from the Hub, and what is said when it cannot be had."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmie_tasks.errors import DataMissing

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

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
