"""Cost of HTTP 500s to the `openai` judge: ``python tests/bench/judge_storms.py``.

A server replies to a fixed number of requests at once and answers 500 at random. The bound is the
time of a server that is always fully used: requests times seconds per reply, divided by the slots
and by the share of requests that succeed. The first table is the real scheduler on a virtual clock
with a list of seeds, so it is the same on any machine; the last line is a server on the loopback
interface.
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
    *(Storm(2000, 1.0, 64, failing, 20) for failing in (0.0, 0.02, 0.05, 0.1, 0.2)),
    Storm(6000, 0.2, 64, 0.3, 10),
    *(Storm(400, 1.0, slots, failing, 50) for slots in (20, 100) for failing in (0.5, 0.7)),
    Storm(400, 0.2, 64, 0.5, 50),
    Storm(400, 0.2, 64, 0.7, 50),
    Storm(40, 0.2, 3, 0.3, 500),
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
    print("500s  requests  reply  slots  seeds   time / bound: median  99 %   lost")
    for storm in STORMS:
        runs = [storm.run(seed) for seed in range(storm.seeds)]
        ratios = sorted(ratio for ratio, _ in runs)
        print(
            f"{storm.failing:4.0%}  {storm.requests:8,}  {storm.reply_s:4.1f}s  {storm.slots:5}"
            f"  {storm.seeds:5}  {median(ratios):20.2f}  {ratios[int(0.99 * len(ratios))]:5.2f}"
            f"  {sum(lost for _, lost in runs):5}"
        )
    sockets = Storm(400, 1.0, 64, 0.05, 1)
    print(f"400 requests of 1 s on sockets, 5 % 500s: {loopback_ratio(sockets):.2f} x the bound")


if __name__ == "__main__":
    main()
