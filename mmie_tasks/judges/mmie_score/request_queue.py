"""The queue of requests to the engine, whose prompts threads prepare while the device computes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeAlias

from mmie_tasks.judges.base import JudgeError, JudgeRequest
from mmie_tasks.judges.mmie_score.generation import FailedPrompt, JudgePrompt
from mmie_tasks.judges.mmie_score.inputs import InputBuilder

MAX_AHEAD = 24  # prompts prepared in advance: at most about 0.75 GB of tiles
_MAX_THREADS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRequest:
    """A request on its way to the engine.

    Attributes:
        key: Identifies it; its outcome has the same key.
        images: The bytes of its image files, if they are on another machine.
    """

    key: int
    request: JudgeRequest
    images: Mapping[Path, bytes] = field(default_factory=dict)


RequestQueue: TypeAlias = "SimpleQueue[QueuedRequest | None]"
"""Requests on their way to the engine, from other threads or all at once; None is the end."""


def queue_of(requests: Sequence[JudgeRequest], order: Iterable[int]) -> RequestQueue:
    """All of some requests in this order; a key is the number of the request."""
    queue: RequestQueue = SimpleQueue()
    for index in order:
        queue.put(QueuedRequest(key=index, request=requests[index]))
    queue.put(None)
    return queue


def longest_first(builder: InputBuilder, requests: Sequence[JudgeRequest]) -> list[int]:
    """The numbers of the requests, by the length of prompt and longest reply."""
    with ThreadPoolExecutor(thread_count()) as threads:
        prompts = list(threads.map(builder.length, requests))
    lengths = [
        tokens + request.max_tokens for tokens, request in zip(prompts, requests, strict=True)
    ]
    return sorted(range(len(requests)), key=lambda index: -lengths[index])


class PromptPreparer:
    """Prepares the prompts of requests in advance, in their order.

    Its threads run until `close`.
    """

    def __init__(self, builder: InputBuilder, requests: RequestQueue) -> None:
        self._builder = builder
        self._requests = requests
        self._has_more = True
        self._ahead: deque[Future[JudgePrompt | FailedPrompt]] = deque()
        self._threads = ThreadPoolExecutor(thread_count(), thread_name_prefix="judge-inputs")

    def close(self) -> None:
        """End the threads; prompts that were not begun are dropped."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def get(self, *, wait: bool) -> JudgePrompt | FailedPrompt | None:
        """See `PromptSource.get`."""
        while self._has_more and len(self._ahead) < MAX_AHEAD:
            try:
                queued = self._requests.get(block=wait and not self._ahead)
            except Empty:
                break
            if queued is None:
                self._has_more = False
            else:
                self._ahead.append(self._threads.submit(self._prepare, queued))
        if not self._ahead or not (wait or self._ahead[0].done()):
            return None
        return self._ahead.popleft().result()

    def _prepare(self, queued: QueuedRequest) -> JudgePrompt | FailedPrompt:
        try:
            return self._builder.prompt(queued.key, queued.request, queued.images)
        except JudgeError as error:
            return FailedPrompt(key=queued.key, error=error)


def thread_count() -> int:
    """Threads that prepare inputs: a scheduler such as Slurm gives a process some of the cores."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    )
    return max(2, min(_MAX_THREADS, cores - 1))
