"""Trying a call again while that may help.

* JudgeUnavailable   no usable answer for as long as we have patience
* Rejected           a definite no, with the server's words
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from mmie_tasks.judges.base import JudgeUnavailable
from mmie_tasks.judges.openai.complaints import Complaint
from mmie_tasks.judges.openai.pace import Pace
from mmie_tasks.judges.openai.trouble import TRY_ERRORS, Trouble, trouble_of

_T = TypeVar("_T")

_NO_ENTRY = (401, 403)
_NO_ENTRY_TRIES = 3  # gateways say it by mistake; a wait of hours must not end for that


class Rejected(Exception):
    """The server says no, and would say it again."""

    def __init__(self, complaint: Complaint) -> None:
        super().__init__(str(complaint))
        self.complaint = complaint


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPace:
    """How long and how often, in seconds.

    Attributes:
        first_look_s: Before a batch is looked at for the first time; then ever longer.
        longest_look_s: At most so long between two looks.
        longest_wait_s: For a batch to be over; the provider ends it after 24 hours.
        patience_s: How long a batch is waited for while the server answers nothing at all. Longer
            than for a reply: hours were waited already, and nothing is lost by waiting.
        tries: Between the tries of a call.
    """

    first_look_s: float = 5.0
    longest_look_s: float = 60.0
    longest_wait_s: float = 26 * 3600.0
    patience_s: float = 3600.0
    tries: Pace = field(default_factory=Pace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trying:
    """How calls to one server are tried again.

    Attributes:
        address: The server's, as it may stand in a message.
        secrets: What must not stand in a message.
        pace: How long is waited between two tries.
    """

    address: str
    secrets: Sequence[str]
    pace: Pace

    def tried(
        self,
        call: Callable[[], _T],
        patience_s: float,
        already: Callable[[], _T | None] = lambda: None,
    ) -> _T:
        """Call until it works.

        Args:
            call: Makes one HTTP request and reads the answer.
            patience_s: How long.
            already: Asked before each new try whether the last one worked without our knowing.

        Raises:
            JudgeUnavailable: It did not work in this time.
            Rejected: It never will.
        """
        end = time.monotonic() + patience_s
        for tries in count(1):
            try:
                return call()
            except TRY_ERRORS as error:
                trouble = trouble_of(error, self.secrets)
            if trouble.said is not None and _definite(trouble, trouble.said, tries):
                raise Rejected(trouble.said)
            asked_s = max(trouble.wait_s or 0.0, trouble.pause_s or 0.0)
            wait_s = max(self.pace.wait_s(tries), asked_s)
            if time.monotonic() + wait_s > end:
                raise JudgeUnavailable(
                    f"{self.address} gave no usable answer in {patience_s:g} s: {trouble.why}"
                )
            time.sleep(wait_s)
            if (found := already()) is not None:
                return found
        raise AssertionError  # `count` has no end


def _definite(trouble: Trouble, said: Complaint, tries: int) -> bool:
    """Whether the server would say the same again."""
    if said.status in _NO_ENTRY:
        return tries >= _NO_ENTRY_TRIES
    return trouble.kind in ("setup", "content") or too_much_at_once(said)


def too_much_at_once(said: Complaint) -> bool:
    """Whether more is enqueued than the provider takes from this account at a time."""
    return "token_limit_exceeded" in said.code or "enqueued" in said.message.lower()
