"""MMIE-Score on many GPUs by Ray: one engine for each GPU of a machine or a cluster, each in a process of its own.

`EnginePool` is in the process of the run; it hands out single requests, and gives those of an engine that is lost to
others. `RemoteEngine` runs in an actor of Ray. Ray is imported when a pool connects.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from loguru import logger

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.judges.base import (
    JudgeError,
    JudgeMisconfigured,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    RequestBroken,
    image_bytes,
)
from mmie_tasks.judges.mmie_score.ray_session import WITHOUT_RAY, Node, RaySession, reason_of

if TYPE_CHECKING:
    from mmie_tasks.judges.mmie_score.inputs import RequestQueue
    from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge

ObjectRef: TypeAlias = Any  # Ray's; the package does not need Ray
LOADING_LIMIT_S = 3600.0
"""How long an engine may take to its first reply: to start, to get its GPU and to load the weights."""

_MAX_LOSSES = 3  # a request that is in flight when this many engines are lost is not handed out again
_MAX_REPLACED = 2  # engines of a node that were lost before their first reply and are replaced
_LOOK_AGAIN_S = 2.0  # for nodes that have joined or were lost
_WAIT_S = 1.0
_PATIENCE_S = 60.0  # for engines to start, before a warning
_SAME_EVERYWHERE = "install the same versions of torch and mmie-tasks, and use the same checkpoint, on every machine"


class RemoteEngine:
    """A judge in an actor of Ray, on the GPU that Ray assigned to it.

    Requests of many calls are computed together: they go through one queue to a judge that takes them as rows become
    free. Options are those of `MmieScoreJudge`, except ``environment``, which is that of the actor's machine.
    """

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - checked by the judge
        self._options = options
        self._queue: RequestQueue | None = None
        self._keys = count()
        self._in_flight: dict[int, asyncio.Future[Outcome]] = {}
        self._error: BaseException | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="engine")

    @cached_property
    def _judge(self) -> MmieScoreJudge:
        from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge

        # Ray shows this process one GPU; the number of the process that started Ray is not its own.
        environment = {name: value for name, value in os.environ.items() if name != "LOCAL_RANK"}
        return MmieScoreJudge(**self._options, environment=environment)

    async def signature(self) -> str:
        """The judge's signature on this machine; raises like it."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._judge.signature)

    async def judge(self, request: JudgeRequest, longest_tokens: int, *image_contents: bytes) -> Outcome:
        """The outcome of a request, whose image files need not be on this machine: their bytes are in their order.

        `longest_tokens` are those of the longest request of the run, with its reply. An exception ends the engine.
        """
        from mmie_tasks.judges.mmie_score.inputs import QueuedRequest, RequestQueue

        if self._error is not None:
            raise self._error
        loop = asyncio.get_running_loop()
        if self._queue is None:
            self._queue = RequestQueue()
            job = loop.run_in_executor(self._thread, self._compute, self._queue, longest_tokens, loop)
            job.add_done_callback(self._end)
        key = next(self._keys)
        outcome: asyncio.Future[Outcome] = loop.create_future()
        self._in_flight[key] = outcome
        images = dict(zip(image_paths(request), image_contents, strict=True))
        self._queue.put(QueuedRequest(key=key, request=request, images=images))
        return await outcome

    def close(self) -> None:
        """End the thread after the requests that are in flight."""
        if self._queue is not None:
            self._queue.close()

    def _compute(self, queue: RequestQueue, longest_tokens: int, loop: asyncio.AbstractEventLoop) -> None:
        for key, outcome in self._judge.serve(queue, longest_tokens=longest_tokens):
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


@dataclass(eq=False, slots=True, kw_only=True)
class _Engine:
    """An engine, as the pool sees it."""

    actor: Any  # Ray's handle
    node: Node
    signature: ObjectRef | None  # the reply to its first call; None after that, and it gets requests
    in_flight: dict[ObjectRef, int] = field(default_factory=dict)  # requests by the reference to their outcome
    replies: int = 0
    progress_s: float = field(default_factory=time.monotonic)  # its last reply, or its first request while it was idle


