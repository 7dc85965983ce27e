"""MMIE-Score on many GPUs by Ray: one engine for each GPU of a machine or a cluster, each in a
process of its own.

`EnginePool` is in the process of the run; it hands out single requests to actors of Ray, each with
a `RemoteEngine`, and gives those of an engine that is lost to others. Ray is imported when a pool
connects.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

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
from mmie_tasks.judges.mmie_score.devices import DeviceFull
from mmie_tasks.judges.mmie_score.ray_session import WITHOUT_RAY, Node, RaySession, reason_of
from mmie_tasks.judges.mmie_score.remote import EngineReply, RemoteEngine, image_paths

ObjectRef: TypeAlias = Any  # Ray's; the package does not need Ray
LOADING_LIMIT_S = 3600.0
"""How long an engine may take to its first reply: to start, to get its GPU and to load the weights.
"""

_MAX_LOSSES = 3  # a request in flight when so many engines are lost is not handed out again
_MAX_REPLACED = 2  # engines of a node that were lost before their first reply and are replaced
_LOOK_AGAIN_S = 2.0  # for nodes that have joined or were lost
_WAIT_S = 1.0
_PATIENCE_S = 60.0  # for engines to start, before a warning
_MEMORY_WAIT_S = 30.0
"""Until an engine is started again that found too little free memory: that of a process that has
just ended comes back after seconds."""
_SAME_EVERYWHERE = (
    "install the same versions of torch and mmie-tasks, and use the same checkpoint, on every "
    "machine"
)


@dataclass(eq=False, slots=True, kw_only=True)
class _PoolMember:
    """An engine, as the pool sees it."""

    actor: Any  # Ray's handle
    node: Node
    start: ObjectRef | None  # its signature to come; None after that
    signature: str = ""
    in_flight: dict[ObjectRef, int] = field(default_factory=dict)  # by the reference to the outcome
    replies: int = 0
    # its last reply, or its first request while it was idle
    progress_s: float = field(default_factory=time.monotonic)


@dataclass(slots=True, kw_only=True)
class _NodeFailures:
    """Engines of a node that were refused, without memory, or lost before their first reply."""

    refused: int = 0
    full: int = 0
    lost_early: int = 0
    try_again_s: float = 0.0  # when engines without memory are started again

    @property
    def unusable_gpus(self) -> int:
        """GPUs on which no engine is started any more."""
        return self.refused + max(0, self.lost_early - _MAX_REPLACED)


class _Work:
    """The requests of a call, the longest first, and the image files of those in flight.

    Attributes:
        waiting: Requests to hand out, by index.
        unfinished: Those without an outcome.
        outcomes: Those that the caller has not got yet.
    """

    def __init__(self, requests: Sequence[JudgeRequest], lengths: Sequence[int]) -> None:
        self.requests = requests
        self.longest_tokens = max(lengths, default=0)
        self.waiting = deque(sorted(range(len(requests)), key=lambda index: -lengths[index]))
        self.unfinished = dict.fromkeys(range(len(requests)))
        self.outcomes: deque[tuple[int, Outcome]] = deque()
        self._losses: Counter[int] = Counter()
        self._images: dict[Path, ObjectRef] = {}
        self._users: dict[Path, set[int]] = {}

    def image_refs(self, index: int) -> list[ObjectRef]:
        """The image files of a request in Ray's object store, each put there once while a request
        needs it.
        """
        import ray

        paths = image_paths(self.requests[index])
        for path in paths:
            if path not in self._images:
                self._images[path] = ray.put(image_bytes(path))
            self._users.setdefault(path, set()).add(index)
        return [self._images[path] for path in paths]

    def finish(self, index: int, outcome: Outcome) -> None:
        """Record the outcome of a request, and drop the files that no other one needs."""
        del self.unfinished[index]
        self.outcomes.append((index, outcome))
        for path in image_paths(self.requests[index]):
            users = self._users.get(path, set())
            users.discard(index)
            if not users:
                self._images.pop(path, None)

    def give_back(self, indices: Sequence[int], lost: str) -> None:
        """Have the requests of an engine handed out again, or finish those that have lost too many
        engines.

        `lost` is why the engine was lost; empty if it was refused, which is not the requests'
        fault.
        """
        self._losses.update(indices if lost else ())
        for index in reversed(indices):
            if self._losses[index] < _MAX_LOSSES:
                self.waiting.appendleft(index)
            else:
                text = f"{_MAX_LOSSES} engines were lost while they computed this request; {lost}"
                self.finish(index, JudgeUnavailable(text))


class EnginePool:
    """Engines on all GPUs of a Ray session, and requests handed out to them.

    Args:
        session: The session, connected. The pool closes it.
        options: Of the engines.
        likely_signature: That of the engines, if one has it. Otherwise it is that of the first one.
        limit: The most engines; None for as many as there are GPUs.
        max_in_flight: The most requests in an engine: those that it computes at once and those that
            it prepares.
        deadline_s: How long an engine with requests may go without a reply before it is replaced.
        engine_class: The class of the engines.
    """

    def __init__(
        self,
        session: RaySession,
        options: Mapping[str, object],
        *,
        likely_signature: str,
        limit: int | None,
        max_in_flight: int,
        deadline_s: float,
        engine_class: type = RemoteEngine,
    ) -> None:
        self._session, self._options, self._engine_class = session, options, engine_class
        self._signature: str | None = None
        self._likely_signature, self._limit = likely_signature, limit
        self._max_in_flight, self._deadline_s = max_in_flight, deadline_s
        self._engines: list[_PoolMember] = []
        self._failures: defaultdict[str, _NodeFailures] = defaultdict(_NodeFailures)  # by node
        # Of the first engine that was refused, else of the last that was lost.
        self._error: JudgeError | None = None
        self._looked_s = -_LOOK_AGAIN_S
        self._has_waited = False
        self._warnings: set[str] = set()
        self._machines: set[str] = set()

    def signature(self) -> str:
        """The signature of the engines; waits for the first one, raises if none can be used."""
        while self._signature is None:
            self._look_for_nodes()
            if self._has_ended():
                error = self._no_engine()
                if isinstance(error, JudgeMisconfigured):
                    raise error
                raise JudgeMisconfigured(f"No engine can be used: {error}.", hint=WITHOUT_RAY)
            self._collect(_Work((), ()))
        return self._signature

    def ask(
        self, requests: Sequence[JudgeRequest], lengths: Sequence[int]
    ) -> Iterator[tuple[int, Outcome]]:
        """Yield one outcome for each request as it arrives; if the caller stops before the last,
        the engines end.
        """
        work = _Work(requests, lengths)
        with ExitStack() as stack:
            stack.callback(self.close)
            while work.unfinished:
                self._look_for_nodes()
                if self._has_ended():
                    for index in list(work.unfinished):
                        work.finish(index, self._no_engine())
                else:
                    self._hand_out(work)
                    self._collect(work)
                while work.outcomes:
                    yield work.outcomes.popleft()
            stack.pop_all()

    def close(self) -> None:
        """End the engines and the session, so that their GPUs are free; a later call starts them
        again.
        """
        for engine in self._engines:
            self._kill(engine)
        self._engines.clear()
        self._failures.clear()
        self._looked_s, self._error, self._has_waited = -_LOOK_AGAIN_S, None, False
        self._session.close()

    def machines(self) -> str | None:
        """GPUs and versions of the engines that replied; None before the first reply."""
        return "; ".join(sorted(self._machines)) or None

    def _has_ended(self) -> bool:
        """Whether no engine is left, and none will be tried again."""
        waits = any(self._looked_s < node.try_again_s for node in self._failures.values())
        return not self._engines and not waits

    def _no_engine(self) -> JudgeError:
        return self._error or JudgeMisconfigured(
            "The Ray cluster has no GPU for the judge.", hint=WITHOUT_RAY
        )

    def _look_for_nodes(self) -> None:
        """Start an engine for each GPU that has none."""
        if time.monotonic() < self._looked_s + _LOOK_AGAIN_S:
            return
        self._looked_s = time.monotonic()
        started: Counter[str] = Counter()
        for node in self._session.nodes():
            failures = self._failures[node.id]
            if self._looked_s < failures.try_again_s:
                continue
            running = sum(engine.node.id == node.id for engine in self._engines)
            for _ in range(node.gpus - failures.unusable_gpus - running):
                if self._limit is None or len(self._engines) < self._limit:
                    self._engines.append(self._start(node))
                    started[node.name] += 1
        if started:
            machines = ", ".join(f"{number} on {name}" for name, number in started.items())
            logger.info(f"MMIE-Score: Ray starts engines: {machines}.")
        pending_s = min((self._looked_s - engine.progress_s for engine in self._engines), default=0)
        none_started = all(engine.start is not None for engine in self._engines)
        if pending_s > _PATIENCE_S and none_started and not self._has_waited:
            self._has_waited = True
            logger.warning(
                f"MMIE-Score: no engine has started for {_PATIENCE_S:g} s. Other work may hold the "
                f"GPUs of Ray, such as a tested model that used Ray.\n\nhint: {WITHOUT_RAY}"
            )

    def _start(self, node: Node) -> _PoolMember:
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
        return _PoolMember(actor=actor, node=node, start=actor.signature.remote())

    def _hand_out(self, work: _Work) -> None:
        """Fill the engines, but give none more than its share of what is left."""
        ready = [engine for engine in self._engines if engine.signature == self._signature]
        while work.waiting and ready:
            share = -(-len(work.unfinished) // len(self._engines))
            engine = min(ready, key=lambda candidate: len(candidate.in_flight))
            if len(engine.in_flight) >= min(share, self._max_in_flight):
                return
            index = work.waiting.popleft()
            try:  # no name holds the references: the traceback of an outcome would keep them
                ref = engine.actor.judge.remote(
                    work.requests[index], work.longest_tokens, *work.image_refs(index)
                )
            except RequestBroken as error:
                work.finish(index, error)
                continue
            if not engine.in_flight:
                engine.progress_s = time.monotonic()
            engine.in_flight[ref] = index

    def _collect(self, work: _Work) -> None:
        """Wait for outcomes, and for what happens to engines."""
        import ray

        owners = {ref: engine for engine in self._engines for ref in engine.in_flight}
        owners.update(
            {engine.start: engine for engine in self._engines if engine.start is not None}
        )
        if not owners:  # engines are tried again later
            time.sleep(_WAIT_S)
        arrived, _ = ray.wait(list(owners), num_returns=1, timeout=_WAIT_S)
        if arrived:
            arrived, _ = ray.wait(list(owners), num_returns=len(owners), timeout=0)
        failures: dict[_PoolMember, Exception] = {}
        for ref in arrived:
            engine = owners[ref]
            try:
                value = ray.get(ref)
            except ray.exceptions.RayError as error:
                failures.setdefault(engine, error)
                continue
            engine.progress_s = time.monotonic()
            if ref == engine.start:
                engine.start, engine.signature = None, value
            else:
                self._receive(engine, value)
                work.finish(engine.in_flight.pop(ref), value.outcome)
        for engine, failure in failures.items():
            self._end_failed(engine, failure, work)
        self._end_hung(work)
        self._end_others(work)

    def _receive(self, engine: _PoolMember, reply: EngineReply) -> None:
        """Log what an engine warned of and no other one has, and a GPU of another kind."""
        if not engine.replies:
            self._failures[engine.node.id].lost_early = 0  # one that was lost is replaced
        engine.replies += 1
        for text in reply.warnings:
            if text not in self._warnings:
                self._warnings.add(text)
                logger.warning(f"MMIE-Score, the engine on {engine.node.name}: {text}")
        if reply.machine and reply.machine not in self._machines:
            self._machines.add(reply.machine)
            if len(self._machines) == 2:
                logger.warning(
                    f"MMIE-Score: the engines are on different GPUs ({self.machines()}). Single "
                    "tokens of replies may differ between them."
                )

    def _end_hung(self, work: _Work) -> None:
        for engine in list(self._engines):
            limit_s = self._deadline_s if engine.replies else max(self._deadline_s, LOADING_LIMIT_S)
            is_busy = bool(engine.in_flight) or engine.start is not None
            if is_busy and time.monotonic() > engine.progress_s + limit_s:
                self._lose(engine, f"no reply for {limit_s:g} s", work)

    def _end_others(self, work: _Work) -> None:
        """Refuse the engines that would not judge as the others do.

        The signature is the likely one once an engine has it. Otherwise it is that of the first
        engine, once all have started or have had their time.
        """
        started = [engine for engine in self._engines if engine.start is None]
        if self._signature is None and started:
            first = min(started, key=lambda engine: engine.progress_s)
            is_late = time.monotonic() > first.progress_s + _PATIENCE_S
            if any(engine.signature == self._likely_signature for engine in started):
                self._signature = self._likely_signature
            elif is_late or len(started) == len(self._engines):
                self._signature = first.signature
        for engine in started if self._signature is not None else ():
            if engine.signature != self._signature:
                message = (
                    "It would not judge as the others do: its signature is "
                    f"`{engine.signature}`, not `{self._signature}`."
                )
                self._refuse(engine, JudgeMisconfigured(message, hint=_SAME_EVERYWHERE), work)

    def _end_failed(self, engine: _PoolMember, failure: Exception, work: _Work) -> None:
        """Refuse an engine that cannot be used, and replace one that was lost."""
        import ray

        cause = failure.cause if isinstance(failure, ray.exceptions.RayTaskError) else failure
        match cause:
            case JudgeError():
                self._refuse(engine, cause, work)
            case MmieTasksError():
                self._refuse(engine, JudgeMisconfigured(cause.message, hint=cause.hint), work)
            case _:
                self._lose(engine, reason_of(failure), work)

    def _refuse(self, engine: _PoolMember, error: JudgeError, work: _Work) -> None:
        failures = self._failures[engine.node.id]
        if isinstance(error, DeviceFull) and failures.full < engine.node.gpus:
            failures.full += 1
            failures.try_again_s = time.monotonic() + _MEMORY_WAIT_S
            after = f"is tried again in {_MEMORY_WAIT_S:g} s"
        else:
            failures.refused += 1
            after = "is not used"
        logger.warning(f"MMIE-Score: the engine on {engine.node.name} {after}. {error}")
        if self._refused() <= 1:
            self._error = error
        self._end(engine, work)

    def _lose(self, engine: _PoolMember, reason: str, work: _Work) -> None:
        text = f"the engine on {engine.node.name} was lost: {reason}"
        logger.warning(
            f"MMIE-Score: {text}. Its {len(engine.in_flight)} requests go to other engines."
        )
        if not self._refused():
            self._error = JudgeUnavailable(text)
        if not engine.replies and any(engine.node.id == node.id for node in self._session.nodes()):
            self._failures[engine.node.id].lost_early += 1
        self._looked_s = -_LOOK_AGAIN_S
        self._end(engine, work, lost=text)

    def _refused(self) -> int:
        """How many engines were refused, on all nodes."""
        return sum(failures.refused for failures in self._failures.values())

    def _end(self, engine: _PoolMember, work: _Work, lost: str = "") -> None:
        self._engines.remove(engine)
        self._kill(engine)
        work.give_back(list(engine.in_flight.values()), lost)

    def _kill(self, engine: _PoolMember) -> None:
        import ray

        if ray.is_initialized():  # else Ray would connect to a cluster first
            ray.kill(engine.actor)
