"""Faults of a judge's server, and what the `openai` judge does.

Tests send requests to a loopback server with each fault.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mmie_tasks.judges.base import JudgeRequest
from support.judge_server import Body, Says, completion
from support.loopback import HANG, HANG_UP, Sent, error

UNTIL_ANSWERED = None
REQUEST = JudgeRequest(parts=("question 0",), max_tokens=50)
GZIP = {"content-encoding": "gzip"}


@dataclass(frozen=True)
class Case:
    """An example of a fault: what the server sends, and a part of the sample's reason."""

    name: str
    says: Says
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault and how it ends.

    Attributes:
        name: Of the fault.
        requests: How often one request is sent at most; None for until it is answered, or until
            no request is answered for `patience`.
        reason: Why a sample is unscored if the fault lasts; None if it gets the reply.
        cases: Examples.
        request: The judge's request.
        finish: How the reply ended, if the sample gets one.
    """

    name: str
    requests: int | None
    reason: str | None
    cases: tuple[Case, ...]
    request: JudgeRequest = REQUEST
    finish: str = "stop"


def in_list(sent: Sent) -> Sent:
    """The same with its body in a list, as Gemini's endpoint sends errors."""
    return replace(sent, content=b"[" + sent.content + b"]")


def only_accepting(form: Callable[[Sent], Sent] = lambda sent: sent, **parameters: str) -> Says:
    """A server that rejects some parameters by an error with the code of each."""

    def says(body: Body) -> str | Sent:
        for name, code in parameters.items():
            if name in body:
                return form(error(400, code=code, param=name, message=f"Unsupported: '{name}'"))
        return "5"

    return says


def body(**changes: Any) -> Body:
    """A completion with the text ``5`` and other changes."""
    return completion(changes.pop("text", "5"), **changes)


FAULTS = (
    Fault(
        name="429",
        requests=UNTIL_ANSWERED,
        reason="unavailable",
        cases=(
            Case("429", error(429), "HTTP 429"),
            Case("429-retry-after", error(429, headers={"Retry-After": "0.05"})),
        ),
    ),
    Fault(
        name="the server demands a wait of more than 15 minutes (or `patience`, if longer)",
        requests=1,
        reason="unavailable",
        cases=(
            Case("429-for-an-hour", error(429, headers={"Retry-After": "3600"}), "a wait of 1.0"),
            Case("retry-delay", error(503, details=[{"retryDelay": "3600s"}]), "a wait of 1.0"),
        ),
    ),
    Fault(
        name="408, 409, 5xx, no connection, connection reset",
        requests=UNTIL_ANSWERED,
        reason="unavailable",
        cases=(
            Case("500", error(500), "HTTP 500"),
            Case("503-retry-after", error(503, headers={"Retry-After": "0.05"})),
            Case("hangs-up", HANG_UP, "no connection"),
            Case("hangs-up-in-the-body", Sent(content=b'{"choices": [1, 2]}', cut_after=9)),
        ),
    ),
    Fault(
        name="no answer within `timeout`",
        requests=UNTIL_ANSWERED,
        reason="unavailable",
        cases=(Case("hangs", HANG, "no answer in time"),),
    ),
    Fault(
        name="unusable body: no JSON, no choice with a message, broken compression",
        requests=UNTIL_ANSWERED,
        reason="unavailable",
        cases=(
            Case("proxy-200", Sent(content=b"<html>Sign in</html>"), "no JSON"),
            Case("truncated", Sent(content=b'{"choices": [{"mess')),
            Case("an-error-as-200", Sent(content=b'{"error": {"message": "busy"}}'), "busy"),
            Case("wrong-encoding", Sent(content=b"no gzip", headers=GZIP), "decompress"),
        ),
    ),
    Fault(
        name="401, 402, 403, 404, wrong key, unknown model, no credit left",
        requests=1,
        reason="unavailable",
        cases=(
            Case("401", error(401, code="invalid_api_key"), "denies access"),
            Case("400-key", in_list(error(400, message="API key not valid.")), "not valid"),
            Case("quota", error(429, code="insufficient_quota")),
        ),
    ),
    Fault(
        name="`max_tokens`, `max_completion_tokens` or `temperature` is rejected",
        requests=3,
        reason=None,
        cases=(
            Case(
                "both",
                only_accepting(max_tokens="unsupported_parameter", temperature="unsupported_value"),
            ),
        ),
    ),
    Fault(
        name="content filter, refusal, 400, 413, 422",
        requests=1,
        reason="refused",
        cases=(
            Case("filtered", body(finish_reason="content_filter"), "filter"),
            Case("refusal", completion(None, refusal="I will not."), "I will not."),
            Case("400-filter", error(400, code="content_filter"), "content_filter"),
            Case("400", error(400, code="invalid_image", message="bad"), "bad"),
        ),
    ),
    Fault(
        name="a truncated reply: finish reason `length`, `max_...`",
        finish="length",
        requests=1,
        reason=None,
        cases=tuple(Case(word, body(finish_reason=word)) for word in ("length", "MAX_TOKENS")),
    ),
    Fault(
        name="a failed reply: finish reason `error`, `abort`, `..._error`, `insufficient_...`",
        requests=3,
        reason="unavailable",
        cases=tuple(
            Case(f"finish-{word}", body(finish_reason=word), f"finish_reason `{word}`")
            for word in ("error", "insufficient_system_resource")
        ),
    ),
    Fault(
        name="a text with any other finish reason",
        requests=1,
        reason=None,
        cases=tuple(
            Case(f"finish-{word}", body(finish_reason=word))
            for word in (None, "STOP", 7, "new_word")
        ),
    ),
    Fault(
        name="a reply without text",
        requests=3,
        reason="empty_reply",
        cases=(Case("empty", body(text=""), "finish_reason `stop`"),),
    ),
    Fault(
        name="a reply without text at the token limit",
        requests=2,
        reason="empty_reply",
        cases=(Case("empty-length", body(text="", finish_reason="length"), "`length`"),),
    ),
    Fault(
        name="an image that cannot be read",
        requests=0,
        reason="bad_image",
        cases=(Case("image", "5", "cannot be read"),),
        request=JudgeRequest(parts=("look", Path("/nowhere/a.png")), max_tokens=50),
    ),
)


def sent_of(case: Case) -> Sent:
    """What the server sends, as a response."""
    if isinstance(case.says, Sent):
        return case.says
    assert isinstance(case.says, dict)
    return Sent(content=json.dumps(case.says).encode())
