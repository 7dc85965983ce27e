"""What goes wrong with a server: its error responses in any shape, without secrets, and bodies that
cannot be used.
"""

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
_UNSUPPORTED = re.compile(
    r"unsupported|not support|deprecated|unrecogni[sz]ed|unknown|not permitted|unexpected",
    re.IGNORECASE,
)
_PARAMETERS = re.compile(
    r"\b(?:max_tokens|max_completion_tokens|temperature|response_format|seed|(?i:(?:top_)?logprobs))\b"
)
_LOGPROBS_STATUSES = (400, 403, 422, 500, 501)
_KEY = re.compile(
    r"\b(?:sk|pk|rk|hf|gsk|xai|nvapi)[-_][\w*.-]{4,}|\bAIza[\w-]{20,}|\b(?i:bearer|basic)\s+[^\s\"',}]{8,}"
)
_CREDENTIALS = re.compile(r"(\w+://)[^\s/@\"']+@")
_MAX_CHARACTERS = 200


class UnusableBody(Exception):
    """A response is not what the API promises. A retry may help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerError:
    """An error response. All texts may be empty.

    Attributes:
        status: HTTP status.
        code: The provider's error code in lower case, ``insufficient_quota``.
        param: The parameter it concerns.
        message: The server's message, cut to 200 characters, without keys.
    """

    status: int
    code: str = ""
    param: str = ""
    message: str = ""

    def __str__(self) -> str:
        code = f" ({self.code})" if self.code else ""
        return f"HTTP {self.status}{code}" + (f": {self.message}" if self.message else "")

    @property
    def is_content_filter(self) -> bool:
        """Whether a content filter stopped the request."""
        return any(code in self.code for code in _FILTER_CODES)

    @property
    def is_quota(self) -> bool:
        """Whether the account has no credit left, so that waiting does not help."""
        return "insufficient_quota" in self.code or "billing" in self.code

    @property
    def is_parameter(self) -> bool:
        """Whether the server does not support a parameter or its value."""
        has_code = any(code in self.code for code in _PARAMETER_CODES)
        return self.status in (400, 422) and (has_code or bool(_UNSUPPORTED.search(self.message)))

    @property
    def is_logprobs(self) -> bool:
        """Whether the server reports no log-probabilities, or fewer than were requested."""
        is_named = self.concerns("logprobs") or self.concerns("top_logprobs")
        return is_named and self.status in _LOGPROBS_STATUSES

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
        return match is not None and match.group().lower() == parameter


def read_server_error(status: int, body: object, secrets: Sequence[str] = ()) -> ServerError:
    """Read an error response of any shape: OpenAI's JSON, another server's, a proxy's page.

    >>> str(read_server_error(429, b'{"error": {"code": "insufficient_quota", "message": "Pay."}}'))
    'HTTP 429 (insufficient_quota): Pay.'
    """
    if isinstance(body, (bytes, str)):
        text = body.decode(errors="replace") if isinstance(body, bytes) else body
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = text
    fields = _mapping(body, "message")
    fields = {**fields, **_mapping(fields.get("error"), "message")}
    inner = _mapping(fields.get("innererror"), "code")  # Azure's
    code, error_type, inner_code = (
        text.lower() if isinstance(text, str) else ""
        for text in (fields.get("code"), fields.get("type"), inner.get("code"))
    )
    message = fields.get("message") or fields.get("detail") or ""
    text = message if isinstance(message, str) else json.dumps(message, default=str)
    param = fields.get("param")
    return ServerError(
        status=status,
        code=" ".join(filter(None, (code or error_type, inner_code))),
        param=param if isinstance(param, str) else "",
        message=redact(" ".join(text.split())[: 4 * _MAX_CHARACTERS], secrets),
    )


def _mapping(json_value: object, text_key: str) -> Mapping[str, object]:
    """A JSON object; a text becomes an object with this one key."""
    if isinstance(json_value, dict):
        return json_value
    return {text_key: json_value} if isinstance(json_value, str) else {}


def redact(text: str, secrets: Sequence[str] = ()) -> str:
    """The first 200 characters of a server's message, without keys and passwords.

    >>> redact("wrong key sk-abcdef123 at http://me:word@host/v1")
    'wrong key … at http://host/v1'
    """
    text = without_secrets(text, secrets)
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…"


def without_secrets(text: str, secrets: Sequence[str] = ()) -> str:
    """A text without these secrets, what looks like a key, and passwords in addresses."""
    for secret in filter(None, secrets):
        text = text.replace(secret, "…")
    return _CREDENTIALS.sub(r"\1", _KEY.sub("…", text))
