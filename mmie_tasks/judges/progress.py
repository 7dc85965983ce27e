"""The progress bar of judging, and its final log line."""

from __future__ import annotations

import os
import sys
from collections import Counter

from loguru import logger
from tqdm import tqdm  # type: ignore[import-untyped]

from mmie_tasks.core.errors import first_line
from mmie_tasks.core.log import is_first_process
from mmie_tasks.judges.base import Judge, JudgeError, Outcome
from mmie_tasks.record.reply import JudgeReply


class Progress:
    """A progress bar, and a final log line.

    Both have the requests that failed, came from the cache or were sent again, and the cost; the
    bar has those in flight, and a forecast of the cost: the mean of the paid replies for every
    remaining sample. The remaining time is tqdm's, from samples per second; it is too long for a
    judge that computes its longest samples first.

    Args:
        title: Name of the benchmark; an empty title shows and logs nothing.
        total: Number of samples.
        judge: The judge, which may count its requests in flight.
    """

    def __init__(self, title: str, total: int, judge: Judge) -> None:
        self._title, self._total, self._judge = title, total, judge
        self._counts: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._cost_usd: float | None = 0.0  # None as soon as the price of a reply is unknown
        before = judge.counts()
        self._earlier_retries = before.retries if before else 0
        self._bar: tqdm[None] = tqdm(
            total=total,
            desc=f"Judging {title}",
            unit="sample",
            disable=not title or not is_first_process(os.environ),  # one bar for all processes
            # Elsewhere than in a terminal: no codes that move the cursor between bars.
            position=None if sys.stderr.isatty() else 0,
        )

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_error: object) -> None:
        self._bar.close()
        if self._title:
            logger.info(f"Judged {self._title}: {self.summary()}")

    def update(self, outcome: Outcome) -> None:
        """Counts an outcome."""
        self._counts["requests"] += 1
        match outcome:
            case JudgeReply(cached=True):
                self._counts["from the cache"] += 1
            case JudgeReply(usage=usage):
                self._counts["paid"] += 1
                self._counts["tokens in"] += usage.input_tokens
                self._counts["tokens out"] += usage.output_tokens
                if self._cost_usd is not None and usage.cost_usd is not None:
                    self._cost_usd += usage.cost_usd
                else:
                    self._cost_usd = None
            case JudgeError():
                self._counts["failed"] += 1
                self._failures[first_line(outcome)] += 1
        self._bar.total = max(self._total, self._counts["requests"])  # some are sent twice
        self._bar.set_postfix_str(
            self._text("failed", "from the cache", "in flight"), refresh=False
        )
        self._bar.update()

    def summary(self) -> str:
        """The counts above 0, then a line for each of the most frequent failures."""
        names = ("requests", "from the cache", "failed", "tokens in", "tokens out")
        failures = self._failures.most_common(5)
        return self._text(*names) + "".join(f"\n  {count} x {text}" for text, count in failures)

    def _text(self, *names: str) -> str:
        """These counts and the retries, those above 0, and the cost."""
        numbers = dict(self._counts)
        if (counts := self._judge.counts()) is not None:
            numbers["in flight"] = counts.in_flight
            numbers["sent again"] = counts.retries - self._earlier_retries
        parts = [
            f"{numbers[name]:,} {name}" for name in (*names, "sent again") if numbers.get(name)
        ]
        cost = "cost unknown"
        if self._cost_usd is not None:
            left = self._total - self._counts["requests"]
            cost = cost_forecast(self._cost_usd, self._counts["paid"], left)
        return ", ".join(filter(None, (*parts, cost)))


def cost_forecast(cost_usd: float, paid: int, left: int) -> str:
    """The cost so far, and while requests are left, a forecast at the mean of the paid ones.

    >>> cost_forecast(1.0, 2, 4), cost_forecast(1.0, 2, 0), cost_forecast(0.0, 0, 4)
    ('1.0000 of about 3.0000 USD', '1.0000 USD', '')
    """
    if cost_usd and left > 0:
        return f"{cost_usd:.4f} of about {cost_usd * (1 + left / paid):.4f} USD"
    return f"{cost_usd:.4f} USD" if cost_usd else ""
