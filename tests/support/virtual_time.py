"""`Dispatch` against a server without sockets, on a clock that jumps: the same on any machine.

Nothing in it waits for anything but time, so instead of waiting the clock is set forward.
"""

from __future__ import annotations

import asyncio
import selectors
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from mmie_tasks.http import retries as dispatch
from mmie_tasks.http.budget import Budget
from mmie_tasks.http.client import Answered, Endpoint
from mmie_tasks.http.errors import Trouble
from mmie_tasks.http.rate_limit import Pace
from mmie_tasks.judges.base import JudgeReply, JudgeRequest, Outcome, Usage
from mmie_tasks.judges.openai.settings import Options, Settings, read_settings
from support.judge_asking import requests

URL = "http://127.0.0.1:9/v1"  # nobody is asked there


class _Jumping(selectors.DefaultSelector):
    now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "everybody waits, and nothing will ever happen"
        self.now_s += timeout
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.clock = _Jumping()
        super().__init__(self.clock)

    def time(self) -> float:
        return self.clock.now_s


class Simulated(Endpoint):
    """Answers after `delay_s`; says 429 to what is more than `at_most` at once.

    Attributes:
        fault: What befalls a request instead, if anything, by its number.
        asked: How often each request arrived.
        came: How often it answered, or what kind of trouble it made.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float], **how: Any) -> None:
        pace = Pace(base_s=0.02, cap_s=0.1, no_growth_s=0.2, fraction=lambda: 1.0)
        super().__init__(settings, URL, pace=pace, clock=clock)
        self.at_most: float = how.get("at_most", float("inf"))
        self.retry_after_s: float | None = how.get("retry_after_s")
        self.fault: Callable[[int], Trouble | None] = how.get("fault", lambda _: None)
        self.at_once = self.most_at_once = 0
        self.asked: Counter[int] = Counter()
        self.came: Counter[str] = Counter()

    async def ask(self, request: JudgeRequest) -> Answered | Trouble:
        await asyncio.sleep(0.001)  # the way there
        came = await self._answer(int(str(request.parts[0]).split()[1]))
        self.came["answered" if isinstance(came, Answered) else came.kind] += 1
        return came

    async def _answer(self, number: int) -> Answered | Trouble:
        self.asked[number] += 1
        if self.at_once >= self.at_most:
            return Trouble(kind="busy", why="HTTP 429", wait_s=self.retry_after_s)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        fault = self.fault(number)
        await asyncio.sleep(0.1 if fault is not None else 0.05)
        self.at_once -= 1
        reply = JudgeReply(text="5", model="m", usage=Usage())
        return fault or Answered(outcome=reply, usage=Usage())


def simulate(count: int, **how: Any) -> tuple[Simulated, list[Outcome]]:
    """Ask so many questions; the server as it is at the end, and the outcomes in their order."""
    loop, outcomes = _Loop(), {}
    settings = replace(
        read_settings(Options(model="m", base_url=URL), {"MMIE_TASKS_CACHE": "/nowhere"}),
        max_concurrency=how.pop("max_concurrency", 100),
    )

    async def main() -> Simulated:
        server = Simulated(settings, loop.time, **how)
        asking = dispatch.Dispatch(
            requests(count),
            [server],
            settings=settings,
            budget=Budget(max_cost_usd=None, price=None),
            pace=Pace(base_s=0.02, cap_s=0.1, fraction=lambda: 1.0),
            tell=outcomes.__setitem__,
        )
        await asking.run()
        await server.close()
        return server

    with patch.object(dispatch, "monotonic", loop.time):
        try:
            server = loop.run_until_complete(main())
        finally:
            loop.close()
    assert sorted(outcomes) == list(range(count))
    return server, [outcomes[index] for index in range(count)]
