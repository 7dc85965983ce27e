"""What a server says when it does not answer: an error's status, code and words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_FILTER_CODES = (
    "content_filter",
    "content_policy_violation",
    "responsibleaipolicyviolation",
    "invalid_prompt",
    "moderation_blocked",
    "data_inspection_failed",
)
_PARAMETER_CODES = ("unsupported_parameter", "unsupported_value", "unknown_parameter")
_NOT_UNDERSTOOD = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|not permitted|unexpected", re.IGNORECASE
)
_KEY = re.compile(
    r"\b(?:sk|pk|rk|hf|gsk|xai|nvapi)[-_][\w*.-]{4,}|\bAIza[\w-]{20,}|\b(?i:bearer|basic)\s+[^\s\"',}]{8,}"
)
_CREDENTIALS = re.compile(r"(\w+://)[^\s/@\"']+@")
_MAX_WORDS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """An error response.

    Attributes:
        status: HTTP status.
        code: The provider's word for it, in lower case: ``insufficient_quota``; may be empty.
        param: The parameter it is about; may be empty.
        message: Its words, cut to 200 characters, without keys.
    """

    status: int
    code: str = ""
    param: str = ""
    message: str = ""

    def __str__(self) -> str:
        said = f" ({self.code})" if self.code else ""
        return f"HTTP {self.status}{said}" + (f": {self.message}" if self.message else "")

    @property
    def of_content(self) -> bool:
        """A filter would not let the request through."""
        return any(code in self.code for code in _FILTER_CODES)

    @property
    def of_quota(self) -> bool:
        """The account has nothing left; waiting does not help."""
        return "insufficient_quota" in self.code or "billing" in self.code

    @property
    def of_parameter(self) -> bool:
        """A parameter, or its value, is not understood."""
        known = any(code in self.code for code in _PARAMETER_CODES)
        return self.status in (400, 422) and (
            known or _NOT_UNDERSTOOD.search(self.message) is not None
        )

    def names(self, parameter: str) -> bool:
        """Whether it is about this parameter."""
        if self.param:
            return self.param.rpartition(".")[2] == parameter
        # The first parameter that is named is the wrong one; the other may be what to use instead.
        found = re.search(r"\b(?:max_tokens|max_completion_tokens|temperature)\b", self.message)
        return found is not None and found.group() == parameter

    @property
    def of_model(self) -> bool:
        """The model is not there."""
        missing = self.code in ("model_not_found", "deploymentnotfound", "unknown_model")
        return missing or (self.status == 404 and "model" in self.message.lower())


def complaint(status: int, body: bytes | str | object, secrets: Sequence[str] = ()) -> Complaint:
    """Read an error response, whatever it is: OpenAI's JSON, another server's, a proxy's page.

    >>> str(complaint(429, b'{"error": {"code": "insufficient_quota", "message": "Pay first."}}'))
    'HTTP 429 (insufficient_quota): Pay first.'
    """
    fields = _fields(body)
    inner = _mapping(fields.get("error"), "message")
    said = {**fields, **inner} if inner else fields
    deeper = _mapping(said.get("innererror"), "code")
    codes = [said.get("code"), said.get("type"), deeper.get("code")]
    words = said.get("message") or said.get("detail") or ""
    param = said.get("param")
    return Complaint(
        status=status,
        code=" ".join(_code(codes)),
        param=param if isinstance(param, str) else "",
        message=scrub(_short(words), secrets),
    )


def _code(codes: Sequence[object]) -> list[str]:
    """The codes that are words; an error's general type only where it has no code of its own."""
    code, kind, deeper = (found.lower() if isinstance(found, str) else "" for found in codes)
    return [word for word in (code or kind, deeper) if word]


def _fields(body: bytes | str | object) -> Mapping[str, object]:
    if not isinstance(body, (bytes, str)):
        return _mapping(body, "message")
    text = body.decode(errors="replace") if isinstance(body, bytes) else body
    try:
        return _mapping(json.loads(text), "message")
    except (ValueError, RecursionError):
        return {"message": text}


def _mapping(value: object, otherwise: str) -> Mapping[str, object]:
    if isinstance(value, dict):
        return value
    return {otherwise: value} if isinstance(value, str) else {}


def _short(words: object) -> str:
    text = words if isinstance(words, str) else json.dumps(words, default=str)
    return " ".join(text.split())[: 4 * _MAX_WORDS]


def scrub(text: str, secrets: Sequence[str] = ()) -> str:
    """At most 200 characters of what a server said, without keys and passwords.

    >>> scrub("wrong key sk-abcdef123 at http://me:word@host/v1")
    'wrong key … at http://host/v1'
    """
    for secret in secrets:
        if secret:
            text = text.replace(secret, "…")
    text = _CREDENTIALS.sub(r"\1", _KEY.sub("…", text))
    return text if len(text) <= _MAX_WORDS else text[: _MAX_WORDS - 1] + "…"
