"""Errors of servers: what one means for a request, in the server's words and without secrets.

An error body is read as text: its messages, wherever they are in it, and the words that tell which
parameter, key or quota it is about. Providers and gateways wrap errors in too many forms to list.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Literal, TypeAlias

FaultKind: TypeAlias = Literal[
    "busy",  # 429: send again, with fewer requests in flight
    "failed",  # 408, 409, 5xx, no connection, an unusable body: send again
    "denied",  # wrong key, unknown model, no credit left: concerns every request
    "rejected",  # the server does not accept this request
]

TIMED_OUT = "no answer in time"
"""The reason of a fault without a response within the client's timeout."""

_MESSAGE_KEYS = (
    *("error", "errors", "data", "message", "msg", "detail"),
    *("loc", "code", "metadata", "raw"),
)
_FILTERED = re.compile(
    r"content_filter|content_policy|responsibleai|data_inspection|moderation_blocked|invalid_prompt",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(r"insufficient_quota|billing|credit", re.IGNORECASE)
_WRONG_KEY = re.compile(
    r"api[ _-]?key\b.{0,20}\b(?:not valid|invalid|incorrect|expired|missing|not found)\b"
    r"|\b(?:invalid|incorrect|expired|missing|no valid) api[ _-]?key\b",
    re.IGNORECASE,
)
_UNSUPPORTED = re.compile(
    r"unsupported|not support|deprecated|unrecogni[sz]ed|unknown|not permitted|unexpected",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"\b(?:sk|hf|gsk|xai|nvapi)[-_][\w*.-]{4,}|\bAIza[\w-]{20,}"
    r"|\b(?i:bearer|basic)\s+[^\s\"',}]{8,}"
)
_CREDENTIALS = re.compile(r"\b(\w{1,20}://)[^\s/@\"']+@")
_WAIT = re.compile(
    r"(?:retry.?(?:delay|in|after)|try again in)[\"'\s:]{0,9}([\d.hms]{1,20})", re.IGNORECASE
)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|$)")
_UNITS_S = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}
_MAX_BYTES, _MAX_CHARACTERS, _MAX_ENTRIES = 2**16, 300, 5
_MAX_READ = 10 * _MAX_CHARACTERS


class Fault(Exception):
    """Why a request brought no reply; its text is for messages.

    Attributes:
        kind: What follows for the request.
        status: HTTP status; 0 without a response.
        body: The body of the error, as text.
        wait_s: The wait in seconds that the server demands; None if it demands none.
    """

    def __init__(
        self,
        kind: FaultKind,
        reason: str,
        *,
        status: int = 0,
        body: str = "",
        wait_s: float | None = None,
    ) -> None:
        super().__init__(reason)
        self.kind, self.status, self.body, self.wait_s = kind, status, body, wait_s

    def rejects(self, *parameters: str) -> str | None:
        """The parameter that the error calls unsupported, if it is one of these patterns.

        The first in the body counts: a second one may be its replacement.
        """
        if self.status not in (400, 404, 422, 501) or not _UNSUPPORTED.search(self.body):
            return None
        match = re.search(rf"\b(?:{'|'.join(parameters)})\b", self.body)
        return match and match.group()


def fault_of(error: Exception, secrets: Sequence[str]) -> Fault:
    """The fault in an exception of the OpenAI SDK, a timeout or an error of the system."""
    import openai  # takes a second

    match error:
        case openai.APIStatusError(response=response):
            body = response.content[:_MAX_BYTES].decode(errors="replace")
            return Fault(
                kind_of(error.status_code, body),
                redact(f"HTTP {error.status_code}: {message_of(body)}".rstrip(": "), secrets),
                status=error.status_code,
                body=body,
                wait_s=demanded_wait_s(response.headers, body),
            )
        case openai.APITimeoutError() | asyncio.TimeoutError():
            return Fault("failed", TIMED_OUT)
    cause = error.__cause__ or error
    text = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
    return Fault("failed", redact(f"no connection ({text})", secrets))


def is_filtered(body: str) -> bool:
    """Whether the body of a response says that a content filter stopped the request."""
    return _FILTERED.search(body) is not None


def kind_of(status: int, body: str) -> FaultKind:
    """What an error response means for its request; `body` is its text."""
    if is_filtered(body):
        return "rejected"
    if status in (401, 402, 403, 404, 405) or (status < 500 and _WRONG_KEY.search(body)):
        return "denied"
    if status == 429:
        return "denied" if _NO_CREDIT.search(body) else "busy"
    return "failed" if status in (408, 409, 425) or status >= 500 else "rejected"


def message_of(body: str) -> str:
    """The messages in an error body; the text of one that is not JSON, without markup.

    >>> message_of('[{"error": {"code": 404, "message": "No.", "status": "NOT_FOUND"}}]')
    'No.'
    >>> message_of("<html><title>502 Bad Gateway</title></html>")
    '502 Bad Gateway'
    """
    texts = dict.fromkeys(_texts(body))
    return " ".join(re.sub(r"<[^<>]*>", " ", "; ".join(texts)).split())


def _texts(value: object) -> list[str]:
    match value:
        case str():
            try:
                parsed = json.loads(value)
            except (ValueError, RecursionError):
                return [value]
            if isinstance(parsed, str):
                return [parsed]
            return _texts(parsed) if isinstance(parsed, (dict, list)) else [value]
        case list():
            return [text for entry in value[:_MAX_ENTRIES] for text in _texts(entry)]
        case dict():
            return [text for key in _MESSAGE_KEYS if key in value for text in _texts(value[key])]
    return []


def demanded_wait_s(headers: Mapping[str, str], body: str = "") -> float | None:
    """The wait in seconds that a response demands; None if it demands none.

    In order: ``retry-after-ms`` and ``Retry-After`` (seconds or a date), Gemini's ``retryDelay``,
    and the words of OpenAI and Groq.

    >>> demanded_wait_s({"retry-after": "2"}), demanded_wait_s({}, "Try again in 6m0s.")
    (2.0, 360.0)
    """
    after = headers.get("retry-after", "")
    for text, unit_s in ((headers.get("retry-after-ms", ""), 0.001), (after, 1.0)):
        if re.fullmatch(r"\d{1,9}(?:\.\d+)?", text):
            return float(text) * unit_s
    try:
        return max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        match = _WAIT.search(body)
    parts = _PART.findall(match[1].rstrip(".")) if match else []
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts) or None


def redact(text: str, secrets: Sequence[str] = ()) -> str:
    """The first 300 characters of a server's message, without keys and passwords.

    >>> redact("wrong key sk-abcdef123 at http://me:word@host/v1")
    'wrong key … at http://host/v1'
    """
    text = text[:_MAX_READ]
    for secret in secrets:
        if len(secret) >= 6:  # a shorter one is a stand-in: without each `x`, nothing is readable
            text = text.replace(secret, "…")
    text = _CREDENTIALS.sub(r"\1", _KEY.sub("…", text))
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…"
