"""From an event loop in a thread of its own to a generator in the caller's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, TypeVar

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
