"""What is seen while a judge is waited for, and what is said of it afterwards."""

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
    """One bar (done, failed, cached, tokens a second, dollars), and one line in the log at the end.

    The rate is of the tokens, read and written, of the replies that came since judging began, over
    all the time since then; what the cache answers does not count. The time left is the bar's own,
    from samples a second. A judge that takes its longest samples first goes faster later, so what
    is shown is then rather too long than too short.

    Args:
        title: Whose samples are judged; empty says nothing at all.
        total: How many there are.
        report: Told of every outcome as well.
        clock: Seconds, from any beginning.
    """

    def __init__(
        self,
        title: str,
        total: int,
        report: Callable[[Outcome], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title = title
        self._total = total
        self._report = report
        self._clock = clock
        self._began_s = clock()
        self._bar: tqdm[None] | None = None
        self._counts: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._cost_usd: float | None = 0.0  # None as soon as one reply's price is unknown

    def __enter__(self) -> Progress:
        self._began_s = self._clock()
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
        counts = self._counts
        words = [f"failed {counts['failed']}", f"cached {counts['cached']}"]
        return ", ".join(word for word in (*words, self._rate(), self._money()) if word)

    def _rate(self) -> str:
        """Tokens a second; empty before the first token or second."""
        tokens = self._counts["input"] + self._counts["output"]
        elapsed_s = self._clock() - self._began_s
        return f"{tokens / elapsed_s:,.0f} tokens/s" if tokens and elapsed_s > 0 else ""

    def _money(self) -> str:
        """Dollars so far; empty where it costs nothing, as a judge of one's own does."""
        if self._cost_usd is None:
            return "cost unknown"
        return f"{self._cost_usd:.4f} USD" if self._cost_usd else ""

    def summary(self) -> str:
        """The counts in words, and the most frequent failures."""
        counts = self._counts
        words = (
            f"{counts['asked']} asked, {counts['cached']} of them answered from the cache, "
            f"{counts['failed']} failed; {counts['input']} tokens in, {counts['output']} out"
        )
        words = ", ".join(word for word in (words, self._rate(), self._money()) if word)
        worst = "".join(f"\n  {n} x {what}" for what, n in self._failures.most_common(5))
        return words + worst
