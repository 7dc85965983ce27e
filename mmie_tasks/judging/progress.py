"""The progress bar of judging, and its final log line."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable

from loguru import logger
from tqdm import tqdm  # type: ignore[import-untyped]

from mmie_tasks.core.errors import first_line
from mmie_tasks.core.log import is_first_process
from mmie_tasks.judges.base import Judge, JudgeError, Outcome, RequestCounts
from mmie_tasks.record.reply import JudgeReply


class Progress:
    """A progress bar, and a final log line.

    The bar shows requests that failed, came from the cache, are in flight or were sent again,
    tokens per second, and the cost. The forecast of the cost takes the mean of the paid replies for
    every remaining sample. The rate counts input and output tokens of uncached replies. The
    remaining time is tqdm's, from samples per second; it is too long for a judge that computes its
    longest samples first.

    Args:
        title: Name of the benchmark; an empty title shows and logs nothing.
        total: Number of samples.
        judge: The judge, which may count its requests in flight.
        clock: Returns seconds, from any origin.
    """

    def __init__(
        self,
        title: str,
        total: int,
        judge: Judge | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title = title
        self._judge = judge
        self._total = total
        self._clock = clock
        self._began_s = clock()
        self._earlier_retries = 0
        self._bar: tqdm[None] | None = None
        self._counts: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._cost_usd: float | None = 0.0  # None as soon as the price of a reply is unknown

    def __enter__(self) -> Progress:
        self._began_s = self._clock()
        if (counts := self._request_counts()) is not None:
            self._earlier_retries = counts.retries
        if self._title:
            position = (
                None if sys.stderr.isatty() else 0
            )  # elsewhere no codes that move the cursor between bars
            self._bar = tqdm(
                total=self._total,
                desc=f"Judging {self._title}",
                unit="sample",
                disable=not is_first_process(os.environ),  # one bar for all processes of a run
                position=position,
            )
        return self

    def __exit__(self, *_error: object) -> None:
        if self._bar is not None:
            self._bar.close()
        if self._title:
            logger.info(f"Judged {self._title}: {self.summary()}")

    def update(self, outcome: Outcome) -> None:
        """Counts an outcome."""
        self._counts["requests"] += 1
        match outcome:
            case JudgeReply(cached=True):
                self._counts["cached"] += 1
            case JudgeReply(usage=usage):
                self._counts["paid"] += 1
                self._counts["input"] += usage.input_tokens
                self._counts["output"] += usage.output_tokens
                if self._cost_usd is not None:
                    self._cost_usd = (
                        None if usage.cost_usd is None else self._cost_usd + usage.cost_usd
                    )
            case JudgeError():
                self._counts["failed"] += 1
                self._failures[first_line(outcome)] += 1
        if self._bar is not None:
            self._bar.total = max(self._total, self._counts["requests"])  # some are sent twice
            parts = [f"failed {self._counts['failed']}", f"cached {self._counts['cached']}"]
            if (requests := self._request_counts()) is not None:
                parts.append(f"in flight {requests.in_flight}")
            self._bar.set_postfix_str(self._joined(*parts), refresh=False)
            self._bar.update()

    def summary(self) -> str:
        """The counts above 0, then a line for each of the most frequent failures."""
        counts = self._counts
        titles = {
            "cached": "from the cache",
            "failed": "failed",
            "input": "tokens in",
            "output": "tokens out",
        }
        parts = (f"{counts[name]:,} {title}" for name, title in titles.items() if counts[name])
        text = self._joined(f"{counts['requests']:,} requests", *parts)
        return text + "".join(
            f"\n  {count} x {failure}" for failure, count in self._failures.most_common(5)
        )

    def _request_counts(self) -> RequestCounts | None:
        return None if self._judge is None else self._judge.counts()

    def _joined(self, *parts: str) -> str:
        """The parts, then retries, tokens per second and cost if they are above 0."""
        counts = self._request_counts()
        retries = counts.retries - self._earlier_retries if counts is not None else 0
        tokens = self._counts["input"] + self._counts["output"]
        elapsed_s = self._clock() - self._began_s
        rate = f"{tokens / elapsed_s:,.0f} tokens/s" if tokens and elapsed_s > 0 else ""
        left = self._total - self._counts["requests"]
        cost = "cost unknown"
        if self._cost_usd is not None:
            cost = cost_forecast(self._cost_usd, self._counts["paid"], left)
        sent_again = f"{retries} sent again" if retries else ""
        return ", ".join(part for part in (*parts, sent_again, rate, cost) if part)


def cost_forecast(cost_usd: float, paid: int, left: int) -> str:
    """The cost so far, and while requests are left, a forecast at the mean of the paid ones.

    >>> cost_forecast(1.0, 2, 4), cost_forecast(1.0, 2, 0), cost_forecast(0.0, 0, 4)
    ('1.0000 of about 3.0000 USD', '1.0000 USD', '')
    """
    if cost_usd and left > 0:
        return f"{cost_usd:.4f} of about {cost_usd * (1 + left / paid):.4f} USD"
    return f"{cost_usd:.4f} USD" if cost_usd else ""
