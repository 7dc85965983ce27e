"""The queue of requests to an engine; threads prepare their prompts while the device computes."""

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
        key: Identifies the request; its outcome has the same key.
        images: The bytes of its image files, if they are on another machine.
    """

    key: int
    request: JudgeRequest
    images: Mapping[Path, bytes] = field(default_factory=dict)


RequestQueue: TypeAlias = "SimpleQueue[QueuedRequest | None]"
"""Requests on their way to the engine; None marks the end."""


def queue_of(requests: Sequence[JudgeRequest], order: Iterable[int]) -> RequestQueue:
    """A queue of these requests in this order; a request's key is its index."""
    queue: RequestQueue = SimpleQueue()
    for index in order:
        queue.put(QueuedRequest(key=index, request=requests[index]))
    queue.put(None)
    return queue


def longest_first(builder: InputBuilder, requests: Sequence[JudgeRequest]) -> list[int]:
    """The indices of the requests, by the length of prompt and longest reply together."""
    with ThreadPoolExecutor(_thread_count()) as threads:
        prompts = list(threads.map(builder.length, requests))
    lengths = [
        tokens + request.max_tokens for tokens, request in zip(prompts, requests, strict=True)
    ]
    return sorted(range(len(requests)), key=lambda index: -lengths[index])


class PromptPreparer:
    """Prepares prompts in advance, in the requests' order, in threads that run until `close`."""

    def __init__(self, builder: InputBuilder, requests: RequestQueue) -> None:
        self._builder = builder
        self._requests = requests
        self._has_more = True
        self._ahead: deque[Future[JudgePrompt | FailedPrompt]] = deque()
        self._threads = ThreadPoolExecutor(_thread_count(), thread_name_prefix="judge-inputs")

    def close(self) -> None:
        """End the threads; drops prompts that were not begun."""
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


def _thread_count() -> int:
    cores = (  # a scheduler such as Slurm may give a process only some of the cores
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    )
    return max(2, min(_MAX_THREADS, cores - 1))