class _Work:
    """The unfinished requests of a call, the longest first, and the image files of those that are in flight."""

    def __init__(self, requests: Sequence[JudgeRequest], lengths: Sequence[int]) -> None:
        self.requests = requests
        self.longest_tokens = max(lengths, default=0)
        self.waiting = deque(sorted(range(len(requests)), key=lambda index: -lengths[index]))
        self.unfinished = dict.fromkeys(range(len(requests)))
        self._losses: Counter[int] = Counter()
        self._images: dict[Path, ObjectRef] = {}
        self._users: dict[Path, set[int]] = {}

    def image_refs(self, index: int) -> list[ObjectRef]:
        """The image files of a request in Ray's object store, each put there once while a request needs it."""
        import ray

        paths = image_paths(self.requests[index])
        for path in paths:
            if path not in self._images:
                self._images[path] = ray.put(image_bytes(path))
            self._users.setdefault(path, set()).add(index)
        return [self._images[path] for path in paths]

    def finish(self, index: int, outcome: Outcome) -> tuple[int, Outcome]:
        """Mark a request as finished, and drop the files that no other one needs."""
        del self.unfinished[index]
        for path in image_paths(self.requests[index]):
            users = self._users.get(path, set())
            users.discard(index)
            if not users:
                self._images.pop(path, None)
        return index, outcome

    def give_back(self, indices: Sequence[int], lost: str = "") -> list[tuple[int, Outcome]]:
        """Have the requests of an engine handed out again, or finish those that have lost too many engines.

        `lost` is why the engine was lost; empty if it was refused, which is not the requests' fault.
        """
        self._losses.update(indices if lost else ())
        self.waiting.extendleft(index for index in reversed(indices) if self._losses[index] < _MAX_LOSSES)
        error = JudgeUnavailable(f"{_MAX_LOSSES} engines were lost while they computed this request; {lost}")
        return [self.finish(index, error) for index in indices if self._losses[index] >= _MAX_LOSSES]


