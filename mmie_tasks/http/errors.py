"""What kind of failure an error of the SDK is: who is to blame and whether to ask again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import openai

from mmie_tasks.http.complaints import Complaint, complaint, scrub
from mmie_tasks.http.rate_limit import exhausted_s, retry_after_s
from mmie_tasks.judges.openai.wire import UnusableBody

Kind = Literal[
    "busy",  # 429: ask again, fewer at once
    "failed",  # 408, 409, 5xx, no connection, an unusable body: ask again
    "timed_out",  # no answer in time: ask again, fewer times
    "setup",  # wrong key, no such model, nothing left to spend: not about this request
    "content",  # the request itself is not taken
]

# What one try may raise. Everything else is a mistake of ours.
TRY_ERRORS = (openai.OpenAIError, asyncio.TimeoutError, UnusableBody, OSError)

_SETUP = (401, 402, 403, 404, 405)
_AGAIN = (408, 409, 425)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Why one try brought no answer.

    Attributes:
        kind: What follows from it.
        why: In words that may be shown.
        wait_s: How long the server asks this request to wait.
        pause_s: How long nothing remains of what may be asked.
        said: The server's error, where it sent one.
    """

    kind: Kind
    why: str
    wait_s: float | None = None
    pause_s: float | None = None
    said: Complaint | None = None


def trouble_of(error: BaseException, secrets: Sequence[str]) -> Trouble:
    """Read one of `TRY_ERRORS`."""
    match error:
        case openai.APIStatusError():
            return _of_status(error, secrets)
        case openai.APITimeoutError() | asyncio.TimeoutError():
            return Trouble(kind="timed_out", why="no answer in time")
        case openai.APIConnectionError():
            cause = error.__cause__ or error
            words = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
            return Trouble(kind="failed", why=scrub(f"no connection ({words})", secrets))
        case _:
            return Trouble(kind="failed", why=scrub(str(error), secrets))


def _of_status(error: openai.APIStatusError, secrets: Sequence[str]) -> Trouble:
    # Not the SDK's reading of the body: it knows one shape of errors only.
    said = complaint(error.status_code, error.response.content, secrets)
    headers = lower(error.response.headers)
    return Trouble(
        kind=_kind(said),
        why=str(said),
        wait_s=retry_after_s(headers, time.time()),
        pause_s=exhausted_s(headers),
        said=said,
    )


def _kind(said: Complaint) -> Kind:
    if said.of_content:
        return "content"
    if said.of_quota or said.of_model or said.status in _SETUP:
        return "setup"
    if said.status == 429:
        return "busy"
    again = said.status in _AGAIN or said.status >= 500 or said.status < 400
    return "failed" if again else "content"


def lower(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers with their names in lower case, from any library."""
    return {name.lower(): value for name, value in headers.items()}
