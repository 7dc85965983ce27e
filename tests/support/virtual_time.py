"""`Sender` with a server without sockets, on a virtual clock: the same on any machine.

Nothing in it waits for anything but time, so instead of waiting the clock is set forward.
"""

import asyncio
import selectors
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf

from mmie_tasks.http.access import Access
from mmie_tasks.http.errors import Fault
from mmie_tasks.http.sender import Budget, Pace, Sender, _Call


def fails(status, wait_s=None):
    """What a request gets for an HTTP status."""
    kinds = {401: "denied", 429: "busy", 400: "rejected"}
    return Fault(kinds.get(status, "failed"), f"HTTP {status}", status=status, wait_s=wait_s)


class _VirtualSelector(selectors.DefaultSelector):
    now_s = 0.0

    def select(self, timeout=None):
        assert timeout is not None, "every task waits, and nothing will ever happen"
        self.now_s += timeout
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self):
        self.clock = _VirtualSelector()
        super().__init__(self.clock)

    def time(self):
        return self.clock.now_s


@dataclass(kw_only=True)
class SimulatedServer:
    """Replies to a number after `reply_s`; answers 429 to more than `at_most` requests at once.

    Attributes:
        fault: The fault of a request, if any, by its number.
        cost_usd: The cost of a reply, if it is known, by the number of its request.
        attempts: How often each request arrived.
        results: How often it replied, or failed in which way.
        seconds: How long all requests took, once they are done.
    """

    at_most: float = inf
    retry_after_s: float | None = None
    fault: Callable[[int], Fault | None] = lambda _: None
    reply_s: float = 0.05
    fault_s: float = 0.1
    cost_usd: Callable[[int], float | None] = lambda _: None

    def __post_init__(self):
        self.seconds, self.at_once, self.most_at_once = 0.0, 0, 0
        self.attempts, self.results = Counter(), Counter()

    async def send(self, number):
        await asyncio.sleep(0.001)  # the latency of the network
        fault = await self._answer(number)
        self.results[fault.kind if fault else "answered"] += 1
        if fault:
            raise fault
        self.budget.spend(self.cost_usd(number))
        return "5"

    async def _answer(self, number):
        self.attempts[number] += 1
        if self.at_once >= self.at_most:
            return fails(429, self.retry_after_s)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        fault = self.fault(number)
        await asyncio.sleep(self.fault_s if fault is not None else self.reply_s)
        self.at_once -= 1
        return fault


SHORT_WAITS = Pace(base_s=0.02, cap_s=0.1, short_cap_s=0.1, no_growth_s=0.2, fraction=lambda: 1.0)


def sender_of(*, pace=SHORT_WAITS, budget=None, **options):
    options = {"max_concurrency": 100, "patience_s": 120.0, **options}
    access = Access(
        service="The service", base_url="http://h", api_key=None, key_variables=(), timeout_s=1.0
    )
    return Sender(access=access, budget=budget or Budget(), pace=pace, **options)


OPTIONS = ("pace", "budget", "max_concurrency", "patience_s")


def simulate(count, *, sender=None, **how):
    """Send so many requests; the server as it is at the end, and the results in their order.

    `how` has the options of the sender and those of the server.
    """
    sender = sender or sender_of(**{name: how.pop(name) for name in OPTIONS if name in how})
    loop, server, results = _Loop(), SimulatedServer(**how), {}

    async def main():
        server.budget = sender.budget
        call = _Call(sender, range(count), server.send, lambda one: results.__setitem__(*one))
        await call.run()
        server.seconds = loop.time()

    # In a thread: while a browser of the page tests is open, a loop runs in this one.
    with ThreadPoolExecutor(1) as thread:
        try:
            thread.submit(lambda: loop.run_until_complete(main())).result()
        finally:
            loop.close()
    assert sorted(results) == list(range(count))
    return server, [results[index] for index in range(count)]
