"""Errors of servers: what an error response means, without secrets, and unusable bodies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mmie_tasks.http.error_body import read_error_body

_FILTER_CODES = (
    "content_filter",
    "content_policy_violation",
    "responsibleaipolicyviolation",
    "invalid_prompt",
    "moderation_blocked",
    "data_inspection_failed",
)
_PARAMETER_CODES = ("unsupported_parameter", "unsupported_value", "unknown_parameter")
_UNSUPPORTED = re.compile(
    r"unsupported|not support|deprecated|unrecogni[sz]ed|unknown|not permitted|unexpected",
    re.IGNORECASE,
)
_PARAMETERS = re.compile(
    r"\b(?:max_tokens|max_completion_tokens|temperature|response_format|seed)\b"
)
_WRONG_KEY = re.compile(
    r"\bapi[ _-]?key\b.{0,20}\b(?:not valid|invalid|incorrect|expired|missing|not found)\b"
    r"|\b(?:invalid|incorrect|expired|missing|no valid) api[ _-]?key\b",
    re.IGNORECASE,
)
_KEY = re.compile(
    r"\b(?:sk|pk|rk|hf|gsk|xai|nvapi)[-_][\w*.-]{4,}|\bAIza[\w-]{20,}|\b(?i:bearer|basic)\s+[^\s\"',}]{8,}"
)
_CREDENTIALS = re.compile(r"(\w+://)[^\s/@\"']+@")
_MAX_CHARACTERS = 200
_MAX_READ = 2_000  # characters of a message in which keys are looked for
_SECRET_CHARACTERS = 6  # a shorter value is a version or a stand-in for a key: `x`, `none`, `EMPTY`


class UnusableBody(Exception):
    """A response breaks the API's promise. A retry may help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerError:
    """An error response. All texts may be empty."""

    status: int  # of HTTP
    code: str = ""  # the provider's, in lower case: `insufficient_quota`
    param: str = ""  # the parameter that the error is about
    message: str = ""  # the server's, cut to 200 characters, without keys

    def __str__(self) -> str:
        code = f" ({self.code})" if self.code else ""
        param = f" (`{self.param}`)" if self.param and self.param not in self.message else ""
        return f"HTTP {self.status}{code}" + (f": {self.message}" if self.message else "") + param

    @property
    def cause(self) -> str:
        """Message and code, for errors without an HTTP status."""
        return f"{self.message} ({self.code})" if self.code else self.message

    @property
    def is_content_filter(self) -> bool:
        """Whether a content filter stopped the request."""
        return any(code in self.code for code in _FILTER_CODES)

    @property
    def is_quota(self) -> bool:
        """Whether the account has no credit left: waiting does not help."""
        return "insufficient_quota" in self.code or "billing" in self.code

    @property
    def is_key(self) -> bool:
        """Whether the server denies the key; Gemini's answers 400."""
        return self.status == 401 or (self.status < 500 and bool(_WRONG_KEY.search(self.message)))

    @property
    def is_parameter(self) -> bool:
        """Whether the server does not support a parameter or its value."""
        has_code = any(code in self.code for code in _PARAMETER_CODES)
        return self.status in (400, 422) and (has_code or bool(_UNSUPPORTED.search(self.message)))

    @property
    def is_model(self) -> bool:
        """Whether the server does not have the model."""
        has_code = self.code in ("model_not_found", "deploymentnotfound", "unknown_model")
        return has_code or (self.status == 404 and "model" in self.message.lower())

    def concerns(self, parameter: str) -> bool:
        """Whether the error is about this parameter."""
        if self.param:
            return self.param.rpartition(".")[2] == parameter
        # The first parameter in the message is the wrong one; a second may be its replacement.
        match = _PARAMETERS.search(self.message)
        return match is not None and match.group() == parameter


def read_server_error(status: int, body: object, secrets: Sequence[str] = ()) -> ServerError:
    """Read an error response of any form that `read_error_body` knows.

    >>> str(read_server_error(429, b'{"error": {"code": "insufficient_quota", "message": "Pay."}}'))
    'HTTP 429 (insufficient_quota): Pay.'
    """
    error = read_error_body(body)
    return ServerError(
        status=status,
        code=redact(error.code[:_MAX_READ], secrets).lower(),
        param=redact(error.param[:_MAX_READ], secrets),
        message=redact(error.message[:_MAX_READ], secrets),
    )


def redact(text: str, secrets: Sequence[str] = ()) -> str:
    """The first 200 characters of a server's message, without keys and passwords.

    >>> redact("wrong key sk-abcdef123 at http://me:word@host/v1")
    'wrong key … at http://host/v1'
    """
    text = without_secrets(text, secrets)
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…"


def without_secrets(text: str, secrets: Sequence[str] = ()) -> str:
    """A text without these secrets, what looks like a key, and passwords in addresses.

    Secrets of less than 6 characters stay: without each `x`, a message would be unreadable.
    """
    for secret in secrets:
        if len(secret) >= _SECRET_CHARACTERS:
            text = text.replace(secret, "…")
    return _CREDENTIALS.sub(r"\1", _KEY.sub("…", text))
