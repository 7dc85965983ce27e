"""What all requests of one client share: servers, limits, and the log lines about them."""

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
"""The log has a line about a server that demands a longer wait."""

LINE_EVERY_S = 60.0
"""A server in trouble gets one log line in this time, without those about demanded waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undelivered:
    """A request without a reply, after all retries.

    Attributes:
        cause: ``unavailable``: failed too often, or no server replies, or all demand too long a
            wait. ``denied``: the same, and every server denied access last.
            ``over_budget``: not sent. ``rejected``, ``invalid``: as in `Failure`.
        reason: For messages; holds no secret.
    """

    cause: Literal["unavailable", "denied", "over_budget", "rejected", "invalid"]
    reason: str


@dataclass(slots=True, kw_only=True, eq=False)
class Sender:
    """What all calls of `send_all` by one client object share.

    Attributes:
        max_concurrency: Most requests in flight to each server.
        patience_s: Seconds without any reply after which all remaining requests are given up, and
            for which a request that fails while others are answered is retried at least. A wait
            that a server demands before they are over is waited for, and then as many seconds more.
        in_flight: Requests in flight now.
        retries: Requests that were sent again, so far.
    """

    access: Access
    budget: Budget
    max_concurrency: int
    patience_s: float
    pace: Pace = field(default_factory=Pace)
    in_flight: int = 0
    retries: int = 0
    _logged_at: dict[str, float] = field(default_factory=dict)  # by server
    _troubled: set[str] = field(default_factory=set)  # servers whose trouble was logged last
    _logged_waits: dict[str, float] = field(default_factory=dict)  # the latest end, by server

    def log_trouble(
        self, server: str, line: str, now: float, level: Literal["WARNING", "ERROR"] = "WARNING"
    ) -> None:
        """Log a line about a server unless the last one is less than `LINE_EVERY_S` ago."""
        if now >= self._logged_at.get(server, -inf) + LINE_EVERY_S:
            self._logged_at[server] = now
            self._troubled.add(server)
            logger.log(level, line)

    def log_recovery(self, server: str, line: str) -> None:
        """Log that a server works again if its trouble was logged."""
        if server in self._troubled:
            self._troubled.remove(server)
            logger.info(line)

    def log_wait(self, server: str, line: str, end: float) -> None:
        """Log a line about a demanded wait unless one that ends about then was logged."""
        if end > self._logged_waits.get(server, -inf) + LOGGED_WAIT_S:
            self._logged_waits[server] = end
            logger.warning(line)


class ReplyStore(Protocol[ReplyT]):
    """Replies to the requests of one call, shared with other processes. No method raises.

    It is used only in the thread that sends the requests.
    """

    def find(self, index: int) -> ReplyT | None:
        """The reply to a request if it has been stored meanwhile."""
        ...

    def put(self, index: int, reply: ReplyT) -> None:
        """Store a reply as soon as it has arrived."""
        ...
