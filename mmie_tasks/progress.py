"""What is seen while a judge is waited for, and what is said of it afterwards."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from types import TracebackType

from loguru import logger
from tqdm import tqdm  # type: ignore[import-untyped]

from mmie_tasks.judges.base import JudgeError, JudgeReply, Outcome


class Progress:
    """One bar (done, failed, cached, dollars so far), and one line in the log at the end.

    Args:
        title: Whose samples are judged; empty says nothing at all.
        total: How many there are.
        report: Told of every outcome as well.
    """

    def __init__(
        self, title: str, total: int, report: Callable[[Outcome], None] = lambda _: None
    ) -> None:
        self._title = title
        self._total = total
        self._report = report
        self._bar: tqdm[None] | None = None
        self._counts: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._cost_usd: float | None = 0.0  # None as soon as one reply's price is unknown

    def __enter__(self) -> Progress:
        if self._title:
            one_of_many = os.environ.get("RANK", "0") != "0"  # one bar for all processes of a run
            title = f"Judging {self._title}"
            self._bar = tqdm(total=self._total, desc=title, unit="sample", disable=one_of_many)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
        if self._title:
            logger.info(f"Judged {self._title}: {self.summary()}")

    def saw(self, outcome: Outcome) -> None:
        """Count one outcome."""
        self._report(outcome)
        self._counts["asked"] += 1
        match outcome:
            case JudgeReply(cached=True):
                self._counts["cached"] += 1
            case JudgeReply(usage=usage):
                self._counts["input"] += usage.input_tokens
                self._counts["output"] += usage.output_tokens
                known = self._cost_usd is not None and usage.cost_usd is not None
                self._cost_usd = (self._cost_usd or 0) + (usage.cost_usd or 0) if known else None
            case JudgeError():
                self._counts["failed"] += 1
                self._failures[str(outcome).partition("\n")[0]] += 1
        if self._bar is not None:
            self._bar.total = max(self._total, self._counts["asked"])  # some are asked once more
            self._bar.set_postfix_str(self._short(), refresh=False)
            self._bar.update()

    def _short(self) -> str:
        return f"failed {self._counts['failed']}, cached {self._counts['cached']}, {self._money()}"

    def _money(self) -> str:
        return "cost unknown" if self._cost_usd is None else f"{self._cost_usd:.4f} USD"

    def summary(self) -> str:
        """The counts in words, and the most frequent failures."""
        counts = self._counts
        words = (
            f"{counts['asked']} asked, {counts['cached']} of them answered from the cache, "
            f"{counts['failed']} failed; {counts['input']} tokens in, {counts['output']} out, "
            f"{self._money()}"
        )
        worst = "".join(f"\n  {n} x {what}" for what, n in self._failures.most_common(5))
        return words + worst
