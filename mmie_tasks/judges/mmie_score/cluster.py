"""MMIE-Score on many GPUs by Ray: one engine for each GPU of a machine or a cluster, each in a
process of its own.

`EnginePool` is in the process of the run; it hands out single requests to actors of Ray, each with
a `RemoteEngine`, and gives those of an engine that is lost to others. Ray is imported when a pool
connects.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
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
)
from mmie_tasks.judges.content import image_bytes
from mmie_tasks.judges.mmie_score.memory import DeviceFull
from mmie_tasks.judges.mmie_score.ray_session import WITHOUT_RAY, Node, RaySession, reason_of
from mmie_tasks.judges.mmie_score.remote import EngineReply, RemoteEngine, image_paths

ObjectRef: TypeAlias = Any  # Ray's; the package does not need Ray
LOADING_LIMIT_S = 3600.0
"""How long an engine may take to its first reply: to start, to get its GPU and to load the weights.
"""

_MAX_LOSSES = 3  # of a request's engines, until it is unavailable, and of a GPU's, until it is idle
_WAIT_S = 1.0
_PATIENCE_S = 60.0  # for engines to start, before a warning
_SAME_EVERYWHERE = (
    "install the same versions of torch and mmie-tasks, and use the same checkpoint, on every "
    "machine"
)


@dataclass(eq=False, slots=True, kw_only=True)
class _PoolMember:
    """A GPU and its engine, as the pool sees them."""

    node: Node
    actor: Any  # Ray's handle
    start: ObjectRef | None  # its signature to come; None after that
    signature: str = ""
    in_flight: dict[ObjectRef, int] = field(default_factory=dict)  # by the reference to the outcome
    replies: int = 0
    losses: int = 0  # engines of this GPU without a reply
    # its last reply, or its first request while it was idle
    progress_s: float = field(default_factory=time.monotonic)


class _Work:
    """The requests of a call.

    Attributes:
        waiting: Requests to hand out, by index, in this order.
        unfinished: Those without an outcome.
        outcomes: Those that the caller has not got yet.
    """

    def __init__(self, requests: Sequence[JudgeRequest], order: Sequence[int]) -> None:
        self.requests = requests
        self.waiting = deque(order)
        self.unfinished = set(order)
        self.outcomes: deque[tuple[int, Outcome]] = deque()
        self._losses: Counter[int] = Counter()

    def finish(self, index: int, outcome: Outcome) -> None:
        """Record the outcome of a request."""
        self.unfinished.remove(index)
        self.outcomes.append((index, outcome))

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
        limit: int | None,
        max_in_flight: int,
        deadline_s: float,
        engine_class: type = RemoteEngine,
    ) -> None:
        self._session, self._options, self._engine_class = session, options, engine_class
        self._signature: str | None = None
        self._limit, self._max_in_flight, self._deadline_s = limit, max_in_flight, deadline_s
        self._engines: list[_PoolMember] = []
        # Why no engine is left: of the first that was refused, else of the last that was lost.
        self._error: JudgeError | None = None
        self._warnings: set[str] = set()
        self._machines: set[str] = set()

    def signature(self) -> str:
        """The signature of the engines; waits for the first one, raises if none can be used."""
        self._start_all()
        while self._signature is None:
            if not self._engines:
                error = self._no_engine()
                if isinstance(error, JudgeMisconfigured):
                    raise error
                raise JudgeMisconfigured(f"No engine can be used: {error}.", hint=WITHOUT_RAY)
            self._collect(_Work((), ()))
        return self._signature

    def ask(
        self, requests: Sequence[JudgeRequest], order: Sequence[int]
    ) -> Iterator[tuple[int, Outcome]]:
        """Yield one outcome for each request, handed out in this order, as it arrives; if the
        caller stops before the last, the engines end.
        """
        work = _Work(requests, order)
        with ExitStack() as stack:
            stack.callback(self.close)
            self._start_all()
            while work.unfinished:
                if self._engines:
                    self._hand_out(work)
                    self._collect(work)
                else:
                    for index in list(work.unfinished):
                        work.finish(index, self._no_engine())
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
        self._error = None
        self._session.close()

    def machine(self) -> str | None:
        """GPUs and versions of the engines that replied; None before the first reply."""
        return "; ".join(sorted(self._machines)) or None

    def _no_engine(self) -> JudgeError:
        return self._error or JudgeMisconfigured(
            "The Ray cluster has no GPU for the judge.", hint=WITHOUT_RAY
        )

    def _start_all(self) -> None:
        """Start an engine for each GPU, unless that was done."""
        if self._engines or self._error is not None:
            return
        gpus = [node for node in self._session.nodes() for _ in range(node.gpus)][: self._limit]
        for node in gpus:
            actor = self._new_actor(node)
            self._engines.append(
                _PoolMember(node=node, actor=actor, start=actor.signature.remote())
            )
        names = Counter(node.name for node in gpus)
        machines = ", ".join(f"{number} on {name}" for name, number in names.items())
        logger.info(f"MMIE-Score: Ray starts engines: {machines or 'none'}.")

    def _new_actor(self, node: Node) -> Any:  # noqa: ANN401 - Ray's handle
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        remote = ray.remote(
            num_gpus=1,
            num_cpus=0,
            max_restarts=0,
            max_concurrency=2 * self._max_in_flight,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
        )
        return remote(self._engine_class).remote(**self._options)

    def _hand_out(self, work: _Work) -> None:
        """Fill the engines, but give none more than its share of what is left."""
        ready = [engine for engine in self._engines if engine.signature == self._signature]
        while work.waiting and ready:
            share = -(-len(work.unfinished) // len(self._engines))
            engine = min(ready, key=lambda candidate: len(candidate.in_flight))
            if len(engine.in_flight) >= min(share, self._max_in_flight):
                return
            index = work.waiting.popleft()
            request = work.requests[index]
            try:
                images = [image_bytes(path) for path in image_paths(request)]
            except RequestBroken as error:
                work.finish(index, error)
                continue
            if not engine.in_flight:
                engine.progress_s = time.monotonic()
            ref = engine.actor.judge.remote(request, *images)
            engine.in_flight[ref] = index

    def _collect(self, work: _Work) -> None:
        """Wait for outcomes, and for what happens to engines."""
        import ray

        owners = {ref: engine for engine in self._engines for ref in engine.in_flight}
        owners.update(
            {engine.start: engine for engine in self._engines if engine.start is not None}
        )
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
        self._warn_of_waiting()

    def _receive(self, engine: _PoolMember, reply: EngineReply) -> None:
        """Log what an engine warned of and no other one has, and a GPU of another kind."""
        engine.replies += 1
        engine.losses = 0
        for text in reply.warnings:
            self._warn_once(text, f"MMIE-Score, the engine on {engine.node.name}: {text}")
        if reply.machine is None:
            return
        self._machines.add(reply.machine)
        if len(self._machines) > 1:
            text = (
                f"MMIE-Score: the engines are on different GPUs ({self.machine()}). Single "
                "tokens of replies may differ between them."
            )
            self._warn_once("different GPUs", text)

    def _warn_once(self, key: str, text: str) -> None:
        if key not in self._warnings:
            self._warnings.add(key)
            logger.warning(text)

    def _warn_of_waiting(self) -> None:
        pending = [engine for engine in self._engines if engine.start is not None]
        if len(pending) == len(self._engines) and any(
            time.monotonic() > engine.progress_s + _PATIENCE_S for engine in pending
        ):
            text = (
                f"MMIE-Score: no engine has started for {_PATIENCE_S:g} s. Other work may hold the "
                f"GPUs of Ray, such as a tested model that used Ray.\n\nhint: {WITHOUT_RAY}"
            )
            self._warn_once("waiting", text)

    def _end_hung(self, work: _Work) -> None:
        for engine in list(self._engines):
            limit_s = self._deadline_s if engine.replies else max(self._deadline_s, LOADING_LIMIT_S)
            is_busy = bool(engine.in_flight) or engine.start is not None
            if is_busy and time.monotonic() > engine.progress_s + limit_s:
                self._lose(engine, f"no reply for {limit_s:g} s", work)

    def _end_others(self, work: _Work) -> None:
        """Refuse the engines that would not judge as the first one that started."""
        started = [engine for engine in self._engines if engine.start is None]
        if self._signature is None and started:
            self._signature = started[0].signature
        for engine in started:
            if engine.signature != self._signature:
                message = (
                    "It would not judge as the others do: its signature is "
                    f"`{engine.signature}`, not `{self._signature}`."
                )
                self._refuse(engine, JudgeMisconfigured(message, hint=_SAME_EVERYWHERE), work)

    def _end_failed(self, engine: _PoolMember, failure: Exception, work: _Work) -> None:
        """Refuse an engine that cannot be used, and replace one that was lost or found no memory:
        that of a process that has just ended comes back after seconds.
        """
        import ray

        cause = failure.cause if isinstance(failure, ray.exceptions.RayTaskError) else failure
        match cause:
            case DeviceFull() if engine.losses < _MAX_LOSSES - 1:
                self._lose(engine, str(cause), work)
            case JudgeError():
                self._refuse(engine, cause, work)
            case MmieTasksError():
                self._refuse(engine, JudgeMisconfigured(cause.message, hint=cause.hint), work)
            case _:
                self._lose(engine, reason_of(failure), work)

    def _refuse(self, engine: _PoolMember, error: JudgeError, work: _Work) -> None:
        """End an engine whose GPU is not used any more."""
        logger.warning(f"MMIE-Score: the engine on {engine.node.name} is not used. {error}")
        if self._error is None or isinstance(self._error, JudgeUnavailable):
            self._error = error
        self._engines.remove(engine)
        self._kill(engine)
        work.give_back(list(engine.in_flight.values()), "")

    def _lose(self, engine: _PoolMember, reason: str, work: _Work) -> None:
        """Replace an engine, unless its GPU has lost too many in a row before their first reply, or
        its node with it.
        """
        text = f"the engine on {engine.node.name} was lost: {reason}"
        logger.warning(
            f"MMIE-Score: {text}. Its {len(engine.in_flight)} requests go to other engines."
        )
        if self._error is None:
            self._error = JudgeUnavailable(text)
        self._kill(engine)
        self._engines.remove(engine)
        work.give_back(list(engine.in_flight.values()), text)
        losses = engine.losses + (not engine.replies)
        if losses < _MAX_LOSSES and engine.node in self._session.nodes():
            actor = self._new_actor(engine.node)
            self._engines.append(
                _PoolMember(
                    node=engine.node, actor=actor, start=actor.signature.remote(), losses=losses
                )
            )

    def _kill(self, engine: _PoolMember) -> None:
        import ray

        if ray.is_initialized():  # else Ray would connect to a cluster first
            ray.kill(engine.actor)
