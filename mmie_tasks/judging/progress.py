"""Progress of judging: a bar on the terminal, and a summary line in the log."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType

from loguru import logger
from tqdm import tqdm  # type: ignore[import-untyped]

from mmie_tasks.judges.base import JudgeError, JudgeReply, Outcome


class Progress:
    """A progress bar (failed, cached, tokens per second, US dollars), and a final log line.

    The rate counts the input and output tokens of replies that arrived since judging began, over
    the time since then; replies from the cache do not count. The remaining time is tqdm's, from
    samples per second. A judge that computes its longest samples first becomes faster, so the
    remaining time is then over- rather than underestimated.

    Args:
        title: Name of the benchmark; with an empty title nothing is shown or logged.
        total: Number of samples.
        on_outcome: Called with every outcome as well.
        clock: Seconds, from any origin.
    """

    def __init__(
        self,
        title: str,
        total: int,
        on_outcome: Callable[[Outcome], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title = title
        self._total = total
        self._on_outcome = on_outcome
        self._clock = clock
        self._began_s = clock()
        self._bar: tqdm[None] | None = None
        self._counts: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._cost_usd: float | None = 0.0  # None as soon as the price of a reply is unknown

    def __enter__(self) -> Progress:
        self._began_s = self._clock()
        if self._title:
            is_other_rank = os.environ.get("RANK", "0") != "0"  # one bar for all ranks of a run
            title = f"Judging {self._title}"
            self._bar = tqdm(total=self._total, desc=title, unit="sample", disable=is_other_rank)
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

    def update(self, outcome: Outcome) -> None:
        """Count an outcome."""
        self._on_outcome(outcome)
        self._counts["requests"] += 1
        match outcome:
            case JudgeReply(cached=True):
                self._counts["cached"] += 1
            case JudgeReply(usage=usage):
                self._counts["input"] += usage.input_tokens
                self._counts["output"] += usage.output_tokens
                if self._cost_usd is not None:
                    cost_usd = usage.cost_usd
                    self._cost_usd = None if cost_usd is None else self._cost_usd + cost_usd
            case JudgeError():
                self._counts["failed"] += 1
                self._failures[str(outcome).partition("\n")[0]] += 1
        if self._bar is not None:
            self._bar.total = max(self._total, self._counts["requests"])  # some are sent twice
            counts = (f"failed {self._counts['failed']}", f"cached {self._counts['cached']}")
            self._bar.set_postfix_str(self._joined(*counts), refresh=False)
            self._bar.update()

    def summary(self) -> str:
        """The counts, and the most frequent failures on lines of their own."""
        counts = self._counts
        text = self._joined(
            f"{counts['requests']} requests, {counts['cached']} of them answered from the cache, "
            f"{counts['failed']} failed; {counts['input']} tokens in, {counts['output']} out"
        )
        failures = self._failures.most_common(5)
        return text + "".join(f"\n  {count} x {failure}" for failure, count in failures)

    def _joined(self, *parts: str) -> str:
        """The parts, the tokens per second after the first token, and the cost unless it is 0."""
        tokens = self._counts["input"] + self._counts["output"]
        elapsed_s = self._clock() - self._began_s
        rate = f"{tokens / elapsed_s:,.0f} tokens/s" if tokens and elapsed_s > 0 else ""
        cost = f"{self._cost_usd:.4f} USD" if self._cost_usd else ""
        cost = "cost unknown" if self._cost_usd is None else cost
        return ", ".join(part for part in (*parts, rate, cost) if part)
