"""One server: how it is asked, how many at once, and whether it is well."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import openai
from loguru import logger

from mmie_tasks.http.errors import TRY_ERRORS, Trouble, lower, trouble_of
from mmie_tasks.http.rate_limit import Health, Limiter, Pace, exhausted_s
from mmie_tasks.judges.base import JudgeRefused, JudgeReply, JudgeRequest, Usage
from mmie_tasks.judges.openai import wire
from mmie_tasks.judges.openai.settings import Settings, shown

# The provider's SDK, made to try once: there is one retry loop, and it is ours.

_CONNECT_S = 10.0
_NO_KEY = "EMPTY"  # the SDK wants some word; servers that need no key do not read it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Address:
    """An address without the user and password it may hold, which go into a header.

    The HTTP library would do the same, and log the whole address.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)


def async_client(settings: Settings, url: str) -> openai.AsyncOpenAI:
    """A client for one of the servers; to be made and closed in the loop that uses it."""
    address, told = _address(url), _told(settings, settings.timeout_s)
    if settings.api_type == "azure":
        return openai.AsyncAzureOpenAI(
            azure_endpoint=address.url,
            api_version=settings.api_version,
            default_headers=address.headers,
            **told,
        )
    return openai.AsyncOpenAI(base_url=address.url, default_headers=address.headers, **told)


def client(settings: Settings, url: str, timeout_s: float) -> openai.OpenAI:
    """A client that blocks, for a few requests before a run."""
    address, told = _address(url), _told(settings, timeout_s)
    if settings.api_type == "azure":
        return openai.AzureOpenAI(
            azure_endpoint=address.url,
            api_version=settings.api_version,
            default_headers=address.headers,
            **told,
        )
    return openai.OpenAI(base_url=address.url, default_headers=address.headers, **told)


def _told(settings: Settings, timeout_s: float) -> dict[str, Any]:
    """What every kind of client is told."""
    timeout = openai.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s))
    return {"api_key": settings.api_key or _NO_KEY, "timeout": timeout, "max_retries": 0}


def _address(url: str) -> _Address:
    parts = urlsplit(url)
    if parts.username is None:
        return _Address(url=url, headers={})
    words = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    basic = base64.b64encode(words.encode()).decode("ascii")
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return _Address(url=bare, headers={"Authorization": f"Basic {basic}"})


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
        self._client = async_client(settings, url)

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


# From an event loop in a thread of its own to a generator in the caller's.

T = TypeVar("T")


class _End:
    """Nothing comes any more."""


@dataclass(frozen=True, slots=True)
class _Running:
    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[Any]

    def cancel(self) -> None:
        with suppress(RuntimeError):  # the loop has just ended by itself
            self.loop.call_soon_threadsafe(self.task.cancel)


def stream(work: Callable[[Callable[[T], None]], Coroutine[Any, Any, None]]) -> Iterator[T]:
    """Run `work` in a loop of its own and give what it emits, as it comes.

    When the caller stops listening, or is interrupted, the work is cancelled and waited for.

    Args:
        work: Is called with the function that emits.

    Raises:
        BaseException: What `work` raised.
    """
    items: SimpleQueue[T | _End] = SimpleQueue()
    running: Future[_Running] = Future()

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine that runs is in a task
        running.set_result(_Running(asyncio.get_running_loop(), task))
        await work(items.put)

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="judge") as pool:
        ended = pool.submit(lambda: asyncio.run(main()))
        ended.add_done_callback(lambda _: items.put(_End()))
        try:
            while not isinstance(item := items.get(), _End):
                yield item
            ended.result()
        finally:
            if not ended.done():
                running.result().cancel()