class EnginePool:
    """Engines on all GPUs of a Ray session, and requests handed out to them.

    Args:
        session: The session, connected. The pool closes it.
        options: Of the engines.
        signature: That engines must have; None for that of the first engine.
        limit: The most engines; None for as many as there are GPUs.
        max_in_flight: The most requests in an engine: those that it computes at once and those that it prepares.
        deadline_s: How long an engine with requests may go without a reply before it is replaced.
        before_start: Called before the engines get requests, and so load their weights.
        engine_class: The class of the engines.
    """

    def __init__(
        self,
        session: RaySession,
        options: Mapping[str, object],
        *,
        signature: str | None,
        limit: int | None,
        max_in_flight: int,
        deadline_s: float,
        before_start: Callable[[], object] = lambda: None,
        engine_class: type = RemoteEngine,
    ) -> None:
        self._session, self._options, self._engine_class = session, options, engine_class
        self._signature, self._limit = signature, limit
        self._max_in_flight, self._deadline_s = max_in_flight, deadline_s
        self._before_start = before_start
        self._is_open = self._has_waited = False
        self._engines: list[_Engine] = []
        self._refused: Counter[str] = Counter()  # engines by node
        self._lost_early: Counter[str] = Counter()  # engines that were lost before their first reply, by node
        self._error: JudgeError | None = None  # of the first engine that was refused, else of the last that was lost
        self._looked_s = -_LOOK_AGAIN_S

    def signature(self) -> str:
        """The signature of the engines; waits for the first one if no other was given, raises if none can be used."""
        while self._signature is None:
            self._look_for_nodes()
            if not self._engines:
                error = self._no_engine()
                if isinstance(error, JudgeMisconfigured):
                    raise error
                raise JudgeMisconfigured(f"No engine can be used: {error}.", hint=WITHOUT_RAY)
            self._collect(_Work((), ()))
        return self._signature

    def ask(self, requests: Sequence[JudgeRequest], lengths: Sequence[int]) -> Iterator[tuple[int, Outcome]]:
        """Yield one outcome for each request as it arrives; if the caller stops before the last, the engines end."""
        if not requests:
            return
        if not self._is_open:
            self._before_start()
            self._is_open = True
        work = _Work(requests, lengths)
        with ExitStack() as stack:
            stack.callback(self.close)
            while work.unfinished:
                self._look_for_nodes()
                if not self._engines:
                    error = self._no_engine()
                    yield from [work.finish(index, error) for index in list(work.unfinished)]
                    break
                yield from self._hand_out(work)
                yield from self._collect(work)
            stack.pop_all()

    def close(self) -> None:
        """End the engines and the session, so that their GPUs are free; a later call starts them again."""
        for engine in self._engines:
            self._kill(engine)
        self._engines.clear()
        self._refused.clear()
        self._lost_early.clear()
        self._looked_s, self._error = -_LOOK_AGAIN_S, None
        self._is_open = self._has_waited = False
        self._session.close()

    def _look_for_nodes(self) -> None:
        """Start an engine for each GPU that has none."""
        if time.monotonic() < self._looked_s + _LOOK_AGAIN_S:
            return
        self._looked_s = time.monotonic()
        started: Counter[str] = Counter()
        for node in self._session.nodes():
            unusable = self._refused[node.id] + max(0, self._lost_early[node.id] - _MAX_REPLACED)
            running = sum(engine.node.id == node.id for engine in self._engines)
            for _ in range(node.gpus - unusable - running):
                if self._limit is None or len(self._engines) < self._limit:
                    self._engines.append(self._start(node))
                    started[node.name] += 1
        if started:
            machines = ", ".join(f"{number} on {name}" for name, number in started.items())
            logger.info(f"MMIE-Score: Ray starts engines: {machines}.")
        pending_s = min((self._looked_s - engine.progress_s for engine in self._engines), default=0)
        if pending_s > _PATIENCE_S and all(engine.signature is not None for engine in self._engines):
            if not self._has_waited:
                logger.warning(
                    f"MMIE-Score: no engine has started for {_PATIENCE_S:g} s. Other work may hold the GPUs of Ray, "
                    f"such as a tested model that used Ray.\n\nhint: {WITHOUT_RAY}"
                )
            self._has_waited = True

    def _start(self, node: Node) -> _Engine:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        remote = ray.remote(
            num_gpus=1,
            num_cpus=0,
            max_restarts=0,
            max_concurrency=2 * self._max_in_flight,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
        )
        actor = remote(self._engine_class).remote(**self._options)
        return _Engine(actor=actor, node=node, signature=actor.signature.remote())

    def _hand_out(self, work: _Work) -> Iterator[tuple[int, Outcome]]:
        """Fill the engines, but give none more than its share of what is left."""
        ready = [engine for engine in self._engines if engine.signature is None]
        while work.waiting and ready:
            share = -(-len(work.unfinished) // len(self._engines))
            engine = min(ready, key=lambda candidate: len(candidate.in_flight))
            if len(engine.in_flight) >= min(share, self._max_in_flight):
                return
            index = work.waiting.popleft()
            try:  # no name holds the references: the traceback of an outcome would keep them
                ref = engine.actor.judge.remote(work.requests[index], work.longest_tokens, *work.image_refs(index))
            except RequestBroken as error:
                yield work.finish(index, error)
                continue
            if not engine.in_flight:
                engine.progress_s = time.monotonic()
            engine.in_flight[ref] = index

    def _collect(self, work: _Work) -> list[tuple[int, Outcome]]:
        """Wait for outcomes, and for what happens to engines; a list, as the caller may take its time for each."""
        import ray

        owners = {ref: engine for engine in self._engines for ref in engine.in_flight}
        owners.update({engine.signature: engine for engine in self._engines if engine.signature is not None})
        arrived, _ = ray.wait(list(owners), num_returns=1, timeout=_WAIT_S)
        if arrived:
            arrived, _ = ray.wait(list(owners), num_returns=len(owners), timeout=0)
        outcomes: list[tuple[int, Outcome]] = []
        failures: dict[_Engine, Exception] = {}
        for ref in arrived:
            engine = owners[ref]
            try:
                value = ray.get(ref)
            except ray.exceptions.RayError as error:
                failures.setdefault(engine, error)
                continue
            engine.progress_s = time.monotonic()
            if ref == engine.signature:
                outcomes += self._admit(engine, value, work)
            else:
                if not engine.replies:
                    del self._lost_early[engine.node.id]  # one that was lost is replaced
                engine.replies += 1
                outcomes.append(work.finish(engine.in_flight.pop(ref), value))
        for engine, failure in failures.items():
            outcomes += self._end_failed(engine, failure, work)
        for engine in list(self._engines):
            outcomes += self._end_hung(engine, work)
        return outcomes

    def _admit(self, engine: _Engine, signature: str, work: _Work) -> list[tuple[int, Outcome]]:
        engine.signature = None
        self._signature = self._signature or signature
        if signature == self._signature:
            return []
        message = f"It would not judge as the others do: its signature is `{signature}`, not `{self._signature}`."
        return self._refuse(engine, JudgeMisconfigured(message, hint=_SAME_EVERYWHERE), work)

    def _end_failed(self, engine: _Engine, failure: Exception, work: _Work) -> list[tuple[int, Outcome]]:
        """Refuse an engine that cannot be used, and replace one that was lost."""
        import ray

        cause = failure.cause if isinstance(failure, ray.exceptions.RayTaskError) else failure
        if isinstance(cause, MmieTasksError):
            error = cause if isinstance(cause, JudgeError) else JudgeMisconfigured(cause.message, hint=cause.hint)
            return self._refuse(engine, error, work)
        return self._lose(engine, reason_of(failure), work)

    def _end_hung(self, engine: _Engine, work: _Work) -> list[tuple[int, Outcome]]:
        limit_s = self._deadline_s if engine.replies else max(self._deadline_s, LOADING_LIMIT_S)
        is_busy = bool(engine.in_flight) or engine.signature is not None
        is_hung = is_busy and time.monotonic() > engine.progress_s + limit_s
        return self._lose(engine, f"no reply for {limit_s:g} s", work) if is_hung else []

    def _refuse(self, engine: _Engine, error: JudgeError, work: _Work) -> list[tuple[int, Outcome]]:
        logger.warning(f"MMIE-Score: the engine on {engine.node.name} is not used. {error}")
        if not self._refused:
            self._error = error
        self._refused[engine.node.id] += 1
        return self._end(engine, work)

    def _lose(self, engine: _Engine, reason: str, work: _Work) -> list[tuple[int, Outcome]]:
        text = f"the engine on {engine.node.name} was lost: {reason}"
        logger.warning(f"MMIE-Score: {text}. Its {len(engine.in_flight)} requests go to other engines.")
        if not self._refused:
            self._error = JudgeUnavailable(text)
        if not engine.replies and any(engine.node.id == node.id for node in self._session.nodes()):
            self._lost_early[engine.node.id] += 1
        self._looked_s = -_LOOK_AGAIN_S
        return self._end(engine, work, lost=text)

    def _end(self, engine: _Engine, work: _Work, lost: str = "") -> list[tuple[int, Outcome]]:
        self._engines.remove(engine)
        self._kill(engine)
        return work.give_back(list(engine.in_flight.values()), lost)

    def _kill(self, engine: _Engine) -> None:
        import ray

        if ray.is_initialized():  # else Ray would connect to a cluster first
            ray.kill(engine.actor)

    def _no_engine(self) -> JudgeError:
        return self._error or JudgeMisconfigured("The Ray cluster has no GPU for the judge.", hint=WITHOUT_RAY)
