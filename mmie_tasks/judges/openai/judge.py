"""The `openai` judge: many requests at once to one or several OpenAI-compatible servers.

The SDK takes a second to import; it is not before something is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from functools import partial
from time import monotonic

from mmie_tasks.http.budget import Budget
from mmie_tasks.http.client import stream
from mmie_tasks.http.rate_limit import Pace
from mmie_tasks.judges.base import JudgeRequest, Outcome
from mmie_tasks.judges.openai.check import missing_key
from mmie_tasks.judges.openai.settings import Settings


class OpenAIJudge:
    """Asks for chat completions. What it has spent counts over its whole life.

    Args:
        settings: Who is asked and how.
        pace: How long to wait between tries.
    """

    def __init__(self, settings: Settings, *, pace: Pace | None = None) -> None:
        self._settings = settings
        self._pace = pace or Pace()
        self._budget = Budget(max_cost_usd=settings.max_cost_usd, price=settings.price)

    def __repr__(self) -> str:
        return f"OpenAIJudge({self._settings!r})"

    @property
    def signature(self) -> str:
        """The model and how it is asked."""
        return self._settings.signature

    @property
    def spent_usd(self) -> float:
        """US dollars spent by this object, 0 where the price is not known."""
        return self._budget.spent_usd

    def check(self) -> None:
        """Return if the key, the server and the model are right: see `check.check`.

        Raises:
            JudgeMisconfigured: They are not.
        """
        from mmie_tasks.judges.openai.check import check

        check(self._settings, pace=self._pace)

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Give one outcome for each request, as they come. Nothing is sent before the first is.

        Closing the iterator early hangs up on what is on its way.
        """
        if (error := missing_key(self._settings)) is not None:
            yield from ((index, error) for index in range(len(requests)))
        elif requests:
            yield from stream(partial(self._ask, requests))

    async def _ask(
        self, requests: Sequence[JudgeRequest], emit: Callable[[tuple[int, Outcome]], None]
    ) -> None:
        from mmie_tasks.http.client import Endpoint
        from mmie_tasks.http.retries import Dispatch

        async with AsyncExitStack() as stack:
            endpoints = []
            for url in self._settings.base_urls:
                endpoint = Endpoint(self._settings, url, pace=self._pace, clock=monotonic)
                stack.push_async_callback(endpoint.close)
                endpoints.append(endpoint)
            await Dispatch(
                requests,
                endpoints,
                settings=self._settings,
                budget=self._budget,
                pace=self._pace,
                tell=lambda index, outcome: emit((index, outcome)),
            ).run()
