"""Cost of HTTP 500s to the `openai` judge: ``python tests/bench/judge_storms.py``.

A server replies to a fixed number of requests at once and answers 500 at random. The bound is the
time of a server that is always fully used: requests times seconds per reply, divided by the slots
and by the share of requests that succeed. The first table is the real scheduler on a virtual clock
with a list of seeds, so it is the same on any machine, and the second how servers that never reply
end; both have the figures of the scheduler with a circuit breaker, which was there before, beside
them. The last line is a server on the loopback interface.
"""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from loguru import logger

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.judge_asking import open_openai
from support.judge_server import JudgeServer
from support.loopback import error
from support.virtual_time import fails, simulate

from mmie_tasks.http.errors import TIMED_OUT, Fault
from mmie_tasks.http.sender import Pace, Undelivered
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.record.reply import JudgeReply


@dataclass(frozen=True, slots=True)
class Storm:
    """A number of requests to a server that often fails."""

    requests: int
    reply_s: float
    slots: int
    failing: float  # share of requests, 0 to 1
    seeds: int
    before: str  # median and 99 % of the scheduler before

    @property
    def bound_s(self) -> float:
        return self.requests * self.reply_s / self.slots / (1 - self.failing)

    def run(self, seed: int) -> tuple[float, int]:
        """The time in units of the bound, and the lost requests."""
        dice = random.Random(seed)  # noqa: S311 - a simulation
        server, results = simulate(
            self.requests,
            pace=Pace(fraction=random.Random(seed + 1).random),  # noqa: S311
            at_most=self.slots,
            reply_s=self.reply_s,
            fault_s=self.reply_s,
            fault=lambda _: fails(500) if dice.random() < self.failing else None,
        )
        lost = sum(isinstance(result, Undelivered) for result in results)
        return server.seconds / self.bound_s, lost


STORMS = (
    Storm(400, 1.0, 20, 0.0, 20, "1.05  1.06"),
    Storm(2000, 1.0, 64, 0.0, 20, "1.06  1.06"),
    Storm(2000, 1.0, 64, 0.02, 20, "1.07  1.10"),
    Storm(2000, 1.0, 64, 0.05, 20, "1.07  1.11"),
    Storm(2000, 1.0, 64, 0.1, 20, "1.10  1.14"),
    Storm(2000, 1.0, 64, 0.2, 20, "1.11  1.14"),
    Storm(6000, 0.2, 64, 0.3, 10, "1.06  1.07"),
    Storm(400, 1.0, 20, 0.5, 50, "1.12  1.26"),
    Storm(400, 1.0, 20, 0.7, 50, "1.14  1.37"),
    Storm(400, 1.0, 100, 0.5, 50, "2.28  2.96"),
    Storm(400, 1.0, 100, 0.7, 50, "2.40  3.47"),
    Storm(400, 0.2, 64, 0.5, 50, "1.95  2.63"),
    Storm(400, 0.2, 64, 0.7, 50, "2.08  3.11"),
    Storm(40, 0.2, 3, 0.3, 500, "1.07  1.47"),
)


@dataclass(frozen=True, slots=True)
class End:
    """Requests to a server that never replies, or to all but one of them."""

    name: str
    requests: int
    fault: Fault
    before: str
    fault_s: float = 0.1
    poisoned: int | None = None  # the only request that fails

    def run(self) -> str:
        server, results = simulate(
            self.requests,
            pace=Pace(fraction=random.Random(1).random),  # noqa: S311
            at_most=20 if self.poisoned is not None else float("inf"),
            reply_s=1.0,
            fault_s=self.fault_s,
            fault=lambda number: self.fault if self.poisoned in (None, number) else None,
        )
        lost = sum(isinstance(result, Undelivered) for result in results)
        sent = server.attempts.total() - (self.requests if self.poisoned is not None else 0)
        return f"{server.seconds:7.0f} s  {sent:6,}  {lost:6,}"


ENDS = (
    End("503 for ever", 500, fails(503), "120 s, 42"),
    End("429 for ever", 500, fails(429), "120 s, 1,205"),
    End("429, Retry-After: 600", 500, fails(429, 600.0), "720 s, 17"),
    End("429, Retry-After: 4000", 500, fails(429, 4000.0), "0 s, 16"),
    End("401 for ever", 500, fails(401), "120 s, 42"),
    End("silent, timeout 120 s", 20_000, Fault("failed", TIMED_OUT), "240 s, 32", fault_s=120.0),
    End("one of 500 gets 500", 500, fails(500), "146 s, 57", poisoned=7),
)


def loopback_ratio(storm: Storm) -> float:
    dice = random.Random(1)  # noqa: S311 - a simulation

    def reply(_: object) -> object:
        return error(500) if dice.random() < storm.failing else "5"

    with JudgeServer(reply, delay_s=storm.reply_s) as server:
        judge = open_openai(
            {"OPENAI_API_KEY": "none"},
            model="judge-model",
            base_url=server.url,
            max_concurrency=storm.slots,
        )
        requests = [JudgeRequest(parts=(f"{i}",), max_tokens=50) for i in range(storm.requests)]
        began = time.perf_counter()
        replies = [reply for _, reply in judge.ask(requests) if isinstance(reply, JudgeReply)]
        assert len(replies) == storm.requests, f"{len(replies)} of {storm.requests} replies"
        return (time.perf_counter() - began) / storm.bound_s


def main() -> None:
    logger.remove()
    print("500s  requests  reply  slots  seeds   time / bound: median  99 %   lost  before")
    for storm in STORMS:
        runs = [storm.run(seed) for seed in range(storm.seeds)]
        ratios = sorted(ratio for ratio, _ in runs)
        print(
            f"{storm.failing:4.0%}  {storm.requests:8,}  {storm.reply_s:4.1f}s  {storm.slots:5}"
            f"  {storm.seeds:5}  {median(ratios):20.2f}  {ratios[int(0.99 * len(ratios))]:5.2f}"
            f"  {sum(lost for _, lost in runs):5}  {storm.before}"
        )
    print("a server that never replies    time    sent    lost  before")
    for end in ENDS:
        print(f"{end.name:25}{end.run()}  {end.before}")
    sockets = Storm(400, 1.0, 64, 0.05, 1, "")
    print(f"400 requests of 1 s on sockets, 5 % 500s: {loopback_ratio(sockets):.2f} x the bound")


if __name__ == "__main__":
    main()
