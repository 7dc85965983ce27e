"""Sends many requests to a server, in a thread with its own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Event
from typing import TYPE_CHECKING, TypeAlias

from mmie_tasks.http.attempt import Failure, ReplyT, RequestT, Success
from mmie_tasks.http.endpoint import Endpoint
from mmie_tasks.http.retries import Dispatcher
from mmie_tasks.http.sender import ReplyStore, Sender, Undelivered

if TYPE_CHECKING:
    from openai import AsyncOpenAI


_STOP_CHECK_S = 0.2  # between looks at whether a call is to end

AttemptWith: TypeAlias = Callable[
    ["AsyncOpenAI"], Callable[[RequestT], Awaitable[Success[ReplyT] | Failure]]
]


def send_all(
    requests: Sequence[RequestT],
    attempt_with: AttemptWith[RequestT, ReplyT],
    sender: Sender,
    store: ReplyStore[ReplyT] | None = None,
    stop: Event | None = None,
) -> Iterator[tuple[int, ReplyT | Undelivered]]:
    """Send all requests and yield one result per request, with its index, as results arrive.

    `attempt_with` returns, for the server's client, the function that sends a request once. Replies
    are looked up in the store before a request is sent, and stored before they are yielded.

    Closing the iterator early, an interruption, or another thread that sets `stop` cancels the
    requests in flight and ends the thread.

    Raises:
        KeyboardInterrupt: `stop` is set.
    """
    stop = stop or Event()
    results: SimpleQueue[tuple[int, ReplyT | Undelivered] | None] = SimpleQueue()
    cancellation: Future[Callable[[], object]] = Future()

    def report(index: int, result: ReplyT | Undelivered) -> None:
        results.put((index, result))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        task = loop.create_task(_send_all(requests, attempt_with, sender, report, store))
        cancellation.set_result(lambda: loop.call_soon_threadsafe(task.cancel))
        await task

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="http") as pool:
        finished = pool.submit(lambda: asyncio.run(main()))
        finished.add_done_callback(lambda _: results.put(None))
        try:
            while not stop.is_set():
                with suppress(Empty):
                    if (result := results.get(timeout=_STOP_CHECK_S)) is None:
                        return finished.result()
                    yield result
            raise KeyboardInterrupt
        finally:
            if not finished.done():
                with suppress(RuntimeError):  # the loop has just ended
                    cancellation.result()()


async def _send_all(
    requests: Sequence[RequestT],
    attempt_with: AttemptWith[RequestT, ReplyT],
    sender: Sender,
    report: Callable[[int, ReplyT | Undelivered], object],
    store: ReplyStore[ReplyT] | None,
) -> None:
    from mmie_tasks.http.client import async_client  # the SDK takes a second to import

    async with async_client(sender.access) as client:
        send = attempt_with(client)
        endpoint = Endpoint(send=send, ceiling=sender.max_concurrency, pace=sender.pace)
        await Dispatcher(requests, endpoint, sender, report, store).run()
