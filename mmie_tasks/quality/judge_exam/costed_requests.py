"""Judges requests together, and says what 1,000 of them cost in US dollars and seconds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from mmie_tasks.judges.base import Judge
from mmie_tasks.judging.judge import judge_together
from mmie_tasks.judging.requests import CheckedRequest
from mmie_tasks.record.reply import JudgeResult


@dataclass(frozen=True, slots=True, kw_only=True)
class CostedResults:
    """Results in the order of the requests, and their cost.

    US dollars are those of 1,000 replies, cached ones at their original cost; None if the price of
    a reply is unknown, or there is none. Seconds are at the judge's concurrency; None if all
    replies came from the cache.
    """

    results: Sequence[JudgeResult]
    usd_per_1000: float | None
    seconds_per_1000: float | None


def judge_with_cost(judge: Judge, requests: Sequence[CheckedRequest], title: str) -> CostedResults:
    """The results of `judge_together`, with their cost."""
    began_s = time.monotonic()
    results = judge_together(judge, requests, title)
    elapsed_s = time.monotonic() - began_s
    replies = [reply for result in results for reply in result.replies]
    sent = sum(not reply.cached for reply in replies)
    costs = [reply.usage.cost_usd for reply in replies]
    known = [cost for cost in costs if cost is not None]
    return CostedResults(
        results=results,
        usd_per_1000=1000 * sum(known) / len(known) if known and len(known) == len(costs) else None,
        seconds_per_1000=1000 * elapsed_s / sent if sent else None,
    )
