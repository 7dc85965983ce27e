"""What has been spent, and whether one more request may be."""

from __future__ import annotations

from pathlib import Path
from threading import Lock

from mmie_tasks.judges.base import JudgeRequest, Usage
from mmie_tasks.judges.openai.models import Price

_CHARACTERS_PER_TOKEN = 3
_TOKENS_PER_IMAGE = 2000


class Budget:
    """The dollars one judge object may spend in its life.

    Args:
        max_cost_usd: None for no limit.
        price: Needed for a limit.
    """

    def __init__(self, *, max_cost_usd: float | None, price: Price | None) -> None:
        self.spent_usd = 0.0
        self.max_cost_usd = max_cost_usd
        self._price = price
        self._paid = 0
        self._lock = Lock()

    def allows(self, in_flight: int) -> bool:
        """Whether one more may be sent beside those on their way.

        They are taken to cost what requests have cost so far, on the average. As long as none has
        come back that is not known, and one is sent alone.
        """
        if self.max_cost_usd is None:
            return True
        if not self._paid:
            return in_flight == 0
        mean_usd = self.spent_usd / self._paid
        return self.spent_usd + (in_flight + 1) * mean_usd <= self.max_cost_usd

    def pay(self, request: JudgeRequest, usage: Usage, max_tokens: int | None) -> None:
        """Take a reply's cost away; where the server does not tell its tokens, a high guess."""
        if self._price is None:
            return
        cost = usage.cost_usd
        if cost is None:
            cost = self._price.cost_usd(_input_tokens(request), max_tokens or request.max_tokens)
        with self._lock:
            self.spent_usd += cost
            self._paid += 1


def _input_tokens(request: JudgeRequest) -> int:
    return sum(
        _TOKENS_PER_IMAGE if isinstance(part, Path) else len(part) // _CHARACTERS_PER_TOKEN + 1
        for part in request.parts
    )
