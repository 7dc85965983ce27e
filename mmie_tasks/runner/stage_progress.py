"""The progress of writing and drawing: a bar with failures, cost and the remaining time, which is
tqdm's.
"""

from __future__ import annotations

import time

from tqdm import tqdm  # type: ignore[import-untyped]

from mmie_tasks.judging.progress import cost_forecast


class StageProgress:
    """A bar of one stage of a model, such as drawing pictures.

    Args:
        title: Of the stage.
        unit: What it makes.
        price_usd: Of a unit that a server makes; None if unknown, 0 if nothing is paid.
        is_shown: Whether this process shows the bar.

    Attributes:
        done: Units that this process has got.
        seconds: From `begin` to the last unit.
    """

    def __init__(self, title: str, unit: str, *, price_usd: float | None, is_shown: bool) -> None:
        self.done = 0
        self.seconds = 0.0
        self._price_usd = price_usd
        self._failed = self._paid = 0
        self._began_s = time.monotonic()
        hidden = {} if is_shown else {"disable": True}  # if shown, TQDM_DISABLE may hide it
        self._bar = tqdm(desc=title, unit=unit, **hidden)

    def begin(self, total: int, stored: int) -> None:
        """Show how many units there are, and how many of them an earlier run has made."""
        self._began_s = time.monotonic()
        self._bar.total, self._bar.initial = total, stored
        self._bar.update(stored)

    def update(self, done: int, *, failed: int, paid: int) -> None:
        """Count units, those of them that failed, and those that are paid for."""
        self.done += done
        self._failed += failed
        self._paid += paid
        self.seconds = time.monotonic() - self._began_s
        self._bar.set_postfix_str(f"failed {self._failed}{self._cost(done)}", refresh=False)
        self._bar.update(done)

    def _cost(self, new: int) -> str:
        if self._price_usd == 0:
            return ""
        if self._price_usd is None:
            return ", price not known"
        left = (self._bar.total or 0) - self._bar.n - new
        cost = cost_forecast(self._price_usd * self._paid, self._paid, left)
        return f", {cost}" if cost else ""

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()
