"""What all requests of one client share: the server, its limits, and the log lines about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Literal, Protocol

from loguru import logger

from mmie_tasks.http.access import Access
from mmie_tasks.http.attempt import ReplyT
from mmie_tasks.http.budget import Budget
from mmie_tasks.http.pace import Pace

LOGGED_WAIT_S = 30.0
"""A longer wait that a server demands is logged."""

_LINE_EVERY_S = 60.0
"""A server in trouble gets one log line in this time, besides those about demanded waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """A request without a reply, after all retries."""

    cause: Literal[
        "unavailable",  # it failed too often, or the server is silent or demands too long a wait
        "denied",  # the same, and access was denied last
        "over_budget",  # it was not sent
        "rejected",  # see `FailureKind`
        "invalid",
    ]
    reason: str  # for messages, without secrets


@dataclass(slots=True, kw_only=True, eq=False)
class Sender:
    """What all calls of `send_all` by one client object share.

    All remaining requests are given up after `patience_s` seconds without any reply. A request that
    fails while others are answered is retried for at least as long. If the server demands a wait
    meanwhile, the seconds begin again after it.
    """

    access: Access
    budget: Budget
    max_concurrency: int
    patience_s: float
    pace: Pace = field(default_factory=Pace)
    in_flight: int = 0
    retries: int = 0  # requests that were sent again
    _trouble_logged_at: float = -inf
    _is_troubled: bool = False  # by the log
    _end_logged_at: float = -inf
    _logged_wait_end: float = -inf  # the latest

    def log_trouble(self, line: str, now: float) -> None:
        """Log that the server does not work, unless that was logged less than a minute ago."""
        if now >= self._trouble_logged_at + _LINE_EVERY_S:
            self._trouble_logged_at, self._is_troubled = now, True
            logger.warning(line)

    def log_recovery(self, line: str) -> None:
        """Log that the server works again if its trouble was logged."""
        if self._is_troubled:
            self._is_troubled = False
            logger.info(line)

    def log_end(self, line: str, now: float, level: Literal["WARNING", "ERROR"]) -> None:
        """Log why a call gets no more replies, once a minute at most."""
        if now >= self._end_logged_at + _LINE_EVERY_S:
            self._end_logged_at = now
            logger.log(level, line)

    def log_wait(self, line: str, end: float) -> None:
        """Log a demanded wait, unless one that ends at about the same time was logged."""
        if end > self._logged_wait_end + LOGGED_WAIT_S:
            self._logged_wait_end = end
            logger.warning(line)


class ReplyStore(Protocol[ReplyT]):
    """Replies to the requests of one call, shared with other processes.

    No method raises. Only the thread that sends the requests uses it.
    """

    def find(self, index: int) -> ReplyT | None:
        """The reply to a request, if it is stored."""
        ...

    def put(self, index: int, reply: ReplyT) -> None:
        """Store a reply that has just arrived."""
        ...
