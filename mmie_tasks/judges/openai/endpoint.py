"""One server: how it is asked, how many at once, and whether it is well."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from loguru import logger

from mmie_tasks.judges.base import JudgeRefused, JudgeReply, JudgeRequest, Usage
from mmie_tasks.judges.openai import clients, wire
from mmie_tasks.judges.openai.health import Health
from mmie_tasks.judges.openai.limiter import Limiter
from mmie_tasks.judges.openai.pace import Pace, exhausted_s
from mmie_tasks.judges.openai.settings import Settings, shown
from mmie_tasks.judges.openai.trouble import TRY_ERRORS, Trouble, lower, trouble_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What a server answered, and what that took."""

    outcome: JudgeReply | JudgeRefused
    usage: Usage


class Endpoint:
    """A server and what has been learnt of it. Lives in one event loop."""

    def __init__(
        self, settings: Settings, url: str, *, pace: Pace, clock: Callable[[], float]
    ) -> None:
        self.place = shown(url)
        self.limiter = Limiter(
            ceiling=settings.max_concurrency, no_growth_s=pace.no_growth_s, clock=clock
        )
        self.health = Health(pace=pace, clock=clock)
        self._settings = settings
        self._dialect = wire.dialect_of(settings.model)
        self._client = clients.async_client(settings, url)

    async def close(self) -> None:
        """Close its connections."""
        await self._client.close()

    def free_at(self) -> float:
        """When it may be sent one more request, on the clock."""
        if self.health.shaky and self.limiter.in_flight:
            return float("inf")  # one probe at a time
        return max(self.health.ready_at(), self.limiter.room_at())

    async def ask(self, request: JudgeRequest) -> Answered | Trouble:
        """Ask once; again at once where the server only did not understand how it was asked.

        Raises:
            RequestBroken: An image cannot be read.
        """
        tried: set[wire.Dialect] = set()
        while True:
            dialect = self._dialect
            tried.add(dialect)
            try:
                return await self._ask(request, dialect)
            except TRY_ERRORS as error:
                trouble = trouble_of(error, self._settings.secrets)
            other = wire.next_dialect(dialect, trouble.said) if trouble.said else None
            if other is None or other in tried:
                return trouble
            self._learn(other, trouble.why)

    async def _ask(self, request: JudgeRequest, dialect: wire.Dialect) -> Answered:
        told = self._settings
        body = told.body(request, dialect)
        # The SDK's time limit is one for each piece of the response; this is one for all of it.
        raw = await asyncio.wait_for(
            self._client.chat.completions.with_raw_response.create(**body),  # type: ignore[call-overload]
            told.timeout_s,
        )
        if (pause_s := exhausted_s(lower(raw.headers))) is not None:
            self.limiter.pause(pause_s)
        completion = wire.parse(raw.content)
        outcome = wire.outcome(completion, model=told.model, price=told.price)
        return Answered(outcome=outcome, usage=wire.usage(completion, told.price))

    def _learn(self, dialect: wire.Dialect, why: str) -> None:
        if dialect == self._dialect:
            return  # another request was quicker
        self._dialect = dialect
        told = self._settings.temperature
        lost = "" if dialect.takes_temperature or told is None else f", temperature {told:g} is not"
        logger.warning(
            f"The judge `{self._settings.model}` at {self.place} takes another way of asking: "
            f"`{dialect.max_tokens_name}` is sent{lost}. It said: {why}"
        )
