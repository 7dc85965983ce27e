"""The result of one attempt at a request: a reply, or a failure whose kind decides what follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

from mmie_tasks.http.errors import ServerError

FailureKind: TypeAlias = Literal[
    "busy",  # 429: retry, with fewer requests in flight
    "failed",  # 408, 409, 5xx, no connection, an unusable body: retry
    "timed_out",  # no response in time: retry, fewer times
    "denied",  # wrong key, unknown model, no credit left: does not concern this request alone
    "rejected",  # the server does not accept this request
    "invalid",  # the request cannot be built; nothing was sent
]

RequestT = TypeVar("RequestT")
ReplyT = TypeVar("ReplyT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Success(Generic[ReplyT]):
    """A reply, as the caller's `Endpoint.send` read it."""

    reply: ReplyT
    is_final: bool = True  # False if the request may get a better reply when it is sent again
    cost_usd: float | None = None  # None if the price is unknown
    pause_s: float | None = None  # until the server's exhausted quota is reset


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an attempt brought no reply."""

    kind: FailureKind
    reason: str  # for messages, without secrets
    error: ServerError | None = None
    wait_s: float | None = None  # the server demands that this request waits
    pause_s: float | None = None  # see `Success`
