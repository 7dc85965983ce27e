"""An engine of MMIE-Score in an actor of Ray, on the GPU that Ray assigned to it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from loguru import logger

from mmie_tasks.judges.base import JudgeRequest, Outcome
from mmie_tasks.judges.mmie_score.local import LocalJudge, LocalOptions
from mmie_tasks.judges.mmie_score.request_queue import QueuedRequest, RequestQueue


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReply:
    """An outcome from an engine.

    Attributes:
        machine: The engine's GPU and versions.
        warnings: Texts that it has logged since its last reply.
    """

    outcome: Outcome
    machine: str | None = None
    warnings: tuple[str, ...] = ()


class RemoteEngine:
    """A judge in an actor of Ray.

    Requests of many calls are computed together: they go through one queue to a judge that takes
    them as rows become free. Options are those of `LocalOptions`.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - checked by the judge
        self._options = LocalOptions(**options)
        self._queue: RequestQueue | None = None
        self._keys = count()
        self._in_flight: dict[int, asyncio.Future[Outcome]] = {}
        self._error: BaseException | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="engine")
        self._warnings: list[str] = []
        logger.add(
            lambda message: self._warnings.append(message.record["message"]), level="WARNING"
        )

    @cached_property
    def _judge(self) -> LocalJudge:
        import ray

        # The number of the process that started Ray is not this one's.
        environment = {name: value for name, value in os.environ.items() if name != "LOCAL_RANK"}
        options = self._options
        if options.device == "cuda" and ray.is_initialized():
            options = replace(options, device=assigned_device(ray.get_gpu_ids(), environment))
        return LocalJudge(options, environment)

    async def signature(self) -> str:
        """The judge's signature on this machine, after its kernels were tried; raises like
        `LocalJudge.start`.
        """

        def started() -> str:
            self._judge.start()
            return self._judge.signature()

        return await asyncio.get_running_loop().run_in_executor(self._thread, started)

    async def judge(self, request: JudgeRequest, *image_contents: bytes) -> EngineReply:
        """The outcome of a request, whose image files need not be on this machine: their bytes are
        in their order. An exception ends the engine.
        """
        if self._error is not None:
            raise self._error
        loop = asyncio.get_running_loop()
        if self._queue is None:
            self._queue = SimpleQueue()
            job = loop.run_in_executor(self._thread, self._compute, self._queue, loop)
            job.add_done_callback(self._end)
        key = next(self._keys)
        pending: asyncio.Future[Outcome] = loop.create_future()
        self._in_flight[key] = pending
        images = dict(zip(image_paths(request), image_contents, strict=True))
        self._queue.put(QueuedRequest(key=key, request=request, images=images))
        outcome = await pending
        warnings, self._warnings[:] = tuple(self._warnings), []
        return EngineReply(outcome=outcome, machine=self._judge.machine(), warnings=warnings)

    def close(self) -> None:
        """End the thread after the requests that are in flight."""
        if self._queue is not None:
            self._queue.put(None)

    def _compute(self, queue: RequestQueue, loop: asyncio.AbstractEventLoop) -> None:
        for key, outcome in self._judge.serve(queue):
            loop.call_soon_threadsafe(self._finish, key, outcome)

    def _finish(self, key: int, outcome: Outcome) -> None:
        self._in_flight.pop(key).set_result(outcome)

    def _end(self, job: asyncio.Future[None]) -> None:
        """Pass an exception of the thread to everything that waits for it."""
        self._error = job.exception() or RuntimeError("the engine stopped")
        while self._in_flight:
            self._in_flight.popitem()[1].set_exception(self._error)


def image_paths(request: JudgeRequest) -> list[Path]:
    """The image files of a request, each once, in order."""
    return list(dict.fromkeys(part for part in request.parts if isinstance(part, Path)))


def assigned_device(gpu_ids: Sequence[object], environment: Mapping[str, str]) -> str:
    """The GPU that Ray has assigned to this process, as torch counts.

    Ray shows an actor its own GPU only, unless ``RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES`` is
    set. Its ids are then those in ``CUDA_VISIBLE_DEVICES`` of the process that started Ray.

    >>> assigned_device([5], {"CUDA_VISIBLE_DEVICES": "4,5"}), assigned_device([2], {})
    ('cuda:1', 'cuda:2')
    >>> assigned_device([5], {"CUDA_VISIBLE_DEVICES": "5"})
    'cuda:0'
    """
    visible = [name.strip() for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",")]
    gpu = str(gpu_ids[0]) if gpu_ids else "0"
    return f"cuda:{visible.index(gpu) if gpu in visible else gpu}"
